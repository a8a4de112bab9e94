"""A language model of fifty kilobytes that llama.cpp loads in milliseconds: random weights, a byte vocabulary."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.llama.gguf_files import I32, STRING, Array, header, text, tiny

FORWARD = 64
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


N_VOCAB = len(vocabulary())


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


Shapes = dict[str, tuple[int, ...]]
Encoder = Callable[[np.random.Generator, str, tuple[int, ...]], tuple[int, bytes]]
"""Returns the GGML type and the content of a tensor."""


def random_tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> tuple[int, bytes]:
    numbers = rng.normal(size=int(np.prod(shape)))
    # The logarithm of what a recurrent state retains; a growing state is soon infinite.
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


@dataclass(frozen=True)
class Size:
    """Size of a model.

    Attributes:
        n_heads: Heads of attention and of recurrence.
        head: Values of a head; `n_heads * head` is the width of the model.
        forward: Width of the feed-forward layers.
        n_repeats: Number of times that the layers of the target are repeated.
        quantized: Whether the matrices are Q8_0, not F32.
    """

    n_heads: int = 2
    head: int = 16
    forward: int = FORWARD
    n_vocab: int = N_VOCAB
    n_repeats: int = 1
    quantized: bool = False

    @property
    def width(self) -> int:
        return self.n_heads * self.head

    @property
    def model(self) -> Shapes:
        return {"token_embd.weight": (self.width, self.n_vocab), "output_norm.weight": (self.width,)}

    @property
    def pre(self) -> Shapes:
        return {"attn_norm.weight": (self.width,), "ffn_norm.weight": (self.width,)}

    @property
    def normed(self) -> Shapes:
        return {"attn_q_norm.weight": (self.head,), "attn_k_norm.weight": (self.head,)}

    @property
    def feed_forward(self) -> Shapes:
        return {
            "ffn_gate.weight": (self.width, self.forward),
            "ffn_up.weight": (self.width, self.forward),
            "ffn_down.weight": (self.forward, self.width),
        }

    @property
    def normed_layer(self) -> Shapes:
        return {**self.pre, **self.attention(), **self.normed, **self.feed_forward}

    def attention(self, n_inputs: int = 1, n_queries: int = 1) -> Shapes:
        return {
            "attn_q.weight": (n_inputs * self.width, n_queries * self.width),
            "attn_k.weight": (n_inputs * self.width, self.width),
            "attn_v.weight": (n_inputs * self.width, self.width),
            "attn_output.weight": (self.width, self.width),
        }


TINY = Size()


def experts(size: Size) -> Shapes:
    """Return the tensors of four experts, of a shared expert, and of their router."""
    return {
        "ffn_gate_inp.weight": (size.width, 4),
        "exp_probs_b.bias": (4,),
        "ffn_gate_exps.weight": (size.width, size.forward, 4),
        "ffn_up_exps.weight": (size.width, size.forward, 4),
        "ffn_down_exps.weight": (size.forward, size.width, 4),
        "ffn_gate_shexp.weight": (size.width, size.forward),
        "ffn_up_shexp.weight": (size.width, size.forward),
        "ffn_down_shexp.weight": (size.forward, size.width),
    }


def write_model(path: Path, **changes: Any) -> Path:
    """Write a llama of one layer with weights of a `seed`; token lists change the size of the embedding with them."""
    seed = changes.pop("seed", 0)
    metadata = values(**changes)
    size = Size(n_vocab=len(metadata["tokenizer.ggml.tokens"].values))
    norms: list[Shapes] = [{name: shape} for name, shape in size.pre.items()]
    layer = {**norms[0], **size.attention(), **norms[1], **size.feed_forward}
    return write_tensors(path, metadata, {**size.model, **in_layers([layer])}, seed)


def write_mixture(path: Path) -> Path:
    """Write a mixture of two layers with four experts, two of which compute a token."""
    metadata = values(llama__block_count=2, llama__expert_count=4, llama__expert_used_count=2)
    routed = {name: shape for name, shape in experts(TINY).items() if "shexp" not in name and "bias" not in name}
    layer = {**TINY.pre, **TINY.attention(), **routed}
    return write_tensors(path, metadata, {**TINY.model, **in_layers([layer] * 2)})


def architecture_values(architecture: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of another architecture: the same tokenizer, and `own` with its prefix."""
    shared = {key: value for key, value in values().items() if not key.startswith("llama.")}
    named = {f"{architecture}.{key}": value for key, value in own.items()}
    return {**shared, "general.architecture": architecture, **named}


def in_layers(layers: Sequence[Mapping[str, tuple[int, ...]]]) -> Shapes:
    """Return the shapes of all layers under their full names."""
    return {f"blk.{n}.{name}": shape for n, layer in enumerate(layers) for name, shape in layer.items()}


def write_aborting_model(path: Path) -> Path:
    """Write a model that looks valid but makes llama.cpp assert and end the process."""
    own = [key for key in values() if key.startswith("llama.")]
    changes = {key.replace("llama.", "smallthinker.").replace(".", "__"): values()[key] for key in own}
    return write_model(
        path, general__architecture="smallthinker", **changes, **{key.replace(".", "__"): None for key in own}
    )
