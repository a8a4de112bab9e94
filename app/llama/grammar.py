"""Grammars that restrict what the target may write: GBNF, or a JSON schema turned into it by llama-cpp-python."""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.core.errors import UsageError
from app.core.printable import one_line
from app.engine.types import Guidance
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
_TAGGED = {
    "<function=": (
        r'"<tool_call>\n<function={name}>\n"',
        r'"<parameter=" {key} ">\n" value "\n</parameter>\n"',
        r'"</function>\n</tool_call>"',
    ),
    "<arg_key>": (
        r'"<tool_call>{name}" "\n"?',
        r'"<arg_key>" {key} "</arg_key>" "\n"? "<arg_value>" value "</arg_value>" "\n"?',
        r'"</tool_call>"',
    ),
}
"""How Qwen3-Coder and GLM write a call: its beginning, an argument and its end, in GBNF, by a mark of the template."""
_NO_GRAMMAR = ("<|channel|>", "[ARGS]", "<｜tool▁sep｜>", "<|tool_call_begin|>", "call:")
"""Marks of other formats."""


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


def guidance_for_calls(template: str | None, tools: Sequence[Mapping[str, Any]], *, must_call: bool) -> Guidance:
    """Return a grammar of calls of tools, in the format of a chat template.

    Args:
        template: Jinja source; None without one.
        tools: The tools, as in OpenAI's API.
        must_call: Whether the answer is one call; otherwise the grammar waits for the text that begins a call.

    Returns:
        No grammar for some formats, or if nothing marks the beginning of a call.
    """
    source = template or ""
    for mark, form in _TAGGED.items():
        if mark in source:
            return _tagged_guidance(tools, form, must_call=must_call)
    known = (form for form in _CALLS if form[0].strip("[\n") in source)
    begin, arguments, end = next(known) if "tools" in source else _CALLS[0]
    if any(mark in source for mark in _NO_GRAMMAR) or not (begin or must_call):
        return Guidance()
    try:
        return _guidance(json.dumps(tools), begin, arguments, end, must_call=must_call)
    except UsageError:
        if must_call:
            raise
        # A schema that cannot be translated is no reason to refuse an answer that may not call anything.
        return Guidance()


@lru_cache(maxsize=8)
def _guidance(tools: str, begin: str, arguments: str, end: str, *, must_call: bool) -> Guidance:
    """Return the grammar of calls; cached, because an agent sends the same tools each time."""
    functions = [tool["function"] for tool in json.loads(tools)]
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": function["name"]}, arguments: function["parameters"]},
            "required": ["name", arguments],
        }
        for function in functions
    ]
    rules = re.sub(r"(?<![\w-])root(?![\w-])", "call", grammar_of_schema({"anyOf": calls}))
    one = f"{json.dumps(begin)} call {json.dumps(end)}"
    return _of_calls(one, rules, begin.strip("[\n"), must_call=must_call)


def _tagged_guidance(tools: Sequence[Mapping[str, Any]], form: tuple[str, str, str], *, must_call: bool) -> Guidance:
    """Return the grammar of calls whose arguments stand between tags; values are any text without a closing tag."""
    begin, argument, end = form
    calls = []
    for tool in tools:
        schema = tool["function"]["parameters"]
        properties = schema.get("properties")
        keys = " | ".join(map(json.dumps, properties)) if isinstance(properties, dict) else ""
        arguments = f"({argument.format(key=f'({keys})')}){'+' if schema.get('required') else '*'}" if keys else ""
        name = json.dumps(tool["function"]["name"])[1:-1]
        calls.append(f"{begin.format(name=name)} {arguments} {end}")
    rules = f'call ::= {" | ".join(calls)}\nvalue ::= ([^<] | "<" [^/])*'
    return _of_calls("call", rules, "<tool_call>", must_call=must_call)


def _of_calls(one: str, rules: str, mark: str, *, must_call: bool) -> Guidance:
    """Return the grammar of one required call, or of calls from the first mark on."""
    if must_call:
        return Guidance(f"root ::= {one}\n{rules}")
    if len(rules) > _LONGEST:
        return Guidance()
    return Guidance(f'root ::= {one} ("\\n" {one})*\n{rules}', trigger=rf"[\s\S]*?({re.escape(mark)}[\s\S]*)")


class Grammar:
    """Own one native grammar and its position in the text.

    llama.cpp aborts when it accepts a token that the grammar forbids, so `accept` is only for tokens that `allows`
    allows.

    Args:
        model: Whose vocabulary is used.
        text: The grammar in GBNF, with a rule "root".
        trigger: Pattern of the text whose first group the grammar begins with; "" begins at once.

    Raises:
        UsageError: llama.cpp cannot parse it.
    """

    def __init__(self, model: Model, text: str, trigger: str = "") -> None:
        data = text.encode()
        if len(data) > _LONGEST or b"\0" in data:
            raise UsageError(f"The grammar has {len(data):,} bytes; {_LONGEST:,} without a null are possible.")
        self._model = model
        library.clear_errors()
        self._handle: Any
        if trigger:
            patterns = (ctypes.c_char_p * 1)(trigger.encode())
            arguments = (model.native_vocab, data, _ROOT, patterns, 1, None, 0)
            self._handle = native.llama_sampler_init_grammar_lazy_patterns(*arguments)
        else:
            self._handle = native.llama_sampler_init_grammar(model.native_vocab, data, _ROOT)
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


def _is_allowed(grammar: Any, token: int) -> bool:
    data = native.llama_token_data(token, 1.0, 0.0)
    candidates = native.llama_token_data_array(ctypes.pointer(data), 1, -1, False)
    native.llama_sampler_apply(grammar, ctypes.byref(candidates))
    return not math.isinf(data.logit)
