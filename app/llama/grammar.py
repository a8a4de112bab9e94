"""Grammars (GBNF) that restrict the target's output, including grammars of tool calls."""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.core.errors import UsageError
from app.core.printable import one_line
from app.engine.types import Guidance
from app.llama import library
from app.llama.library import native
from app.llama.model import Model
from app.llama.schema_grammar import grammar_of_schema

_LONGEST = 1 << 18
"""Bytes of a grammar; llama.cpp limits its rules and repetitions."""
_ROOT = b"root"
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""llama.cpp's `llama_token_data`."""


@dataclass(frozen=True, slots=True)
class _CallFormat:
    """Format of tool calls in a family of chat templates, as parts of a grammar.

    Attributes:
        marks: Texts that all templates of the family contain.
        trigger: Text that begins calls in an answer; "" if there is none, so that only required calls get a grammar.
        begin: Rule before the arguments, with $NAME for the tool's name or $JSON for the name in quotes.
        end: Rule after the arguments.
        first: Rule before the first call.
        between: Rule between two calls.
        last: Rule after the last call.
        argument: Rule of one argument, with $KEY for its name; "" if the arguments are one object.
        quote: Text around strings in an object whose keys have no quotes; "" if the object is JSON.
    """

    marks: tuple[str, ...]
    trigger: str
    begin: str
    end: str = ""
    first: str = ""
    between: str = ""
    last: str = ""
    argument: str = ""
    quote: str = ""


_OBJECT = r'"{" space "\"name\"" space ":" space $JSON space "," space "\"arguments\"" space ":" space'
_HERMES = _CallFormat(("<tool_call>",), "<tool_call>", rf'"<tool_call>\n" {_OBJECT}', r'"}\n</tool_call>"', "", r'"\n"')
_DEEPSEEK = {"trigger": "<｜tool▁calls▁begin｜>", "first": '"<｜tool▁calls▁begin｜>"', "last": '"<｜tool▁calls▁end｜>"'}
_FORMATS = (
    # Qwen3-Coder, GLM
    _CallFormat(
        ("<function=",),
        "<tool_call>",
        r'"<tool_call>\n<function=$NAME>\n"',
        r'"</function>\n</tool_call>"',
        between=r'"\n"',
        argument=r'"<parameter=" $KEY ">\n" value "\n</parameter>\n"',
    ),
    _CallFormat(
        ("<arg_key>",),
        "<tool_call>",
        r'"<tool_call>$NAME" "\n"?',
        '"</tool_call>"',
        between=r'"\n"',
        argument=r'"<arg_key>" $KEY "</arg_key>" "\n"? "<arg_value>" value "</arg_value>" "\n"?',
    ),
    # gpt-oss: a message with a recipient and, before or after it, a channel
    _CallFormat(
        ("<|channel|>",), "to=functions.", '"to=functions.$NAME" [^{]{1,60}', first='("<|channel|>commentary "|" ")'
    ),
    # Mistral from 2025 on
    _CallFormat(("[ARGS]",), "[TOOL_CALLS]", '"[TOOL_CALLS]$NAME" ("[CALL_ID]" [a-zA-Z0-9]{9})? "[ARGS]"'),
    # DeepSeek V3 and R1, then V3.1
    _CallFormat(
        ("<｜tool▁sep｜>", "```json"),
        begin=r'"<｜tool▁call▁begin｜>function<｜tool▁sep｜>$NAME\n```json\n"',
        end=r'"\n```<｜tool▁call▁end｜>"',
        between=r'"\n"',
        **_DEEPSEEK,
    ),
    _CallFormat(
        ("<｜tool▁sep｜>",),
        begin='"<｜tool▁call▁begin｜>$NAME<｜tool▁sep｜>"',
        end='"<｜tool▁call▁end｜>"',
        **_DEEPSEEK,
    ),
    # Kimi
    _CallFormat(
        ("<|tool_call_begin|>",),
        "<|tool_calls_section_begin|>",
        '"<|tool_call_begin|>functions.$NAME:" [0-9]{1,3} "<|tool_call_argument_begin|>"',
        '"<|tool_call_end|>"',
        first='"<|tool_calls_section_begin|>"',
        last='"<|tool_calls_section_end|>"',
    ),
    # Gemma 4, FunctionGemma
    _CallFormat(("<|tool_call>",), "<|tool_call>", '"<|tool_call>call:$NAME"', '"<tool_call|>"', quote='<|"|>'),
    _CallFormat(
        ("<start_function_call>",),
        "<start_function_call>",
        '"<start_function_call>call:$NAME"',
        '"<end_function_call>"',
        quote="<escape>",
    ),
    _HERMES,
    # Mistral, Granite: an array
    _CallFormat(("[TOOL_CALLS]",), "[TOOL_CALLS]", _OBJECT, '"}"', '"[TOOL_CALLS]["', '"," space', '"]"'),
    _CallFormat(("<|tool_call|>",), "<|tool_call|>", _OBJECT, '"}"', '"<|tool_call|>["', '"," space', '"]"'),
    # Llama 3: the object alone
    _CallFormat((), "", _OBJECT.replace("arguments", "parameters"), '"}"'),
)
_BARE_KINDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
_BARE_RULES = (
    'integer ::= "-"? [0-9]{1,15}',
    'number ::= integer ("." [0-9]{1,15})?',
    'boolean ::= "true" | "false"',
    'pair ::= [a-zA-Z_] [a-zA-Z0-9_.-]* ":" any',
    'any ::= text | number | boolean | "null" | "{" (pair ("," pair)*)? "}" | "[" (any ("," any)*)? "]"',
)
"""Rules of values in an object whose keys have no quotes."""
_RULE_NAME = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|([a-zA-Z][a-zA-Z0-9-]*)')
"""Matches literals, character sets and rule names; only a rule name is in the group."""


