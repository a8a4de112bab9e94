"""Model properties from a GGUF header: size, layers, context, vocabulary, graph widths, recurrent state."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from app.core.printable import printable
from app.engine.vocab_compatibility import VocabInfo
from app.models.draft_kinds import HeadFacts, head_facts
from app.models.gguf import GgufHeader, read_header
from app.models.layer_memory import (
    SHARED_SHARE,
    cached_layers,
    head_widths,
    kv_bytes,
    recurrent_layers,
    state_values,
    window_share,
)
from app.models.model_names import known_as, part_of, parts_here, quantization
from app.settings.checking import recommended
from app.settings.layers import Layer
from app.settings.placement import EXPERTS

_ADDS_BOS_KINDS = ("llama", "bert")
_ADDS_BOS_PRES = (
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "tekken",
    "chameleon",
)
"""Tokenizers that add a BOS token unless the file says otherwise (llama.cpp's src/llama-vocab.cpp)."""
_ALWAYS_ADDS_BOS = "gemma4"
"""Tokenizer that adds BOS whatever the file says, because earlier conversions were wrong."""
_LONGEST_NAME = 80
_F32_BYTES = 4
_CACHE_BLOCK = 32
"""Values in a block of a quantized KV cache."""
EXPERT = re.compile(rf"blk\.([0-9]{{1,4}}){EXPERTS}")
"""Name of a tensor of experts, with its layer."""
LAYER_TENSOR = re.compile(r"blk\.([0-9]{1,4})\.(.+)")
"""Name of a tensor of a layer, with its layer and its part."""

_RECURRENT_ARCHITECTURES = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
_HYBRID_ARCHITECTURES = frozenset(
    {"falcon-h1", "granitehybrid", "jamba", "kimi-linear", "minimax-01", "plamo2", "qwen3next"}
)
_HYBRID_WITH_ROLLBACK = frozenset(
    {
        "bailingmoe3",
        "deepseek4",
        "glm5-next",
        "kimi-k3",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
        "qwen4exp",
    }
)
"""Hybrids whose earlier states llama.cpp can store (`llm_arch_supports_rs_rollback` in its src/llama-arch.cpp)."""


@dataclass(frozen=True, slots=True)
class GraphWidths:
    """Widths of a model's compute graph, in values per token and of all heads together.

    Attributes:
        feed_forward: Widest feed-forward block; for a mixture, all experts of a token.
        masks: Number of attention masks; sliding-window models have two.
    """

    embedding: int
    feed_forward: int
    query: int
    key_value: int
    heads: int
    vocabulary: int
    masks: int = 1


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Properties of a model, from its header.

    Attributes:
        name: Displayed name; see `known_as`.
        n_parameters: None if the header does not list all tensors.
        n_ctx_train: Training context in tokens; 0 if unknown.
        kv_bytes_per_token: KV cache of one token at 16 bits, without MTP layers.
        can_rollback: Whether rejected tokens can be removed from its cache.
        expert_share: Share of the experts that compute a token; 1 without experts.
        recommended: Sampling values recommended by the file.
        state_bytes: A recurrent state; 0 without one.
        keeps_snapshots: Whether llama.cpp can store earlier states, so that it can verify drafts.
        header_bytes: Bytes before the tensors, if they were read.
        n_cached: Number of leading layers that store a part of the context.
        mtp_fault: Why llama.cpp would abort on the MTP layers, as a clause.
        window: Sliding window in tokens; 0 if its cache must hold every token.
        window_share: Share of the KV cache in layers with a sliding window.
        head: Facts of an EAGLE-3 head or DFlash block; None for other models.
    """

    name: str
    architecture: str
    quant: str
    n_parameters: int | None
    n_layers: int
    n_ctx_train: int
    weight_bytes: int
    kv_bytes_per_token: int
    graph: GraphWidths
    vocab: VocabInfo
    has_chat_template: bool
    can_rollback: bool
    expert_share: float = 1.0
    expert_bytes: int = 0
    expert_layers: int = 0
    recommended: Layer = field(default_factory=dict)
    state_bytes: int = 0
    keeps_snapshots: bool = False
    header_bytes: int = 0
    can_quantize_cache: bool = True
    n_mtp_layers: int = 0
    n_cached: int = 0
    mtp_fault: str | None = None
    window: int = 0
    window_share: float = 0.0
    head: HeadFacts | None = None

    @property
    def bytes_per_token(self) -> int:
        """Weights read for one token, in bytes."""
        return self.weight_bytes - int(self.expert_bytes * (1 - self.expert_share))


def read_facts(path: Path, *, vocabulary: bool = True) -> ModelFacts:
    """Read the facts of a file on disk, or of a split model from its first part; see `app.models.gguf.read_header`.

    Raises ModelFileError.
    """
    header = read_header(path, tensors=True, vocabulary=vocabulary)
    return model_facts(header, file=path.name, size=sum(part.stat().st_size for part in parts_here(path)))


def model_facts(header: GgufHeader, *, file: str, size: int) -> ModelFacts:
    """Derive the facts from the header of a file, or of a split model's first part; `size` is the size of all parts.

    In a repository, the file name includes its folders.
    """
    name = header.metadata.get("general.name")
    expert_bytes, expert_layers = _experts(header, size, is_whole=part_of(file) is None)
    n_mtp_layers, mtp_fault = _mtp_layers(header)
    return ModelFacts(
        name=known_as(file, printable(name)[:_LONGEST_NAME].strip() if isinstance(name, str) else ""),
        architecture=printable(header.architecture)[:_LONGEST_NAME],
        quant=quantization(file),
        n_parameters=header.n_parameters if part_of(file) is None else None,
        n_layers=header.number("block_count"),
        n_ctx_train=header.number("context_length"),
        weight_bytes=size,
        kv_bytes_per_token=kv_bytes(header),
        graph=_graph(header),
        vocab=_vocab(header),
        has_chat_template=isinstance(header.metadata.get("tokenizer.chat_template"), str),
        can_rollback=not is_recurrent(header.architecture),
        expert_share=_expert_share(header),
        expert_bytes=expert_bytes,
        expert_layers=expert_layers,
        recommended=recommended(header.metadata),
        state_bytes=_F32_BYTES * state_values(header) * recurrent_layers(header),
        keeps_snapshots=keeps_snapshots(header),
        header_bytes=header.n_bytes,
        can_quantize_cache=_has_whole_blocks(header),
        n_mtp_layers=n_mtp_layers,
        n_cached=cached_layers(header),
        mtp_fault=mtp_fault,
        window=0 if is_recurrent(header.architecture) else header.number("attention.sliding_window"),
        window_share=window_share(header),
        head=head_facts(header),
    )


def _mtp_layers(header: GgufHeader) -> tuple[int, str | None]:
    n = header.number("nextn_predict_layers")
    if not n or not header.tensors or "split.count" in header.metadata:
        return n, None
    layers: dict[int, set[str]] = {}
    for match in filter(None, map(LAYER_TENSOR.match, header.tensors)):
        layers.setdefault(int(match[1]), set()).add(match[2])
    found = sum("nextn.eh_proj.weight" in parts for parts in layers.values())
    if not found:
        return 0, None
    if n > found:
        return n, f"the file has only {found:,} of them"
    first, *others = (layers.get(header.number("block_count") - i, set()) for i in range(n, 0, -1))
    required = {part for part in first if not part.startswith("nextn.")}
    return n, None if all(required <= parts for parts in others) else "one of them lacks tensors"


def is_recurrent(architecture: str) -> bool:
    """Return whether an architecture has recurrent state, which cannot be cut back (llama.cpp's src/llama-arch.cpp)."""
    return architecture in _RECURRENT_ARCHITECTURES | _HYBRID_ARCHITECTURES | _HYBRID_WITH_ROLLBACK


def keeps_snapshots(header: GgufHeader) -> bool:
    """Return whether llama.cpp can store earlier recurrent states of this model."""
    return header.architecture in _HYBRID_WITH_ROLLBACK


def _has_whole_blocks(header: GgufHeader) -> bool:
    _, *widths = head_widths(header)
    widths += [header.number("attention.key_length_swa"), header.number("attention.value_length_swa")]
    return not any(n % _CACHE_BLOCK for n in widths)


def _graph(header: GgufHeader) -> GraphWidths:
    heads, key, value = head_widths(header)
    kv_heads = min(header.number("attention.head_count_kv") or heads, heads)
    experts = header.number("expert_feed_forward_length") * header.number("expert_used_count")
    return GraphWidths(
        embedding=header.number("embedding_length"),
        feed_forward=max(header.number("feed_forward_length"), experts),
        query=heads * key,
        key_value=kv_heads * (key + value),
        heads=heads,
        vocabulary=len(header.tokens),
        masks=2 if header.number("attention.sliding_window") else 1,
    )


def _expert_share(header: GgufHeader) -> float:
    experts, used = header.number("expert_count"), header.number("expert_used_count")
    return used / experts if 0 < used < experts else 1.0


def _experts(header: GgufHeader, size: int, *, is_whole: bool) -> tuple[int, int]:
    """Return the bytes of all experts and the number of layers with experts; guessed for a split model."""
    if _expert_share(header) == 1:
        return 0, 0
    tensors = [(match[1], n) for name, n in header.tensor_bytes(size) if (match := EXPERT.match(name))]
    if tensors and is_whole:
        return min(size, sum(n for _, n in tensors)), len({layer for layer, _ in tensors})
    return int((1 - SHARED_SHARE) * size), header.number("block_count")


def _vocab(header: GgufHeader) -> VocabInfo:
    metadata = header.metadata
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    add_bos = metadata.get("tokenizer.ggml.add_bos_token")
    if not isinstance(add_bos, bool):
        add_bos = kind in _ADDS_BOS_KINDS or pre in _ADDS_BOS_PRES
    bos, eos = metadata.get("tokenizer.ggml.bos_token_id"), metadata.get("tokenizer.ggml.eos_token_id")
    return VocabInfo(
        kind=kind if isinstance(kind, str) else "",
        tokens=header.tokens,
        bos=bos if isinstance(bos, int) else None,
        eos=eos if isinstance(eos, int) else None,
        add_bos=add_bos or _ALWAYS_ADDS_BOS in (kind, pre),
        add_eos=metadata.get("tokenizer.ggml.add_eos_token") is True,
    )
