"""A language model of fifty kilobytes that llama.cpp loads in milliseconds: random weights, a byte vocabulary."""

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.llama.gguf_files import I32, STRING, Array, header, text, tiny

EMBEDDING, FORWARD = 32, 64
ALIGNMENT = 32
F32 = 0
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
    shapes: Shapes = {"token_embd.weight": (EMBEDDING, n_vocab), "output_norm.weight": (EMBEDDING,)}
    shapes |= in_layers([{f"{name}.weight": shape for name, shape in layer.items()}])
    return write_tensors(path, metadata, shapes, seed)


Shapes = dict[str, tuple[int, ...]]
Encoder = Callable[[np.random.Generator, str, tuple[int, ...]], tuple[int, bytes]]
"""Returns the GGML type and the content of a tensor."""


def random_tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> tuple[int, bytes]:
    numbers = rng.normal(size=int(np.prod(shape)))
    # The logarithm of what a recurrent state keeps; a state that grows is soon infinite.
    return F32, (-np.abs(numbers) if name.endswith("ssm_a") else numbers).astype("<f4").tobytes()


def write_tensors(
    path: Path, metadata: dict[str, Any], shapes: Shapes, seed: int = 0, encode: Encoder = random_tensor
) -> Path:
    """Write a model of these tensors; by default, all of them are random."""
    rng = np.random.default_rng(seed)
    infos, n_bytes, tensors = b"", 0, list[bytes]()
    for name, shape in shapes.items():
        kind, content = encode(rng, name, shape)
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, n_bytes)
        tensors.append(content + b"\0" * (-len(content) % ALIGNMENT))
        n_bytes += len(tensors[-1])
    head = header(metadata, n_tensors=len(shapes)) + infos
    with path.open("wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT))
        file.writelines(tensors)
    return path


def architecture_values(architecture: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of another architecture: the same tokenizer, and `own` with its prefix."""
    shared = {key: value for key, value in values().items() if not key.startswith("llama.")}
    named = {f"{architecture}.{key}": value for key, value in own.items()}
    return {**shared, "general.architecture": architecture, **named}


def in_layers(layers: Sequence[Mapping[str, tuple[int, ...]]]) -> Shapes:
    """Return the shapes of all layers under their full names."""
    return {f"blk.{n}.{name}": shape for n, layer in enumerate(layers) for name, shape in layer.items()}


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
    shapes: Shapes = {"token_embd.weight": (EMBEDDING, n_vocab), "output_norm.weight": (EMBEDDING,)}
    shapes |= in_layers([{f"{name}.weight": shape for name, shape in layer.items()}] * n_layers)
    return write_tensors(path, metadata, shapes)
