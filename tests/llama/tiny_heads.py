"""Random models with draft layers: single and chained MTP layers, EAGLE-3 heads and blocks."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.llama.gguf_files import BOOL, I32, STRING, Array
from tests.llama.tiny_model import (
    F32,
    N_VOCAB,
    NORMAL,
    TINY,
    Shapes,
    Size,
    architecture_values,
    experts,
    in_layers,
    vocabulary,
    write_tensors,
)

BLOCK, MASK = 8, 1
_D2T_TYPE = 27
_Q8_0 = 8
_BLOCK_VALUES = 32
"""Values of a Q8_0 block: a scale and a byte each."""
_UNQUANTIZED = re.compile("ffn_gate_inp|conv_base")
"""Matrices that are never quantized."""


def write_target(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a llama of four layers."""
    layer = {**size.pre, **size.attention(), **size.feed_forward}
    return write_layers(path, "llama", {}, size, size.model, [layer] * 4 * size.n_repeats, **changes)


def write_mtp(path: Path, size: Size = TINY, /, *, mtp: bool = True, **changes: Any) -> Path:
    """Write a Qwen3.5 hybrid, by default with an MTP layer."""
    own: dict[str, Any] = {
        "nextn_predict_layers": 1 if mtp else None,
        "full_attention_interval": 2,
        "rope.dimension_sections": Array(I32, [size.head // 4, size.head // 8, size.head // 8, 0]),
        "ssm.conv_kernel": 4,
        "ssm.inner_size": size.width,
        "ssm.state_size": size.head,
        "ssm.time_step_rank": size.n_heads,
        "ssm.group_count": 1,
    }
    recurrence: Shapes = {
        "attn_qkv.weight": (size.width, 2 * size.head + size.width),
        "attn_gate.weight": (size.width, size.width),
        "ssm_conv1d.weight": (4, 2 * size.head + size.width),
        "ssm_dt.bias": (size.n_heads,),
        "ssm_a": (size.n_heads,),
        "ssm_beta.weight": (size.width, size.n_heads),
        "ssm_alpha.weight": (size.width, size.n_heads),
        "ssm_norm.weight": (size.head,),
        "ssm_out.weight": (size.width, size.width),
    }
    both: Shapes = {"attn_norm.weight": (size.width,), "post_attention_norm.weight": (size.width,), **size.feed_forward}
    attention = {**both, **size.attention(1, 2), **size.normed}
    layers = [{**both, **recurrence}, attention] * size.n_repeats + [{**attention, **_nextn(size)}] * mtp
    return write_layers(path, "qwen35", own, size, size.model, layers, **changes)


def write_dense_mtp(path: Path, size: Size = TINY, /, *, is_alone: bool = False, **changes: Any) -> Path:
    """Write a GLM-4.5 mixture of experts, whose cache can be cut anywhere, with an MTP layer."""
    own: dict[str, Any] = {
        "nextn_predict_layers": 1,
        "expert_count": 4,
        "expert_used_count": 2,
        "expert_shared_count": 1,
        "leading_dense_block_count": 1,
        "expert_feed_forward_length": size.forward,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": True,
        "expert_gating_func": 2,
    }
    norms: Shapes = {"attn_norm.weight": (size.width,), "post_attention_norm.weight": (size.width,)}
    routed = experts(size)
    attention = {**norms, **size.attention()}
    layers = [{**attention, **size.feed_forward}, *[{**attention, **routed}] * (2 * size.n_repeats - 1)]
    layers = [{} if is_alone else layer for layer in layers] + [{**attention, **routed, **_nextn(size)}]
    shapes = {**size.model, "output.weight": (size.width, size.n_vocab)}
    return write_layers(path, "glm4moe", own, size, shapes, layers, **changes)


def write_chain(
    path: Path, size: Size = TINY, /, *, architecture: str = "step35", lacks: str = "-", **changes: Any
) -> Path:
    """Write a Step-3.5 (step35), MiMo-V2 (mimo2) or Hunyuan 3 (hy_v3) with three MTP layers.

    The last layer has no tensors whose names contain `lacks`.
    """
    n_trunk = 2 * size.n_repeats
    own: dict[str, Any] = {
        "nextn_predict_layers": 3,
        "expert_count": 4,
        "expert_used_count": 2,
        "expert_feed_forward_length": size.forward,
        "expert_shared_feed_forward_length": size.forward,
    }
    attention, routed = {**size.pre, **size.attention()}, experts(size)
    if architecture == "hy_v3":
        del routed["exp_probs_b.bias"]
    else:
        windows = [n % 2 > 0 or n >= n_trunk for n in range(n_trunk + 3)]
        own |= {"attention.sliding_window": 64, "attention.sliding_window_pattern": Array(BOOL, windows)}
    if architecture == "mimo2":
        routed = {name: shape for name, shape in routed.items() if "shexp" not in name}
        del attention["attn_q.weight"], attention["attn_k.weight"], attention["attn_v.weight"]
        attention |= {"attn_qkv.weight": (size.width, 3 * size.width), "attn_sinks.weight": (size.n_heads,)}
    else:
        attention |= size.normed
    if architecture == "step35":
        attention |= {"attn_gate.weight": (size.width, size.n_heads)}
    dense = {**attention, **size.feed_forward}
    mixture = {**attention, **routed}
    head = {**dense, **_nextn(size)}
    last = {name: shape for name, shape in head.items() if lacks not in name}
    layers = [*[dense, mixture] * size.n_repeats, head, head, last]
    shapes = {**size.model, "output.weight": (size.width, size.n_vocab)}
    return write_layers(path, architecture, own, size, shapes, layers, **changes)


def _nextn(size: Size) -> Shapes:
    return {
        "nextn.eh_proj.weight": (2 * size.width, size.width),
        "nextn.enorm.weight": (size.width,),
        "nextn.hnorm.weight": (size.width,),
        "nextn.shared_head_norm.weight": (size.width,),
    }


def write_gemma4(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a Gemma 4 of four layers, every other layer with a sliding window."""
    norms: Shapes = {"post_attention_norm.weight": (size.width,), "post_ffw_norm.weight": (size.width,)}
    layer = {**size.pre, **norms, **size.attention(), **size.normed, **size.feed_forward}
    own: dict[str, Any] = {
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": Array(BOOL, [True, False] * 2 * size.n_repeats),
        "attention.key_length_swa": size.head,
        "attention.value_length_swa": size.head,
        "embedding_length_per_layer_input": 0,
    }
    shapes = {**size.model, "rope_freqs.weight": (size.head // 2,)}
    return write_layers(path, "gemma4", own, size, shapes, [layer] * 4 * size.n_repeats, **changes)


def write_gemma4_mtp(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write the MTP layers of a Gemma 4 in a separate file, which share its KV cache."""
    width = size.width // 2
    own: dict[str, Any] = {
        "embedding_length": width,
        "embedding_length_out": size.width,
        "nextn_predict_layers": 2,
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": Array(BOOL, [True, False]),
        "attention.key_length_swa": size.head,
        "attention.value_length_swa": size.head,
    }
    layer: Shapes = {
        "attn_norm.weight": (width,),
        "attn_q.weight": (width, size.width),
        "attn_output.weight": (size.width, width),
        "attn_q_norm.weight": (size.head,),
        "post_attention_norm.weight": (width,),
        "layer_output_scale.weight": (1,),
        "ffn_norm.weight": (width,),
        "ffn_gate.weight": (width, size.forward),
        "ffn_up.weight": (width, size.forward),
        "ffn_down.weight": (size.forward, width),
        "post_ffw_norm.weight": (width,),
    }
    shapes: Shapes = {
        "token_embd.weight": (width, size.n_vocab),
        "output_norm.weight": (width,),
        "rope_freqs.weight": (size.head // 2,),
        "nextn.pre_projection.weight": (2 * size.width, width),
        "nextn.post_projection.weight": (width, size.width),
    }
    return write_layers(path, "gemma4-assistant", own, size, shapes, [layer] * 2, **changes)


def write_mtp_alone(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write the MTP layer of `write_dense_mtp` in a separate file."""
    return write_dense_mtp(path, size, is_alone=True, **changes)


def write_eagle3(path: Path, size: Size = TINY, /, *, d2t: list[int] | None = None, **changes: Any) -> Path:
    """Write an EAGLE-3 head; `d2t` are the target's tokens of a reduced vocabulary."""
    own: dict[str, Any] = {"target_layers": Array(I32, [1, 2, 3]), "target_hidden_size": size.width}
    n_vocab = size.n_vocab if d2t is None else len(d2t)
    shapes = {"fc.weight": (3 * size.width, size.width), "output_norm.weight": (size.width,)}
    shapes["output.weight"] = (size.width, n_vocab)
    layer = {**size.pre, "attn_norm_2.weight": (size.width,), **size.attention(2), **size.feed_forward}
    return write_layers(path, "eagle3", own, size, shapes, [layer], d2t=d2t, **changes)


def write_dflash(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a DFlash block of two layers, which shares embeddings and output with its target."""
    own: dict[str, Any] = {"target_layers": Array(I32, [1, 3]), "block_size": BLOCK}
    changes.setdefault("tokenizer__ggml__mask_token_id", MASK)
    return write_layers(path, "dflash", own, size, _block(size), [size.normed_layer] * 2, **changes)


def write_dspark(
    path: Path, size: Size = TINY, /, *, d2t: list[int] | None = None, confidence: bool = True, **changes: Any
) -> Path:
    """Write a DSpark block: a DFlash block with a Markov head and, with `confidence`, predictions of the acceptance."""
    own: dict[str, Any] = {"target_layers": Array(I32, [1, 3]), "block_size": BLOCK}
    changes.setdefault("tokenizer__ggml__mask_token_id", MASK)
    rank, n_vocab = size.head, size.n_vocab if d2t is None else len(d2t)
    shapes = {**_block(size), "markov_w1.weight": (rank, size.n_vocab), "markov_w2.weight": (rank, n_vocab)}
    shapes |= {"output.weight": (size.width, n_vocab)} if d2t is not None else {}
    shapes |= {"conf_proj.weight": (size.width + rank, 1), "conf_proj.bias": (1,)} if confidence else {}
    return write_layers(path, "dflash", own, size, shapes, [size.normed_layer] * 2, d2t=d2t, **changes)


def _block(size: Size) -> Shapes:
    return {
        "fc.weight": (2 * size.width, size.width),
        "enc.output_norm.weight": (size.width,),
        "output_norm.weight": (size.width,),
    }


CANDIDATES = 4


def write_dflash2(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a DFlash2 block: a DFlash block with convolutions and a selector of candidates."""
    kernel, group, rank = 3, size.head, size.head
    own: dict[str, Any] = {
        "target_layers": Array(I32, [1, 3]),
        "block_size": BLOCK,
        "conv_kernel_size": kernel,
        "conv_group_size": group,
        "selector_rank": rank,
        "selector_top_k": CANDIDATES,
    }
    changes.setdefault("tokenizer__ggml__mask_token_id", MASK)
    dynamic = (size.width, 2 * kernel * size.width // group)
    convolutions = {
        name: shape
        for part in ("attn", "ffn")
        for name, shape in {f"{part}_conv_base": (size.width, kernel, 2), f"{part}_conv_proj.weight": dynamic}.items()
    }
    shapes: Shapes = {
        **_block(size),
        "selector_predecessor.weight": (rank, size.n_vocab),
        "selector_successor.weight": (rank, size.n_vocab),
        "selector_hidden.weight": (size.width, rank),
    }
    return write_layers(path, "dflash", own, size, shapes, [{**size.normed_layer, **convolutions}] * 2, **changes)


def write_layers(
    path: Path,
    architecture: str,
    own: dict[str, Any],
    size: Size,
    shapes: Shapes,
    layers: list[Shapes],
    *,
    d2t: list[int] | None = None,
    seed: int = 0,
    spread: float = 1.0,
    **changes: Any,
) -> Path:
    """Write a model of random tensors; `changes` are metadata with `__` for dots, None leaves a key out.

    `spread` scales the embeddings, and the logits where they are the output as well.
    """
    general = {
        "context_length": 1024,
        "embedding_length": size.width,
        "block_count": len(layers),
        "feed_forward_length": size.forward,
        "attention.head_count": size.n_heads,
        "attention.head_count_kv": size.n_heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.key_length": size.head,
        "attention.value_length": size.head,
        "rope.dimension_count": size.head,
    }
    template = "<|start|>{{ messages[-1].content }}<|end|>"
    metadata = architecture_values(architecture, {**general, **own}) | {"tokenizer.chat_template": template}
    if more := [f"t{n}" for n in range(size.n_vocab - N_VOCAB)]:
        metadata["tokenizer.ggml.tokens"] = Array(STRING, vocabulary() + more)
        types = metadata["tokenizer.ggml.token_type"].values
        metadata["tokenizer.ggml.token_type"] = Array(I32, types + [NORMAL] * len(more))
    metadata |= {key.replace("__", "."): value for key, value in changes.items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}

    def encode(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> tuple[int, bytes]:
        scale = spread if name == "token_embd.weight" else 1.0 if len(shape) == 1 else shape[0] ** -0.5
        if name == "d2t":
            return _D2T_TYPE, np.array(d2t, "<i8").tobytes()
        if size.quantized and len(shape) > 1 and shape[0] % _BLOCK_VALUES == 0 and not _UNQUANTIZED.search(name):
            return _Q8_0, _quantized(rng, int(np.prod(shape)), scale)
        numbers = scale * rng.normal(size=int(np.prod(shape)))
        numbers = -np.abs(numbers) if name.endswith("ssm_a") else numbers
        is_plain = name.endswith(("norm.weight", "rope_freqs.weight", "output_scale.weight"))
        return F32, (np.ones_like(numbers) if is_plain else numbers).astype("<f4").tobytes()

    table: Shapes = {"d2t": (len(d2t),)} if d2t is not None else {}
    return write_tensors(path, metadata, {**shapes, **in_layers(layers), **table}, seed, encode)


def _quantized(rng: np.random.Generator, n: int, scale: float) -> bytes:
    """Return random Q8_0 blocks with the standard deviation `scale`."""
    blocks = np.empty(n // _BLOCK_VALUES, np.dtype([("scale", "<f2"), ("values", "i1", _BLOCK_VALUES)]))
    blocks["scale"] = scale / 74
    blocks["values"] = rng.integers(-127, 128, (len(blocks), _BLOCK_VALUES), np.int8)
    return blocks.tobytes()


def _reduced_eagle3(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a head for a third of the vocabulary."""
    return write_eagle3(path, size, d2t=[*range(2, size.n_vocab, 3)], **changes)


def _reduced_dspark(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a block that drafts after the last token, from a third of the vocabulary, without confidence."""
    changes |= {"dflash__sample_from_anchor": False, "dflash__attention__causal": True}
    return write_dspark(path, size, d2t=[*range(2, size.n_vocab, 3)], confidence=False, **changes)


@dataclass(frozen=True)
class DraftKind:
    """Writers of a target and of a separate draft file, and llama-server's name for this drafting, if known."""

    target: Callable[..., Path]
    draft: Callable[..., Path] | None
    server: str | None = None

    def write(self, folder: Path, size: Size = TINY) -> tuple[Path, Path | None]:
        """Write the files of the target and of the draft."""
        draft = self.draft(folder / "draft.gguf", size) if self.draft is not None else None
        return self.target(folder / "target.gguf", size), draft


_WINDOW = {"gemma4__attention__sliding_window": 32}
_DRAFT_WINDOW = {"gemma4-assistant__attention__sliding_window": 32}
KINDS = {
    "mtp-hybrid": DraftKind(write_mtp, None, "draft-mtp"),
    "mtp-dense": DraftKind(write_dense_mtp, None, "draft-mtp"),
    "chain-step35": DraftKind(write_chain, None, "draft-mtp"),
    "chain-hy_v3": DraftKind(partial(write_chain, architecture="hy_v3"), None),
    "chain-mimo2": DraftKind(partial(write_chain, architecture="mimo2"), None),
    "mtp-alone": DraftKind(write_dense_mtp, write_mtp_alone, "draft-mtp"),
    "gemma4": DraftKind(write_gemma4, write_gemma4_mtp, "draft-mtp"),
    "gemma4-window": DraftKind(partial(write_gemma4, **_WINDOW), partial(write_gemma4_mtp, **_DRAFT_WINDOW)),
    "eagle3": DraftKind(write_target, write_eagle3, "draft-eagle3"),
    "eagle3-reduced": DraftKind(write_target, _reduced_eagle3, "draft-eagle3"),
    "dflash": DraftKind(write_target, write_dflash, "draft-dflash"),
    "dflash2": DraftKind(write_target, write_dflash2, "draft-dflash"),
    "dspark": DraftKind(write_target, write_dspark, "draft-dspark"),
    "dspark-reduced": DraftKind(write_target, _reduced_dspark, "draft-dspark"),
}
"""Every kind of draft that reads the target's hidden rows."""
