"""Users' GBNF grammars, parsed by llama.cpp."""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.core.errors import UsageError
from app.core.printable import one_line
from app.llama.candidates import Candidates
from app.llama.library import native
from app.llama.model import Model

_MAX_BYTES = 1 << 18
"""Limit for a grammar; llama.cpp itself limits rules and repetitions."""
_ROOT_RULE = b"root"
_MAX_DEPTH = 300
"""Limit for nested brackets; llama.cpp parses them recursively and overflows the stack at some thousands."""
_BRACKET_OR_LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*|[()]', re.DOTALL)
_PARSE_ERROR = re.compile(r"error parsing grammar: (.*)")


def _nesting(text: str) -> int:
    depth = deepest = 0
    for part in _BRACKET_OR_LITERAL.finditer(text):
        depth = max(0, depth + {"(": 1, ")": -1}.get(part[0], 0))
        deepest = max(deepest, depth)
    return deepest


class Grammar:
    """Owns a native grammar and its position in the text.

    llama.cpp aborts when it accepts a forbidden token, so call `accept` only for tokens that `allows` allows. The text
    has a rule "root".

    Raises:
        UsageError: llama.cpp cannot parse it.
    """

    def __init__(self, model: Model, text: str) -> None:
        data = text.encode()
        if len(data) > _MAX_BYTES or b"\0" in data:
            raise UsageError(f"The grammar has {len(data):,} bytes; {_MAX_BYTES:,} without a null are possible.")
        if _nesting(text) > _MAX_DEPTH:
            raise UsageError(f"The grammar has more than {_MAX_DEPTH} nested brackets.", "Use rules instead.")
        self._model = model
        self._handle: Any = native.llama_sampler_init_grammar(model.native_vocab, data, _ROOT_RULE)
        if not self._handle:
            reason = one_line(_parse_error(model, data)) or "it has no rule that can be parsed"
            raise UsageError(f"The grammar is invalid: {reason}.", "See llama.cpp's grammars/README.md for the format.")

    def allows(self, token: int) -> bool:
        """Return whether a token may come next."""
        return _is_allowed(self._handle, token)

    def accept(self, token: int) -> None:
        """Advance by a token that `allows` allowed."""
        native.llama_sampler_accept(self._handle, token)

    def allowed(self) -> NDArray[np.intp]:
        """Return the tokens that may come next, in ascending order."""
        n = self._model.n_vocab
        return np.flatnonzero(np.isfinite(Candidates().apply(self._handle, np.arange(n), np.zeros(n, np.float32))))

    def n_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a draft the grammar allows."""
        if not tokens or not self.allows(tokens[0]):
            return 0
        copy = native.llama_sampler_clone(self._handle)
        if not copy:
            return 0
        try:
            for n, token in enumerate(tokens):
                if not _is_allowed(copy, token):
                    return n
                if self._model.is_end(token):
                    return n + 1
                native.llama_sampler_accept(copy, token)
            return len(tokens)
        finally:
            native.llama_sampler_free(copy)

    def close(self) -> None:
        """Free the grammar. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            native.llama_sampler_free(handle)


def _parse_error(model: Model, data: bytes) -> str:
    """Return why llama.cpp refuses a grammar; it writes the reason only to file descriptor 2."""
    with TemporaryFile() as file:
        saved = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            native.llama_sampler_init_grammar(model.native_vocab, data, _ROOT_RULE)
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        found = _PARSE_ERROR.search(file.read().decode(errors="replace"))
    return found[1].strip() if found is not None else ""


def _is_allowed(grammar: Any, token: int) -> bool:
    data = native.llama_token_data(token, 1.0, 0.0)
    candidates = native.llama_token_data_array(ctypes.pointer(data), 1, -1, False)
    native.llama_sampler_apply(grammar, ctypes.byref(candidates))
    return not math.isinf(data.logit)
