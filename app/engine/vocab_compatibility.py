"""Compare the vocabularies of a target and a draft model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MAX_SIZE_DIFFERENCE = 128
"""Padded vocabularies of a family differ by at most this much (Qwen2.5: 151,936 and 152,064)."""

FIRST_COMPARED_ID = 5
"""The first special tokens may differ between models of a family, without any effect."""


@dataclass(frozen=True, slots=True)
class VocabInfo:
    """The properties of a vocabulary that decide compatibility.

    Attributes:
        kind: Tokenizer family as the model file names it ("gpt2", "llama", ...).
        tokens: The text of every id, as UTF-8 bytes.
        bos: Id of the token that begins a text, if any.
        eos: Id of the token that ends a text, if any.
    """

    kind: str
    tokens: Sequence[bytes] = field(repr=False)
    bos: int | None = None
    eos: int | None = None
    add_bos: bool = False
    add_eos: bool = False


def incompatibility(target: VocabInfo, draft: VocabInfo) -> str | None:
    """Return as a sentence why a draft model cannot draft for a target; None if it can.

    The rule is llama.cpp's (`common/speculative.cpp`): same tokenizer type, same BOS and EOS if the model adds them,
    sizes within 128, and equal texts from id 5.
    """
    if target.kind != draft.kind:
        return f'The tokenizers differ: the target uses "{target.kind}", the draft "{draft.kind}".'
    for name in ("bos", "eos"):
        adds = (getattr(target, f"add_{name}"), getattr(draft, f"add_{name}"))
        ids = (getattr(target, name), getattr(draft, name))
        if adds[0] != adds[1] or (adds[0] and ids[0] != ids[1]):
            return f"The {name.upper()} tokens differ: {_special(adds[0], ids[0])} and {_special(adds[1], ids[1])}."
    n = min(len(target.tokens), len(draft.tokens))
    a, b = target.tokens[FIRST_COMPARED_ID:n], draft.tokens[FIRST_COMPARED_ID:n]
    if a != b:
        offset = next(i for i in range(len(a)) if a[i] != b[i])
        return (
            f"The vocabularies differ: token {offset + FIRST_COMPARED_ID} is {_quote(a[offset])} in the target "
            f"and {_quote(b[offset])} in the draft."
        )
    difference = abs(len(target.tokens) - len(draft.tokens))
    if difference > MAX_SIZE_DIFFERENCE:
        longer, where = (target, "target") if len(target.tokens) > len(draft.tokens) else (draft, "draft")
        return (
            f"The vocabularies have {len(target.tokens):,} and {len(draft.tokens):,} tokens: token {n}, "
            f"{_quote(longer.tokens[n])}, is only in the {where}."
        )
    return None


def replace_unknown(n_vocab: int, replacement: int) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return a function that replaces tokens missing in a smaller vocabulary: `n_vocab` and all higher ids.

    A target trained on ChatML may use tokens beyond its family's vocabulary; then the draft is slightly worse. Negative
    ids of pictures are replaced too.
    """

    def translate(tokens: Sequence[int]) -> Sequence[int]:
        if max(tokens, default=0) < n_vocab and min(tokens, default=0) >= 0:
            return tokens
        return [token if 0 <= token < n_vocab else replacement for token in tokens]

    return translate


def _special(added: bool, token: int | None) -> str:
    return f"{token}" if added else "none added"


def _quote(text: bytes) -> str:
    shown = text.decode("utf-8", errors="replace")
    return '"' + "".join(c if c.isprintable() else "?" for c in shown[:40]) + '"'
