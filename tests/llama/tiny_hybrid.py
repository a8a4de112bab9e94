"""Language models of a hundred kilobytes whose caches cannot be cut everywhere.

Hybrids of one recurrent and one attention layer: llama.cpp can roll back the last tokens of Qwen3.5 and LFM2, and none
of Granite-H. Mamba 2 has recurrence only. Gemma 3 has sliding windows: a saved sequence leaves out what lies before.
"""

from pathlib import Path
from typing import Any

from tests.llama.gguf_files import I32, Array
from tests.llama.tiny_heads import write_layers, write_mtp
from tests.llama.tiny_model import Shapes, Size

_SIZE = Size(n_heads=1, head=32)
"""A head of 32 values, so that a q8_0 cache fits."""
_STATE, _WIDE = 16, 2 * _SIZE.width
_CONV = 4
WINDOW = 32
_HYBRID = {"attention.head_count_kv": Array(I32, [0, 1])}
_MAMBA_2 = {
    "ssm.conv_kernel": _CONV,
    "ssm.inner_size": _WIDE,
    "ssm.state_size": _STATE,
    "ssm.time_step_rank": _WIDE // _STATE,
    "ssm.group_count": 1,
}
_RECURRENCE: Shapes = {
    "ssm_in.weight": (_SIZE.width, 2 * _WIDE + 2 * _STATE + _WIDE // _STATE),
    "ssm_conv1d.weight": (_CONV, _WIDE + 2 * _STATE),
    "ssm_conv1d.bias": (_WIDE + 2 * _STATE,),
    "ssm_dt.bias": (_WIDE // _STATE,),
    "ssm_a": (1, _WIDE // _STATE),
    "ssm_d": (1, _WIDE // _STATE),
    "ssm_norm.weight": (_WIDE, 1),
    "ssm_out.weight": (_WIDE, _SIZE.width),
}
_BOTH: Shapes = {**_SIZE.pre, **_SIZE.feed_forward}


def write_qwen35(path: Path, seed: int = 0) -> Path:
    """Write a Qwen3.5: a gated delta rule, then attention."""
    return write_mtp(path, _SIZE, mtp=False, seed=seed)


def write_lfm2(path: Path, seed: int = 0, *, window: int = 0) -> Path:
    """Write an LFM2: a short convolution, then attention, perhaps within a sliding window."""
    own = {**_HYBRID, "shortconv.l_cache": 3, "attention.sliding_window": window}
    convolution: Shapes = {
        "shortconv.conv.weight": (3, _SIZE.width),
        "shortconv.in_proj.weight": (_SIZE.width, 3 * _SIZE.width),
        "shortconv.out_proj.weight": (_SIZE.width, _SIZE.width),
    }
    layers = [{**_BOTH, **convolution}, {**_BOTH, **_SIZE.attention(), **_SIZE.normed}]
    shapes = {"token_embd.weight": _SIZE.model["token_embd.weight"], "token_embd_norm.weight": (_SIZE.width,)}
    return write_layers(path, "lfm2", own, _SIZE, shapes, layers, seed=seed)


def write_windowed_lfm2(path: Path) -> Path:
    """Write an LFM2 with a sliding window."""
    return write_lfm2(path, window=WINDOW)


def write_granite_hybrid(path: Path, seed: int = 0) -> Path:
    """Write a Granite-H: Mamba 2, then attention."""
    layers = [{**_BOTH, **_RECURRENCE}, {**_BOTH, **_SIZE.attention()}]
    return write_layers(path, "granitehybrid", {**_HYBRID, **_MAMBA_2}, _SIZE, _SIZE.model, layers, seed=seed)


def write_mamba2(path: Path, seed: int = 0) -> Path:
    """Write a Mamba 2, which has recurrence only."""
    layer = {"attn_norm.weight": (_SIZE.width,), **_RECURRENCE}
    own = {**_MAMBA_2, "attention.head_count_kv": 0}
    return write_layers(path, "mamba2", own, _SIZE, _SIZE.model, [layer, layer], seed=seed)


def write_gemma3(path: Path, seed: int = 0, **changes: Any) -> Path:
    """Write a Gemma 3: attention within a sliding window, then over everything; `changes` are of its own metadata."""
    own = {"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": 2, **changes}
    norms: Shapes = {"post_attention_norm.weight": (_SIZE.width,), "post_ffw_norm.weight": (_SIZE.width,)}
    layer = {**_BOTH, **norms, **_SIZE.normed, **_SIZE.attention()}
    return write_layers(path, "gemma3", own, _SIZE, _SIZE.model, [layer, layer], seed=seed)
