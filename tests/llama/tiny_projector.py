"""Projectors of a few kilobytes with random weights, small targets for them, and pictures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from app.core.pictures import PictureData, read_picture
from tests.llama.gguf_files import F32, I32, STRING, Array
from tests.llama.tiny_heads import write_gemma4, write_layers, write_mtp
from tests.llama.tiny_model import CONTROL, NORMAL, TINY, Shapes, Size, vocabulary, write_tensors

WIDTH, FORWARD = 32, 64
_SLICE_MARKS = ["<fake_token_around_image>", "<global-img>", "<row_1_col_1>", "<row_1_col_2>", "\u010a\u010a"]
"""Tokens that SmolVLM's projector puts around its slices; the last is two line breaks."""


def picture(width: int = 60, height: int = 40, seed: int = 0, name: str | None = None) -> PictureData:
    """Return a PNG of tiles in random colors."""
    tiles = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    pixels = tiles[np.arange(height) * 3 // height][:, np.arange(width) * 3 // width]
    Image.fromarray(pixels).save(file := BytesIO(), "PNG")
    return read_picture(file.getvalue(), name)


def write_projector(path: Path, kind: str, n_text: int = TINY.width, /, *, seed: int = 0, **changes: Any) -> Path:
    """Write a projector of a kind of `KINDS`; `changes` are metadata with `__` for dots, None leaves a key out."""
    shape = _SHAPES[kind]
    values = {
        "embedding_length": WIDTH,
        "attention.head_count": 2,
        "feed_forward_length": FORWARD,
        "block_count": shape.n_layers,
        "projection_dim": n_text,
        "attention.layer_norm_epsilon": 1e-6,
        "image_size": shape.image,
        "patch_size": shape.patch,
        "image_mean": Array(F32, [0.5] * 3),
        "image_std": Array(F32, [0.5] * 3),
        **shape.values,
    }
    metadata: dict[str, Any] = {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "clip.has_vision_encoder": True,
        shape.type_key: shape.type,
        "clip.use_gelu": True,
        **{f"clip.vision.{key}": value for key, value in values.items()},
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    metadata = {key: value for key, value in metadata.items() if value is not None}
    return write_tensors(path, metadata, shape.tensors(n_text), seed, _tensor)


def _tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> tuple[int, bytes]:
    if name.endswith(("ln1.weight", "ln2.weight", "ln.weight", "norm.weight")):
        return 0, np.ones(shape, "<f4").tobytes()
    scale = 1.0 if len(shape) == 1 else int(np.prod(shape[:-1])) ** -0.5
    return 0, (scale * rng.normal(size=int(np.prod(shape)))).astype("<f4").tobytes()


@dataclass(frozen=True)
class _Shape:
    type: str
    image: int
    patch: int
    connect: Callable[[int], Shapes]
    """Returns the tensors that lead to a text width."""
    n_layers: int = 1
    n_positions: int = 0
    """Learned positions."""
    is_fused: bool = False
    has_gate: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    more: Shapes = field(default_factory=dict)
    type_key: str = "clip.projector_type"

    def tensors(self, n_text: int) -> Shapes:
        n, f = WIDTH, FORWARD
        found: Shapes = {"v.patch_embd.weight": (self.patch, self.patch, 3, n), **self.more}
        if self.n_positions:
            found["v.position_embd.weight"] = (n, self.n_positions)
        for i in range(self.n_layers):
            layer: Shapes = {"ffn_up.weight": (n, f), "ffn_down.weight": (f, n), "ln1.weight": (n,), "ln2.weight": (n,)}
            if self.has_gate:
                layer |= {"ffn_gate.weight": (n, f)}
            else:
                layer |= {"ffn_up.bias": (f,), "ffn_down.bias": (n,), "ln1.bias": (n,), "ln2.bias": (n,)}
            names = ("attn_qkv",) if self.is_fused else ("attn_q", "attn_k", "attn_v")
            for name in (*names, "attn_out"):
                out = 3 * n if name == "attn_qkv" else n
                layer |= {f"{name}.weight": (n, out)} | ({} if self.has_gate else {f"{name}.bias": (out,)})
            found |= {f"v.blk.{i}.{name}": shape for name, shape in layer.items()}
        return found | self.connect(n_text)


_POST: Shapes = {"v.post_ln.weight": (WIDTH,), "v.post_ln.bias": (WIDTH,)}
_BIAS: Shapes = {"v.patch_embd.bias": (WIDTH,)}
_MERGED_WIDTH = 4 * WIDTH


def _merger(n_text: int) -> Shapes:
    return {
        "mm.0.weight": (_MERGED_WIDTH, _MERGED_WIDTH),
        "mm.0.bias": (_MERGED_WIDTH,),
        "mm.2.weight": (_MERGED_WIDTH, n_text),
        "mm.2.bias": (n_text,),
    }


_SHAPES = {
    "llava": _Shape(
        "mlp",
        56,
        14,
        lambda n: {
            "mm.0.weight": (WIDTH, n),
            "mm.0.bias": (n,),
            "mm.2.weight": (n, n),
            "mm.2.bias": (n,),
        },
        n_layers=2,
        n_positions=17,
        more={"v.class_embd": (WIDTH,), "v.pre_ln.weight": (WIDTH,), "v.pre_ln.bias": (WIDTH,)},
    ),
    "idefics3": _Shape(
        "idefics3",
        64,
        16,
        lambda n: {"mm.model.fc.weight": (4 * WIDTH, n)},
        n_positions=16,
        values={"projector.scale_factor": 2, "preproc_image_size": 128},
        more={**_BIAS, **_POST},
    ),
    "gemma3": _Shape(
        "gemma3",
        112,
        14,
        lambda n: {"mm.input_projection.weight": (n, WIDTH), "mm.soft_emb_norm.weight": (WIDTH,)},
        n_positions=64,
        values={"projector.scale_factor": 2},
        more={**_BIAS, **_POST},
    ),
    "qwen2vl": _Shape("qwen2vl_merger", 560, 14, _merger, more={"v.patch_embd.weight.1": (14, 14, 3, WIDTH), **_POST}),
    "qwen3vl": _Shape(
        "qwen3vl_merger",
        768,
        16,
        _merger,
        n_positions=48 * 48,
        is_fused=True,
        more={"v.patch_embd.weight.1": (16, 16, 3, WIDTH), **_BIAS, **_POST},
    ),
    "gemma4": _Shape(
        "gemma4v",
        224,
        16,
        lambda n: {"mm.input_projection.weight": (WIDTH, n), "v.position_embd.weight": (WIDTH, 256, 2)},
        has_gate=True,
        values={"projector.scale_factor": 3},
        type_key="clip.vision.projector_type",
    ),
}


def write_mrope_target(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a Qwen2-VL of two layers, whose cache can be cut anywhere and whose positions have sections."""
    own = {"rope.dimension_sections": Array(I32, [size.head // 4, size.head // 8, size.head // 8, 0])}
    bias = {f"attn_{name}.bias": (size.width,) for name in "qkv"}
    layer = {**size.pre, **size.attention(), **bias, **size.feed_forward}
    shapes = {**size.model, "output.weight": (size.width, size.n_vocab)}
    return write_layers(path, "qwen2vl", own, size, shapes, [layer] * 2, **changes)


def write_causal_target(path: Path, size: Size = TINY, /, **changes: Any) -> Path:
    """Write a llama with its own output, so that its text does not repeat a token."""
    layer = {**size.pre, **size.attention(), **size.feed_forward}
    shapes = {**size.model, "output.weight": (size.width, size.n_vocab)}
    return write_layers(path, "llama", {}, size, shapes, [layer] * 4, **changes)


def write_sliced_target(path: Path, **changes: Any) -> Path:
    """Write a llama with the tokens that SmolVLM puts around the slices of a picture."""
    tokens = vocabulary() + _SLICE_MARKS
    types = [CONTROL] * 2 + [NORMAL] * 256 + [CONTROL] * 4 + [NORMAL]
    changes |= {"tokenizer__ggml__tokens": Array(STRING, tokens), "tokenizer__ggml__token_type": Array(I32, types)}
    return write_causal_target(path, Size(n_vocab=len(tokens)), **changes)


@dataclass(frozen=True)
class Kind:
    """A target with its projector, and the size of a picture that has a few dozen rows."""

    write_target: Callable[..., Path]
    projector: str
    size: tuple[int, int] = (60, 40)


_WEIGHT_SCALE = 0.05
"""Scale of embeddings that are also the output, so that the text does not repeat a token."""
KINDS = {
    "causal": Kind(write_causal_target, "llava"),
    "slices": Kind(write_sliced_target, "idefics3", (120, 60)),
    "non-causal": Kind(write_causal_target, "gemma3"),
    "m-rope": Kind(write_mrope_target, "qwen2vl", (280, 140)),
    "hybrid": Kind(partial(write_mtp, spread=_WEIGHT_SCALE), "qwen3vl", (256, 128)),
    "gemma4": Kind(partial(write_gemma4, spread=_WEIGHT_SCALE), "gemma4", (240, 192)),
}