def guidance_for_calls(template: str | None, tools: Sequence[Mapping[str, Any]], *, must_call: bool) -> Guidance:
    """Return a grammar of tool calls in the format of a chat template.

    Args:
        template: Jinja source; None without one.
        tools: The tools, as in OpenAI's API.
        must_call: Whether the answer is one call; otherwise the grammar waits for the text that begins a call.

    Returns:
        Guidance without a grammar if no text marks the beginning of an optional call.
    """
    source = template or ""
    # Templates without tools get instructions in Hermes' format.
    known = (one for one in _FORMATS if all(mark in source for mark in one.marks))
    form = next(known) if "tools" in source else _HERMES
    if not (form.trigger or must_call):
        return Guidance()
    try:
        return _guidance(json.dumps(tools), form, must_call=must_call)
    except UsageError:
        if must_call:
            raise
        # A schema that cannot be translated is no reason to refuse an answer that may not call anything.
        return Guidance()


@lru_cache(maxsize=8)
def _guidance(tools: str, form: _CallFormat, *, must_call: bool) -> Guidance:
    """Return the grammar of calls; cached, because an agent sends the same tools each time."""
    calls, rules = [], ['space ::= " "?', 'value ::= ([^<] | "<" [^/])*']
    if form.quote:
        quote, second, third = json.dumps(form.quote), form.quote[1], form.quote[2]
        rules += [rf'text ::= {quote} ([^<] | "<"+ ([^<{second}] | [{second}] [^<{third}]))* {quote}', *_BARE_RULES]
    for n, tool in enumerate(json.loads(tools)):
        name, schema = json.dumps(tool["function"]["name"]), tool["function"]["parameters"]
        if form.argument:
            arguments = _tagged(schema, form.argument)
        elif form.quote:
            arguments = _bare(schema, json.dumps(form.quote), rules) if schema.get("properties") else '"{}"'
        else:
            arguments = f"tool-{n}-root"
            rules.append(_prefixed(grammar_of_schema(schema), f"tool-{n}-"))
        begin = Template(form.begin).substitute(NAME=name[1:-1], JSON=json.dumps(name))
        calls.append(f"{begin} {arguments} {form.end}")
    if must_call:
        return Guidance("\n".join([f"root ::= {form.first} call {form.last}", f"call ::= {' | '.join(calls)}", *rules]))
    first = form.first if form.first.startswith(f'"{form.trigger}') else ""
    root = f"root ::= {first} call ({form.between} call)* {form.last}"
    grammar = "\n".join([root, f"call ::= {' | '.join(calls)}", *rules])
    if len(grammar) > _LONGEST:
        return Guidance()
    return Guidance(grammar, trigger=rf"[\s\S]*?({re.escape(form.trigger)}[\s\S]*)")


def _prefixed(grammar: str, prefix: str) -> str:
    """Return a grammar with a prefix before the name of every rule."""
    return _RULE_NAME.sub(lambda found: f"{prefix}{found[0]}" if found[1] else found[0], grammar)


def _tagged(schema: Mapping[str, Any], argument: str) -> str:
    """Return the rule of arguments that stand between tags; values are any text without a closing tag."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return ""
    keys = " | ".join(map(json.dumps, properties))
    return f"({Template(argument).substitute(KEY=f'({keys})')}){'+' if schema.get('required') else '*'}"


def _bare(schema: Any, quote: str, rules: list[str]) -> str:
    """Return the rule of a value whose keys have no quotes, and whose strings stand between `quote`; add its rules.

    References, alternatives and bounds of a schema are not followed: any value may stand there.
    """
    match schema:
        case {"enum": [*values]} if values:
            literals = [json.dumps(json.dumps(value)) for value in values if not isinstance(value, str)]
            literals += [f"{quote} {_literal(value)} {quote}" for value in values if isinstance(value, str)]
            return f"({' | '.join(literals)})"
        case {"properties": dict(properties)} if properties:
            pairs = [f"{_literal(f'{key}:')} {_bare(value, quote, rules)}" for key, value in properties.items()]
            return f'"{{" {_separated(" | ".join(pairs), rules)}{"" if schema.get("required") else "?"} "}}"'
        case {"type": "array", "items": items}:
            return f'"[" {_separated(_bare(items, quote, rules), rules)}? "]"'
        case {"type": str(kind)}:
            return _BARE_KINDS.get(kind, "any")
    return "any"


def _literal(text: str) -> str:
    """Return a text as a literal; llama.cpp reads no pairs of escapes, as JSON has them for an emoji."""
    return json.dumps(text, ensure_ascii=False)


def _separated(item: str, rules: list[str]) -> str:
    """Add a rule for an item; return the rule of items with commas between them."""
    name = f"item-{len(rules)}"
    rules.append(f"{name} ::= {item}")
    return f'({name} ("," {name})*)'


class Grammar:
    """Own one native grammar and its position in the text.

    llama.cpp aborts when it accepts a token that the grammar forbids, so `accept` is only for tokens that `allows`
    allows.

    The text is GBNF with a rule "root". The grammar applies from the first group of the pattern `trigger`, or at once.

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

    def allowed(self) -> NDArray[np.intp]:
        """Return the tokens that may come next, in ascending order."""
        data = np.zeros(self._model.n_vocab, CANDIDATE)
        data["id"] = np.arange(len(data))
        address = ctypes.cast(data.ctypes.data, native.llama_token_data_p)
        candidates = native.llama_token_data_array(address, len(data), -1, False)
        native.llama_sampler_apply(self._handle, ctypes.byref(candidates))
        return np.flatnonzero(np.isfinite(data["logit"]))

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
