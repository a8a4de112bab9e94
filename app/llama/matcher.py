"""Matchers of llguidance's grammars over a model's own vocabulary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import llguidance
import numpy as np
from llguidance import TokenizerWrapper
from numpy.typing import NDArray

from app.core.errors import UsageError
from app.core.printable import one_line

if TYPE_CHECKING:
    from app.llama.model import Model

_GRAMMAR_HEADER = '%llguidance {"no_forcing": true}\n'
"""First line of every grammar: the target chooses among all tokens of an allowed text, not only the usual ones."""
_PARSER_LIMITS = llguidance.LLParserLimits(step_lexer_fuel=2_000_000, step_max_items=500_000, verbose_errors=False)
_SIMPLIFY_HINT = "Simplify the JSON schema or the tools."
_CONTROL_PREFIX = b"\xff"
"""Prefix for the name of a token that no text contains."""
_LARK_LITERALS = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/')
_LARK_EXTENSIONS = re.compile(r"%(?:json|lark|llguidance|regex)")
_MAX_LARK_LEVELS = 256
"""Deeper nesting could overflow a stack of 1 MiB."""
_vocabularies: WeakKeyDictionary[Model, Vocabulary] = WeakKeyDictionary()


class Vocabulary:
    """A model's tokens in llguidance's form; see `of`.

    Attributes:
        controls: Tokens that no text contains, each after its name.
        ends: Control tokens that end an answer.
    """

    eos_token_id: int
    bos_token_id = None
    special_token_ids = ()

    def __init__(self, model: Model) -> None:
        self.tokens = [model.piece(n) or _CONTROL_PREFIX + model.text_of(n).encode() for n in range(model.n_vocab)]
        names = ((text[1:].decode(), n) for n, text in enumerate(self.tokens) if text.startswith(_CONTROL_PREFIX))
        self.controls = tuple(names)
        self.ends = frozenset(n for _, n in self.controls if model.is_end(n))
        ends = sorted(self.ends) or [model.n_vocab - 1]
        self.eos_token_id = ends[0]
        self.native = llguidance.LLTokenizer(TokenizerWrapper(self), eos_token=ends)

    def __call__(self, text: str) -> list[int]:
        """Return no tokens: with `no_forcing` nothing is tokenized."""
        return []

    @classmethod
    def of(cls, model: Model) -> Vocabulary:
        """Return the vocabulary of a model; the first call takes a second for 150,000 tokens."""
        if model not in _vocabularies:
            _vocabularies[model] = cls(model)
        return _vocabularies[model]


class Matcher:
    """Owns the position of an answer in a grammar in llguidance's Lark syntax. Checking a draft never moves it.

    Args:
        lax: Whether the answer continues without the grammar if it is too complex; otherwise that is an error.

    Raises:
        UsageError: llguidance refuses the grammar, or later a step is too complex.
    """

    def __init__(self, model: Model, lark: str, *, lax: bool = False) -> None:
        self._model, self._lax = model, lax
        self._native = _new_matcher(Vocabulary.of(model).native, lark)
        self._mask = np.zeros((model.n_vocab + 31) // 32, np.int32)
        if not lax and self._native.is_error():
            raise UsageError(f"The grammar of the answer cannot be used: {_reason(self._native)}.", _SIMPLIFY_HINT)

    def allows(self, token: int) -> bool:
        """Return whether a token may come next."""
        return self.n_allowed((token,)) == 1

    def accept(self, token: int) -> None:
        """Advance by a token that `allows` allowed."""
        self._native.consume_token(token)

    def allowed(self) -> NDArray[np.intp]:
        """Return the tokens that may come next, in ascending order."""
        self._native.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if self._is_free():
            return np.arange(self._model.n_vocab)
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")
        return np.flatnonzero(bits[: self._model.n_vocab])

    def n_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a draft the grammar allows."""
        if not tokens:
            return 0
        n = int(self._native.validate_tokens(list(tokens)))
        if self._is_free():
            return len(tokens)
        return int(self._model.is_end(tokens[0])) if self._native.is_stopped() else n

    def close(self) -> None:
        """Do nothing: Python frees the matcher."""

    def _is_free(self) -> bool:
        """Return whether the grammar became too complex for an answer that may continue without it."""
        if not self._native.is_error():
            return False
        if not self._lax:
            raise UsageError(f"The grammar of the answer is too complex: {_reason(self._native)}.", _SIMPLIFY_HINT)
        return True


def refusal(lark: str) -> str | None:
    """Return why llguidance refuses a grammar for any vocabulary, if it does."""
    matcher = _new_matcher(_byte_tokenizer(), lark)
    if matcher.is_error():
        return _reason(matcher)
    # The grammar of a circular schema allows no text.
    matcher.compute_bitmask()
    return "no value is valid" if matcher.is_error() else None


def lark_fault(lark: str) -> str | None:
    """Return why a client's grammar would crash llguidance, which reads it recursively, if it would."""
    structure = _LARK_LITERALS.sub("", lark)
    if (found := _LARK_EXTENSIONS.search(structure)) is not None:
        return f"{found[0]} is no part of Lark"
    levels = sum(map(structure.count, ":(["))
    return f"it has {levels:,} rules and groups; {_MAX_LARK_LEVELS} are possible" if levels > _MAX_LARK_LEVELS else None


def takes(lark: str, text: str) -> bool:
    """Return whether a client's grammar allows a whole text; a refused grammar allows any text."""
    if lark_fault(lark):
        return True
    matcher, data = _new_matcher(_byte_tokenizer(), lark), list(text.encode())
    return matcher.is_error() or (matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())


def _new_matcher(tokenizer: llguidance.LLTokenizer, lark: str) -> llguidance.LLMatcher:
    return llguidance.LLMatcher(tokenizer, _GRAMMAR_HEADER + lark, log_level=0, limits=_PARSER_LIMITS)


def _reason(matcher: llguidance.LLMatcher) -> str:
    first, *more = matcher.get_error().splitlines() or [""]
    # The regular expression parser quotes the expression first.
    reason = next((line.removeprefix("error: ") for line in more if line.startswith("error: ")), first)
    return one_line(reason.rpartition("failed to compile JSON schema: ")[2]).rstrip(".") or "the reason is unknown"


@cache
def _byte_tokenizer() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer("byte")
