"""A language model of fifty kilobytes that llama.cpp loads in milliseconds: random weights, a byte vocabulary."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from tests.llama.gguf_files import I32, STRING, Array, header, text, tiny

EMBEDDING, FORWARD = 32, 64
ALIGNMENT = 32
_F32 = 0
CONTROL, NORMAL = 3, 1
SPECIALS = ["<|end|>", "<|start|>"]


def byte_letters() -> list[str]:
    """The letter that byte-level vocabularies write for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def vocabulary() -> list[str]:
    return SPECIALS + byte_letters()


def values(**changes: Any) -> dict[str, Any]:
    """The metadata; see `gguf_files.tiny` for how to change it."""
    tokens = vocabulary()
    types = [CONTROL] * len(SPECIALS) + [NORMAL] * 256
    found = tiny(
        llama__feed_forward_length=FORWARD,
        llama__attention__head_count=2,
        tokenizer__ggml__tokens=Array(STRING, tokens),
        tokenizer__ggml__token_type=Array(I32, types),
        tokenizer__ggml__merges=Array(STRING, ["a b"]),
        tokenizer__ggml__eos_token_id=0,
        tokenizer__ggml__bos_token_id=1,
    )
    found.update({key.replace("__", "."): value for key, value in changes.items()})
    return {key: value for key, value in found.items() if value is not None}


def write_model(path: Path, **changes: Any) -> Path:
    """Write a whole model. Changed token lists change the size of the embedding with them; `seed` is of the tensors."""
    seed = changes.pop("seed", 0)
    metadata = values(**changes)
    n_vocab = len(metadata["tokenizer.ggml.tokens"].values)
    layer = {
        "attn_norm": (EMBEDDING,),
        "attn_q": (EMBEDDING, EMBEDDING),
        "attn_k": (EMBEDDING, EMBEDDING),
        "attn_v": (EMBEDDING, EMBEDDING),
        "attn_output": (EMBEDDING, EMBEDDING),
        "ffn_norm": (EMBEDDING,),
        "ffn_gate": (EMBEDDING, FORWARD),
        "ffn_up": (EMBEDDING, FORWARD),
        "ffn_down": (FORWARD, EMBEDDING),
    }
    shapes = {"token_embd.weight": (EMBEDDING, n_vocab), "output_norm.weight": (EMBEDDING,)}
    shapes.update({f"blk.0.{name}.weight": shape for name, shape in layer.items()})
    return write_tensors(path, metadata, shapes, seed)


def write_tensors(path: Path, metadata: dict[str, Any], shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Path:
    """Write a model of these tensors, all of them random."""
    rng = np.random.default_rng(seed)
    infos, data = b"", b""
    for name, shape in shapes.items():
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, _F32, len(data))
        numbers = rng.normal(size=int(np.prod(shape)))
        # The logarithm of what a running state keeps: one that grows is infinite soon.
        data += (-np.abs(numbers) if name.endswith("ssm_a") else numbers).astype("<f4").tobytes()
        data += b"\0" * (-len(data) % ALIGNMENT)
    head = header(metadata, n_tensors=len(shapes)) + infos
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
    return path


def write_aborting_model(path: Path) -> Path:
    """Write a model that looks right from outside and that llama.cpp asserts on, and so ends the process."""
    own = [key for key in values() if key.startswith("llama.")]
    changes = {key.replace("llama.", "smallthinker.").replace(".", "__"): values()[key] for key in own}
    return write_model(
        path, general__architecture="smallthinker", **changes, **{key.replace(".", "__"): None for key in own}
    )


def write_mixture(path: Path, n_layers: int = 2, n_experts: int = 4) -> Path:
    """Write a mixture of experts, two of which compute a token."""
    metadata = values(llama__block_count=n_layers, llama__expert_count=n_experts, llama__expert_used_count=2)
    layer: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("attn_norm", "ffn_norm"), (EMBEDDING,)),
        **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (EMBEDDING, EMBEDDING)),
        "ffn_gate_inp": (EMBEDDING, n_experts),
        "ffn_gate_exps": (EMBEDDING, FORWARD, n_experts),
        "ffn_up_exps": (EMBEDDING, FORWARD, n_experts),
        "ffn_down_exps": (FORWARD, EMBEDDING, n_experts),
    }
    n_vocab = len(metadata["tokenizer.ggml.tokens"].values)
    shapes = {"token_embd.weight": (EMBEDDING, n_vocab), "output_norm.weight": (EMBEDDING,)}
    shapes.update({f"blk.{i}.{name}.weight": shape for i in range(n_layers) for name, shape in layer.items()})
    return write_tensors(path, metadata, shapes)
