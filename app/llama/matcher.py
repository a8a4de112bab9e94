"""Matchers of llguidance's grammars over a model's own vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import llguidance
import numpy as np
from llguidance import TokenizerWrapper
from numpy.typing import NDArray

from app.core.errors import DecodeError, UsageError
from app.core.printable import one_line
from app.llama.model import Model

_HEADER = '%llguidance {"no_forcing": true}\n'
"""First line of every grammar: the target chooses among all tokens of an allowed text, not only the usual ones."""
_LIMITS = llguidance.LLParserLimits(step_lexer_fuel=2_000_000, step_max_items=500_000, verbose_errors=False)
_CONTROL = b"\xff"
"""Marks a token that no text contains, before its name."""
_tokenizers: WeakKeyDictionary[Model, Any] = WeakKeyDictionary()


class Matcher:
    """Own the position of an answer in a grammar in llguidance's Lark syntax.

    Looking at drafted tokens never moves it.

    Raises:
        UsageError: llguidance refuses the grammar.
    """

    def __init__(self, model: Model, lark: str) -> None:
        self._model = model
        self._native = _new_matcher(_tokenizer(model), lark)
        self._mask = np.zeros((model.n_vocab + 31) // 32, np.int32)
        self._check(UsageError, "The grammar cannot be used")

    def allows(self, token: int) -> bool:
        """Return whether a token may come next."""
        return self.n_allowed((token,)) == 1

    def accept(self, token: int) -> None:
        """Advance by a token that `allows` allowed."""
        self._native.consume_token(token)
        self._check(DecodeError, "The answer cannot go on by its grammar")

    def allowed(self) -> NDArray[np.intp]:
        """Return the tokens that may come next, in ascending order."""
        self._native.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if not self._native.is_stopped():
            self._check(DecodeError, "The answer cannot go on by its grammar")
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")
        return np.flatnonzero(bits[: self._model.n_vocab])

    def n_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a draft the grammar allows."""
        if not tokens:
            return 0
        if self._native.is_stopped():
            return int(self._model.is_end(tokens[0]))
        n = int(self._native.validate_tokens(list(tokens)))
        self._check(DecodeError, "The answer cannot go on by its grammar")
        return n

    def close(self) -> None:
        """Do nothing: Python frees it."""

    def _check(self, kind: type[UsageError | DecodeError], what: str) -> None:
        if self._native.is_error():
            raise kind(f"{what}: {_reason(self._native)}.", "Simplify the JSON schema or the tools.")


def refusal(lark: str) -> str:
    """Return why llguidance refuses a grammar of any vocabulary; "" if it takes it."""
    matcher = _new_matcher(_byte_tokenizer(), lark)
    if matcher.is_error():
        return _reason(matcher)
    # A schema that refers to nothing but itself has a grammar without any text.
    matcher.compute_bitmask()
    return "no value is valid" if matcher.is_error() else ""


def _new_matcher(tokenizer: Any, lark: str) -> Any:
    return llguidance.LLMatcher(tokenizer, _HEADER + lark, log_level=0, limits=_LIMITS)


def _reason(matcher: Any) -> str:
    first, *more = matcher.get_error().splitlines() or [""]
    # The parser of regular expressions quotes the expression first.
    reason = next((line.removeprefix("error: ") for line in more if line.startswith("error: ")), first)
    return one_line(reason.rpartition("failed to compile JSON schema: ")[2]).rstrip(".") or "the reason is unknown"


@cache
def _byte_tokenizer() -> Any:
    return llguidance.LLTokenizer("byte")


class _Vocabulary:
    """Tokens of a model as llguidance's constructor reads them."""

    bos_token_id = None
    special_token_ids = ()

    def __init__(self, model: Model) -> None:
        self.tokens = [model.piece(n) or _CONTROL + model.text_of(n).encode() for n in range(model.n_vocab)]
        ends = [n for n, text in enumerate(self.tokens) if text.startswith(_CONTROL) and model.is_end(n)]
        self.ends = ends or [model.n_vocab - 1]
        self.eos_token_id = self.ends[0]

    def __call__(self, text: str) -> list[int]:
        """Return no tokens: with `no_forcing` nothing is tokenized."""
        return []


def _tokenizer(model: Model) -> Any:
    """Return a model's vocabulary in llguidance's form; it takes about a second for 150,000 tokens, once."""
    if (found := _tokenizers.get(model)) is None:
        vocabulary = _Vocabulary(model)
        found = _tokenizers[model] = llguidance.LLTokenizer(TokenizerWrapper(vocabulary), eos_token=vocabulary.ends)
    return found
