"""Grammars that restrict what the target may write: GBNF, or a JSON schema turned into it by llama-cpp-python."""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.errors import UsageError
from app.core.printable import one_line
from app.llama import library
from app.llama.library import native
from app.llama.model import Model

_LONGEST = 1 << 18
"""Bytes of a grammar; llama.cpp limits its rules and repetitions."""
_ROOT = b"root"
_CALLS = (
    ("<tool_call>\n", "arguments", "\n</tool_call>"),
    ("[TOOL_CALLS][", "arguments", "]"),
    ("<|tool_call|>[", "arguments", "]"),
    ("", "parameters", ""),
)
"""How template families write a call in JSON: what is before it, the key of its arguments, what follows.

The last is Llama 3's, which writes the object alone."""
_NOT_JSON = ("<function=", "<arg_key>", "<|channel|>", "[ARGS]", "<｜tool▁sep｜>", "<|tool_call_begin|>", "call:")


def grammar_of_schema(schema: Mapping[str, Any]) -> str:
    """Return the grammar of a JSON schema.

    Raises:
        UsageError: The library cannot translate it.
    """
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        return str(json_schema_to_gbnf(json.dumps(schema)))
    except Exception as error:
        # The library raises many kinds for a wrong schema.
        raise UsageError(
            f"The JSON schema cannot be used: {one_line(str(error)) or type(error).__name__}.",
            "Use a schema of objects, arrays, strings, numbers, enums and references within it.",
        ) from error


def grammar_of_call(template: str | None, tools: Sequence[Mapping[str, Any]]) -> str:
    """Return a grammar of one call of a tool, in the format of a chat template; "" if the format is not JSON.

    Args:
        template: Jinja source; None without one.
        tools: The tools, as in OpenAI's API.
    """
    source = template or ""
    if any(mark in source for mark in _NOT_JSON):
        return ""
    known = (form for form in _CALLS if form[0].strip("[\n") in source)
    begin, arguments, end = next(known) if "tools" in source else _CALLS[0]
    functions = [tool["function"] for tool in tools]
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": function["name"]}, arguments: function["parameters"]},
            "required": ["name", arguments],
        }
        for function in functions
    ]
    rules = re.sub(r"(?<![\w-])root(?![\w-])", "call", grammar_of_schema({"anyOf": calls}))
    return f"root ::= {json.dumps(begin)} call {json.dumps(end)}\n{rules}"


class Grammar:
    """Own one native grammar and its position in the text.

    llama.cpp aborts when it accepts a token that the grammar forbids, so `accept` is only for tokens that `allows`
    allows.

    Args:
        model: Whose vocabulary is used.
        text: The grammar in GBNF, with a rule "root".

    Raises:
        UsageError: llama.cpp cannot parse it.
    """

    def __init__(self, model: Model, text: str) -> None:
        data = text.encode()
        if len(data) > _LONGEST or b"\0" in data:
            raise UsageError(f"The grammar has {len(data):,} bytes; {_LONGEST:,} without a null are possible.")
        self._model = model
        library.clear_errors()
        self._handle: Any = native.llama_sampler_init_grammar(model.native_vocab, data, _ROOT)
        if not self._handle:
            reason = one_line(library.last_errors()) or "it has no rule that can be parsed"
            raise UsageError(f"The grammar is invalid: {reason}.", "See llama.cpp's grammars/README.md for the format.")

    def allows(self, token: int) -> bool:
        """Return whether a token may come next."""
        return _is_allowed(self._handle, token)

    def accept(self, token: int) -> None:
        """Advance by a token that `allows` allowed."""
        native.llama_sampler_accept(self._handle, token)

    def restrict(self, candidates: Any) -> None:
        """Set the logits of forbidden tokens to minus infinity, in a `llama_token_data_array`."""
        native.llama_sampler_apply(self._handle, ctypes.byref(candidates))

    def n_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a draft the grammar allows."""
        if not tokens or not self.allows(tokens[0]):
            return 0
        copy = native.llama_sampler_clone(self._handle)
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


def _is_allowed(grammar: Any, token: int) -> bool:
    data = native.llama_token_data(token, 1.0, 0.0)
    candidates = native.llama_token_data_array(ctypes.pointer(data), 1, -1, False)
    native.llama_sampler_apply(grammar, ctypes.byref(candidates))
    return not math.isinf(data.logit)
