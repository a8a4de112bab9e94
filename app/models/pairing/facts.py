"""What a model is, read from its header alone: size, context, vocabulary, and the memory it will want."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.engine.vocab import VocabInfo
from app.models.gguf import GgufHeader
from app.models.model_names import known_as
from app.models.pairing.graph import Graph
from app.models.pairing.running_state import keeps_running_state
from app.models.pairing.snapshots import keeps_snapshots, state_bytes
from app.settings.model_file import Recommended, recommended

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
"""Tokenizers that put a BOS in front unless the file says otherwise (llama.cpp's src/llama-vocab.cpp)."""
_ALWAYS_ADDS_BOS = "gemma4"
"""One that does whatever the file says, of which earlier conversions said otherwise."""
_F16 = 2
_BLOCK = 32
"""Values that all quantised types of a cache have in a block."""
_COMMON = 0.05
"""Of a mixture of experts, attention and embeddings; 30B-A3B, gpt-oss and Mixtral agree within a tenth."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model as its header describes it.

    Attributes:
        name: What it is called everywhere; see `known_as`.
        architecture: llama.cpp's name.
        quant: Quantisation by the file's name.
        n_parameters: Or None where the header does not hold all tensors.
        n_layers: Transformer blocks.
        n_ctx_train: Context it was trained for, tokens; 0 if it does not say.
        weight_bytes: Bytes of its files.
        kv_bytes_per_token: Bytes that a token of context takes in the KV cache, at 16 bits.
        graph: What computing a batch takes.
        vocab: What decides whether two models can ride together.
        has_chat_template: Whether it says how a conversation is written down.
        can_rollback: Whether a rejected draft can be taken back.
        expert_share: Of its experts, those that compute one token; 1 for a model without.
        recommended: The sampling values that its makers recommend.
        state_bytes: Of one running state; 0 for a model without.
        keeps_snapshots: Whether earlier running states can be kept, so that drafts for it can be taken back.
        header_bytes: Of the files those in front of the tensors, as far as they were read.
        can_quantise_cache: Whether its KV cache may be of fewer bits.
    """

    name: str
    architecture: str
    quant: str
    n_parameters: int | None
    n_layers: int
    n_ctx_train: int
    weight_bytes: int
    kv_bytes_per_token: int
    graph: Graph
    vocab: VocabInfo
    has_chat_template: bool
    can_rollback: bool
    expert_share: float = 1.0
    recommended: Recommended = field(default_factory=Recommended)
    state_bytes: int = 0
    keeps_snapshots: bool = False
    header_bytes: int = 0
    can_quantise_cache: bool = True

    @property
    def can_be_drafted_for(self) -> bool:
        """Whether it can answer with drafts."""
        return self.can_rollback or self.keeps_snapshots

    @property
    def bytes_per_token(self) -> int:
        """Weights that one token reads, about: its experts, and what all of them have in common."""
        return int(self.weight_bytes * (_COMMON + (1 - _COMMON) * self.expert_share))

    def states_bytes(self, n_snapshots: int) -> int:
        """The present running state and as many earlier ones as are asked for and can be kept."""
        return self.state_bytes * (1 + n_snapshots * self.keeps_snapshots)


def model_facts(header: GgufHeader, *, file: str, size: int, quant: str, whole: bool) -> ModelFacts:
    """Read the facts out of a header.

    Args:
        header: Of the file, or of the first part of a split model.
        file: Its name.
        size: Bytes of all parts.
        quant: Quantisation by the name.
        whole: Whether the header is that of the whole model, not of a part.
    """
    name = header.metadata.get("general.name")
    layers, width = header.number("block_count"), header.number("embedding_length")
    return ModelFacts(
        name=known_as(file, _printable(name) if isinstance(name, str) else ""),
        architecture=_printable(header.architecture),
        quant=quant,
        n_parameters=header.n_parameters if whole else None,
        n_layers=layers,
        n_ctx_train=header.number("context_length"),
        weight_bytes=size,
        kv_bytes_per_token=_kv_bytes(header, layers, width),
        graph=_graph(header, width),
        vocab=_vocab(header),
        has_chat_template=isinstance(header.metadata.get("tokenizer.chat_template"), str),
        can_rollback=not keeps_running_state(header.architecture),
        expert_share=_expert_share(header),
        recommended=recommended(header.metadata),
        state_bytes=state_bytes(header),
        keeps_snapshots=keeps_snapshots(header),
        header_bytes=header.n_bytes,
        can_quantise_cache=_has_blocks(header, width),
    )


def _head_widths(header: GgufHeader, width: int) -> tuple[int, int, int]:
    """Query heads, and the widths of a key and of a value."""
    heads = max(1, header.number("attention.head_count"))
    key = header.number("attention.key_length") or width // heads
    return heads, key, header.number("attention.value_length") or width // heads


def _has_blocks(header: GgufHeader, width: int) -> bool:
    """Whether keys and values divide into ggml's blocks, without which llama.cpp quantises no cache."""
    _, *widths = _head_widths(header, width)
    widths += [header.number("attention.key_length_swa"), header.number("attention.value_length_swa")]
    return not any(n % _BLOCK for n in widths)


def _graph(header: GgufHeader, width: int) -> Graph:
    heads, key, value = _head_widths(header, width)
    kv_heads = min(header.number("attention.head_count_kv") or heads, heads)
    experts = header.number("expert_feed_forward_length") * header.number("expert_used_count")
    return Graph(
        embedding=width,
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


def _kv_bytes(header: GgufHeader, layers: int, width: int) -> int:
    """Keys and values of all layers for one token; sliding windows, which need less, are counted as whole ones."""
    heads, key, value = _head_widths(header, width)
    kv_heads = header.of_architecture("attention.head_count_kv")
    if isinstance(kv_heads, list):
        total = sum(n for n in kv_heads if isinstance(n, int) and n > 0)
    else:
        total = layers * (kv_heads if isinstance(kv_heads, int) and kv_heads > 0 else heads)
    return _F16 * total * (key + value)


def _vocab(header: GgufHeader) -> VocabInfo:
    metadata = header.metadata
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    add_bos = metadata.get("tokenizer.ggml.add_bos_token")
    add_eos = metadata.get("tokenizer.ggml.add_eos_token")
    if not isinstance(add_bos, bool):
        add_bos = kind in _ADDS_BOS_KINDS or pre in _ADDS_BOS_PRES
    bos, eos = metadata.get("tokenizer.ggml.bos_token_id"), metadata.get("tokenizer.ggml.eos_token_id")
    return VocabInfo(
        kind=kind if isinstance(kind, str) else "",
        tokens=header.tokens,
        bos=bos if isinstance(bos, int) else None,
        eos=eos if isinstance(eos, int) else None,
        add_bos=add_bos or _ALWAYS_ADDS_BOS in (kind, pre),
        add_eos=add_eos is True,
    )


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:80].strip()
