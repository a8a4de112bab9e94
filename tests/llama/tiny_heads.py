"""Tiny random models with draft layers: a hybrid and a mixture with an MTP layer, EAGLE-3 heads and DFlash blocks."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from tests.llama.gguf_files import BOOL, I32, Array, header, text
from tests.llama.tiny_model import ALIGNMENT, EMBEDDING, FORWARD, values, vocabulary

_HEAD, _HEADS, _STATE = 16, 2, 16
_INNER = _HEADS * _STATE
N_VOCAB = len(vocabulary())
N_LAYERS = 4
BLOCK, MASK = 8, 1
_D2T_TYPE = 27
_F32 = 0
_FEED_FORWARD = {
    "ffn_gate.weight": (EMBEDDING, FORWARD),
    "ffn_up.weight": (EMBEDDING, FORWARD),
    "ffn_down.weight": (FORWARD, EMBEDDING),
}
Shapes = dict[str, tuple[int, ...]]


def _attention(width: int, queries: int = 1) -> Shapes:
    return {
        "attn_q.weight": (width, queries * _HEADS * _HEAD),
        "attn_k.weight": (width, _HEADS * _HEAD),
        "attn_v.weight": (width, _HEADS * _HEAD),
        "attn_output.weight": (_HEADS * _HEAD, EMBEDDING),
    }


_NORMED: Shapes = {"attn_q_norm.weight": (_HEAD,), "attn_k_norm.weight": (_HEAD,)}
_PRE: Shapes = {"attn_norm.weight": (EMBEDDING,), "ffn_norm.weight": (EMBEDDING,)}
_BOTH: Shapes = {"token_embd.weight": (EMBEDDING, N_VOCAB), "output_norm.weight": (EMBEDDING,)}


def write_target(path: Path, **changes: Any) -> Path:
    """Write a llama of four layers."""
    layers = [{**_PRE, **_attention(EMBEDDING), **_FEED_FORWARD}] * N_LAYERS
    return _write(path, "llama", {}, _BOTH, layers, **changes)


def write_mtp(path: Path, **changes: Any) -> Path:
    """Write a Qwen3.5 hybrid with an MTP layer."""
    own: dict[str, Any] = {
        "nextn_predict_layers": 1,
        "full_attention_interval": 2,
        "attention.head_count_kv": _HEADS,
        "rope.dimension_sections": Array(I32, [4, 2, 2, 0]),
        "ssm.conv_kernel": 4,
        "ssm.inner_size": _INNER,
        "ssm.state_size": _STATE,
        "ssm.time_step_rank": _HEADS,
        "ssm.group_count": 1,
    }
    recurrence: Shapes = {
        "attn_qkv.weight": (EMBEDDING, 2 * _STATE + _INNER),
        "attn_gate.weight": (EMBEDDING, _INNER),
        "ssm_conv1d.weight": (4, 2 * _STATE + _INNER),
        "ssm_dt.bias": (_HEADS,),
        "ssm_a": (_HEADS,),
        "ssm_beta.weight": (EMBEDDING, _HEADS),
        "ssm_alpha.weight": (EMBEDDING, _HEADS),
        "ssm_norm.weight": (_STATE,),
        "ssm_out.weight": (_INNER, EMBEDDING),
    }
    both: Shapes = {"attn_norm.weight": (EMBEDDING,), "post_attention_norm.weight": (EMBEDDING,), **_FEED_FORWARD}
    attention = {**both, **_attention(EMBEDDING, 2), **_NORMED}
    layers = [{**both, **recurrence}, attention, {**attention, **_nextn()}]
    return _write(path, "qwen35", own, _BOTH, layers, **changes)


def write_dense_mtp(path: Path, *, is_alone: bool = False, **changes: Any) -> Path:
    """Write a GLM-4.5 mixture of experts, whose cache can be cut anywhere, with an MTP layer."""
    own: dict[str, Any] = {
        "nextn_predict_layers": 1,
        "expert_count": 4,
        "expert_used_count": 2,
        "expert_shared_count": 1,
        "leading_dense_block_count": 1,
        "expert_feed_forward_length": FORWARD,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": True,
        "expert_gating_func": 2,
        "attention.head_count_kv": _HEADS,
    }
    norms: Shapes = {"attn_norm.weight": (EMBEDDING,), "post_attention_norm.weight": (EMBEDDING,)}
    experts: Shapes = {
        "ffn_gate_inp.weight": (EMBEDDING, 4),
        "exp_probs_b.bias": (4,),
        "ffn_gate_exps.weight": (EMBEDDING, FORWARD, 4),
        "ffn_up_exps.weight": (EMBEDDING, FORWARD, 4),
        "ffn_down_exps.weight": (FORWARD, EMBEDDING, 4),
        "ffn_gate_shexp.weight": (EMBEDDING, FORWARD),
        "ffn_up_shexp.weight": (EMBEDDING, FORWARD),
        "ffn_down_shexp.weight": (FORWARD, EMBEDDING),
    }
    attention = {**norms, **_attention(EMBEDDING)}
    layers = [{**attention, **_FEED_FORWARD}, {**attention, **experts}, {**attention, **experts, **_nextn()}]
    if is_alone:
        layers[:2] = {}, {}
    return _write(path, "glm4moe", own, {**_BOTH, "output.weight": (EMBEDDING, N_VOCAB)}, layers, **changes)


def _nextn() -> Shapes:
    return {
        "nextn.eh_proj.weight": (2 * EMBEDDING, EMBEDDING),
        "nextn.enorm.weight": (EMBEDDING,),
        "nextn.hnorm.weight": (EMBEDDING,),
        "nextn.shared_head_norm.weight": (EMBEDDING,),
    }


_GEMMA = {"post_attention_norm.weight": (EMBEDDING,), "post_ffw_norm.weight": (EMBEDDING,)}


def write_gemma4(path: Path, **changes: Any) -> Path:
    """Write a Gemma 4 of four layers, every other one with a sliding window."""
    layer = {**_PRE, **_GEMMA, **_attention(EMBEDDING), **_NORMED, **_FEED_FORWARD}
    own: dict[str, Any] = {
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": Array(BOOL, [True, False] * 2),
        "attention.key_length_swa": _HEAD,
        "attention.value_length_swa": _HEAD,
        "embedding_length_per_layer_input": 0,
    }
    shapes = {**_BOTH, "rope_freqs.weight": (_HEAD // 2,)}
    return _write(path, "gemma4", own, shapes, [layer] * N_LAYERS, **changes)


def write_gemma4_mtp(path: Path, **changes: Any) -> Path:
    """Write the MTP layers of a Gemma 4 in a file of their own, which share its KV cache."""
    width = EMBEDDING // 2
    own: dict[str, Any] = {
        "embedding_length": width,
        "embedding_length_out": EMBEDDING,
        "nextn_predict_layers": 2,
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": Array(BOOL, [True, False]),
        "attention.key_length_swa": _HEAD,
        "attention.value_length_swa": _HEAD,
    }
    layer: Shapes = {
        "attn_norm.weight": (width,),
        "attn_q.weight": (width, _HEADS * _HEAD),
        "attn_output.weight": (_HEADS * _HEAD, width),
        "attn_q_norm.weight": (_HEAD,),
        "post_attention_norm.weight": (width,),
        "layer_output_scale.weight": (1,),
        "ffn_norm.weight": (width,),
        "ffn_gate.weight": (width, FORWARD),
        "ffn_up.weight": (width, FORWARD),
        "ffn_down.weight": (FORWARD, width),
        "post_ffw_norm.weight": (width,),
    }
    shapes: Shapes = {
        "token_embd.weight": (width, N_VOCAB),
        "output_norm.weight": (width,),
        "rope_freqs.weight": (_HEAD // 2,),
        "nextn.pre_projection.weight": (2 * EMBEDDING, width),
        "nextn.post_projection.weight": (width, EMBEDDING),
    }
    return _write(path, "gemma4-assistant", own, shapes, [layer] * 2, **changes)


def write_mtp_alone(path: Path, **changes: Any) -> Path:
    """Write the MTP layer of `write_dense_mtp` in a file of its own."""
    return write_dense_mtp(path, is_alone=True, **changes)


def write_eagle3(path: Path, *, d2t: list[int] | None = None, **changes: Any) -> Path:
    """Write an EAGLE-3 head; `d2t` are the target's tokens of a reduced vocabulary."""
    own: dict[str, Any] = {"target_layers": Array(I32, [1, 2, 3]), "target_hidden_size": EMBEDDING}
    n_vocab = N_VOCAB if d2t is None else len(d2t)
    shapes = {"fc.weight": (3 * EMBEDDING, EMBEDDING), "output_norm.weight": (EMBEDDING,)}
    shapes["output.weight"] = (EMBEDDING, n_vocab)
    layer = {**_PRE, "attn_norm_2.weight": (EMBEDDING,), **_attention(2 * EMBEDDING), **_FEED_FORWARD}
    return _write(path, "eagle3", own, shapes, [layer], d2t=d2t, **changes)


