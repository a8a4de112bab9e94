"""Language models of a hundred kilobytes whose caches cannot be cut anywhere.

Hybrids of one recurrent and one attention layer: llama.cpp can roll back the last tokens of Qwen3.5 and LFM2, and none
of Granite-H. Mamba 2 has recurrence only. Gemma 3 has sliding windows: a saved sequence leaves out what lies before.
"""

from pathlib import Path
from typing import Any

from tests.llama.gguf_files import I32, Array
from tests.llama.tiny_heads import Size, write_mtp
from tests.llama.tiny_model import EMBEDDING, FORWARD, architecture_values, in_layers, vocabulary, write_tensors

_HEAD, _HEADS = 32, 1
"""A head of 32 values, so that a q8_0 cache fits."""
_STATE, _WIDE = 16, 2 * EMBEDDING
_CONV = 4
WINDOW = 32
_FEED_FORWARD = {
    "ffn_gate.weight": (EMBEDDING, FORWARD),
    "ffn_up.weight": (EMBEDDING, FORWARD),
    "ffn_down.weight": (FORWARD, EMBEDDING),
}
_ATTENTION = {
    "attn_k.weight": (EMBEDDING, _HEADS * _HEAD),
    "attn_v.weight": (EMBEDDING, _HEADS * _HEAD),
    "attn_output.weight": (_HEADS * _HEAD, EMBEDDING),
}
_NORMED = {"attn_q_norm.weight": (_HEAD,), "attn_k_norm.weight": (_HEAD,)}

_MAMBA_2: dict[str, Any] = {
    "ssm.conv_kernel": _CONV,
    "ssm.inner_size": _WIDE,
    "ssm.state_size": _STATE,
    "ssm.time_step_rank": _WIDE // _STATE,
    "ssm.group_count": 1,
}
_RECURRENCE: dict[str, tuple[int, ...]] = {
    "ssm_in.weight": (EMBEDDING, 2 * _WIDE + 2 * _STATE + _WIDE // _STATE),
    "ssm_conv1d.weight": (_CONV, _WIDE + 2 * _STATE),
    "ssm_conv1d.bias": (_WIDE + 2 * _STATE,),
    "ssm_dt.bias": (_WIDE // _STATE,),
    "ssm_a": (1, _WIDE // _STATE),
    "ssm_d": (1, _WIDE // _STATE),
    "ssm_norm.weight": (_WIDE, 1),
    "ssm_out.weight": (_WIDE, EMBEDDING),
}


def write_qwen35(path: Path, seed: int = 0) -> Path:
    """Write a Qwen3.5: a gated delta rule, then attention."""
    size = Size(n_heads=_HEADS, head=_HEAD)
    return write_mtp(path, size, mtp=False, seed=seed, qwen35__context_length=512, tokenizer__chat_template=None)


def write_lfm2(path: Path, seed: int = 0, *, window: int = 0) -> Path:
    """A short convolution, then attention, perhaps within a sliding window."""
    own: dict[str, Any] = {"attention.head_count_kv": Array(I32, [0, _HEADS]), "shortconv.l_cache": 3}
    own["attention.sliding_window"] = window
    convolution = {
        "shortconv.conv.weight": (3, EMBEDDING),
        "shortconv.in_proj.weight": (EMBEDDING, 3 * EMBEDDING),
        "shortconv.out_proj.weight": (EMBEDDING, EMBEDDING),
    }
    attention = {"attn_q.weight": (EMBEDDING, _HEADS * _HEAD), **_ATTENTION, **_NORMED}
    both = {"attn_norm.weight": (EMBEDDING,), "ffn_norm.weight": (EMBEDDING,), **_FEED_FORWARD}
    return _write(path, "lfm2", own, "token_embd_norm", [{**both, **convolution}, {**both, **attention}], seed)


def write_granite_hybrid(path: Path, seed: int = 0) -> Path:
    """Mamba 2, then attention."""
    own: dict[str, Any] = {"attention.head_count_kv": Array(I32, [0, _HEADS]), **_MAMBA_2}
    attention = {"attn_q.weight": (EMBEDDING, _HEADS * _HEAD), **_ATTENTION}
    both = {"attn_norm.weight": (EMBEDDING,), "ffn_norm.weight": (EMBEDDING,), **_FEED_FORWARD}
    return _write(path, "granitehybrid", own, "output_norm", [{**both, **_RECURRENCE}, {**both, **attention}], seed)


def write_mamba2(path: Path, seed: int = 0) -> Path:
    """Recurrence only."""
    layer = {"attn_norm.weight": (EMBEDDING,), **_RECURRENCE}
    return _write(path, "mamba2", {**_MAMBA_2, "attention.head_count_kv": 0}, "output_norm", [layer, layer], seed)


def write_windowed_lfm2(path: Path) -> Path:
    """A short convolution, then attention within a sliding window."""
    return write_lfm2(path, window=WINDOW)


def write_gemma3(path: Path, seed: int = 0, **changes: Any) -> Path:
    """Attention within a sliding window, then over everything."""
    own: dict[str, Any] = {
        "attention.sliding_window": WINDOW,
        "attention.sliding_window_pattern": 2,
        "attention.head_count_kv": _HEADS,
        "attention.key_length": _HEAD,
        "attention.value_length": _HEAD,
        **changes,
    }
    norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    layer = {**{f"{name}.weight": (EMBEDDING,) for name in norms}, **_FEED_FORWARD, **_NORMED, **_ATTENTION}
    layer["attn_q.weight"] = (EMBEDDING, _HEADS * _HEAD)
    return _write(path, "gemma3", own, "output_norm", [layer, layer], seed)


def _write(
    path: Path,
    architecture: str,
    own: dict[str, Any],
    norm: str,
    layers: list[dict[str, tuple[int, ...]]],
    seed: int = 0,
) -> Path:
    general = {
        "context_length": 512,
        "embedding_length": EMBEDDING,
        "block_count": len(layers),
        "feed_forward_length": FORWARD,
        "attention.head_count": _HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    shapes = {"token_embd.weight": (EMBEDDING, len(vocabulary())), f"{norm}.weight": (EMBEDDING,), **in_layers(layers)}
    return write_tensors(path, architecture_values(architecture, {**general, **own}), shapes, seed)