def write_dflash(path: Path, **changes: Any) -> Path:
    """Write a DFlash block of two layers, which shares embeddings and output with its target."""
    own: dict[str, Any] = {"target_layers": Array(I32, [1, 3]), "block_size": BLOCK}
    changes.setdefault("tokenizer__ggml__mask_token_id", MASK)
    shapes = {
        "fc.weight": (2 * EMBEDDING, EMBEDDING),
        "enc.output_norm.weight": (EMBEDDING,),
        "output_norm.weight": (EMBEDDING,),
    }
    layers = [{**_PRE, **_attention(EMBEDDING), **_NORMED, **_FEED_FORWARD}] * 2
    return _write(path, "dflash", own, shapes, layers, **changes)


def _write(
    path: Path,
    architecture: str,
    own: dict[str, Any],
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
        "embedding_length": EMBEDDING,
        "block_count": len(layers),
        "feed_forward_length": FORWARD,
        "attention.head_count": _HEADS,
        "attention.head_count_kv": _HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.key_length": _HEAD,
        "attention.value_length": _HEAD,
        "rope.dimension_count": _HEAD,
    }
    template = "<|start|>{{ messages[-1].content }}<|end|>"
    metadata = {key: value for key, value in values().items() if not key.startswith("llama.")}
    metadata |= {"general.architecture": architecture, "tokenizer.chat_template": template}
    metadata |= {f"{architecture}.{key}": value for key, value in {**general, **own}.items()}
    metadata |= {key.replace("__", "."): value for key, value in changes.items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    all_shapes = {
        **shapes,
        **{f"blk.{n}.{name}": shape for n, layer in enumerate(layers) for name, shape in layer.items()},
    }
    rng = np.random.default_rng(seed)
    infos, data = b"", b""
    tensors: list[tuple[str, tuple[int, ...], int, bytes]] = []
    for name, shape in all_shapes.items():
        scale = spread if name == "token_embd.weight" else 1.0 if len(shape) == 1 else shape[0] ** -0.5
        numbers = scale * rng.normal(size=int(np.prod(shape)))
        numbers = -np.abs(numbers) if name.endswith("ssm_a") else numbers
        is_plain = name.endswith(("norm.weight", "rope_freqs.weight", "output_scale.weight"))
        numbers = np.ones_like(numbers) if is_plain else numbers
        tensors.append((name, shape, _F32, numbers.astype("<f4").tobytes()))
    if d2t is not None:
        tensors.append(("d2t", (len(d2t),), _D2T_TYPE, np.array(d2t, "<i8").tobytes()))
    for name, shape, kind, content in tensors:
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += content + b"\0" * (-len(content) % ALIGNMENT)
    head = header(metadata, n_tensors=len(tensors)) + infos
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
    return path
