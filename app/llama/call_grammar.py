"""Grammars of tool calls in llguidance's Lark syntax: a format of calls and the schemas of tools in one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import dropwhile, groupby
from typing import Any

from app.core.errors import UsageError
from app.engine.text.call_format import Argument, CallFormat, Values
from app.engine.text.call_values import Schema
from app.engine.types import Guidance
from app.llama.json_schema import schema_rule
from app.llama.matcher import Vocabulary
from app.llama.model import Model

_TYPE_KEYWORDS = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))
"""Keywords without which the arguments of a tool are an object, whatever else its schema says."""

_LARK_TERMINALS = r"""
TEXT: /(?s:.+)/
WHITE: /[ \t\n]{1,20}/
ID: /[A-Za-z0-9]{1,40}/
KEY: /[A-Za-z_][A-Za-z0-9_.-]{0,80}/
HEADER: /[^{]{1,60}/
UNQUOTED: /[^<&\n]+/
QUOTED: /'([^'\\\n]|\\.)*'/
NUMBER: /-?[0-9]{1,15}(\.[0-9]{1,15})?/
"""
_PLACEHOLDER_PATTERN = re.compile(r"(\$[A-Z]+)")
_LOOSE_SPACE = re.compile(r"([ \t]*\n\s*|(?<=[{}\[\],:]) +| +(?=[{}\[\],:]))")
"""White space that a model may leave out or change: line breaks, and blanks beside the signs of JSON."""
_JSON_LEXEMES = re.compile(r'[{}\[\],:]|"[^"]*"|[^{}\[\],:"]+')
_MARK_PATTERN = re.compile(r"[<\[].*[>\].=]|=.*\.|\w{6,}\[")
"""Literals that begin calls; other texts, such as "Action:", may stand in any answer."""
_JSON_SIGNS = re.compile(r'"[^"]*"|[{}\[\]:,]|\$JSON')
_REGEX_SPECIALS = re.compile(r"[\\.+*?()|\[\]{}^$/]")
_PYTHON_WORDS = {"boolean": '"True" | "False"', "null": '"None"'}
_DEEPEST_BARE = 4
"""Levels of objects with bare keys that follow their schema; deeper ones, and references in circles, are free."""


def call_guidance(
    model: Model,
    form: CallFormat,
    tools: Sequence[Mapping[str, Any]],
    guidance: Guidance,
    *,
    must_call: bool,
    one_call: bool = False,
) -> Guidance:
    """Return guidance with the grammar of an answer that may call tools.

    Calls that may be left out are free where nothing marks their beginning, and where their grammar becomes too
    complex; so are the arguments of a tool whose schema cannot be enforced.

    Args:
        model: Chooses the tokens.
        form: Format of its calls.
        tools: As in OpenAI's API.
        guidance: Its schema is that of an answer without calls.
        must_call: Whether the answer is calls; otherwise it is any text, and then perhaps calls.
        one_call: Whether there is at most one call.

    Raises:
        UsageError: A schema must be enforced and cannot be.
    """
    vocabulary = Vocabulary.of(model)
    known = (vocabulary.controls, vocabulary.ends)
    has_answer = guidance.schema is not None and not must_call
    answer = schema_rule(guidance.schema, strict=guidance.strict) if has_answer else ""
    try:
        calls = call_grammar(form, json.dumps(tools), *known, must_call=must_call, one_call=one_call, answer=answer)
    except RecursionError:
        raise UsageError("The schemas of the tools are nested too deeply.", "Flatten them.") from None
    return replace(guidance, calls=calls, lax=not (must_call or has_answer))


@lru_cache(maxsize=8)
def call_grammar(
    form: CallFormat,
    tools: str,
    controls: tuple[tuple[str, int], ...] = (),
    ends: frozenset[int] = frozenset(),
    *,
    must_call: bool = False,
    one_call: bool = False,
    answer: str = "",
) -> str:
    """Return a grammar of calls, or an empty text if no mark begins calls that may be left out.

    `controls` are the tokens that no text contains, each after its name, and `ends` those that end an answer. `answer`
    is the right side of a rule for an answer without calls; an empty text for any text, after which calls may follow.
    """
    # An agent sends the same tools each time.
    builder = _Builder(form, dict(controls), ends, must_call=must_call)
    return builder.grammar([tool["function"] for tool in json.loads(tools)], one_call=one_call, answer=answer)


class _Builder:
    """Collect the rules of a grammar. A text becomes symbols: control tokens, literals, and optional white space."""

    def __init__(self, form: CallFormat, controls: Mapping[str, int], ends: frozenset[int], *, must_call: bool) -> None:
        self._form, self._controls, self._ends, self._must_call = form, controls, ends, must_call
        names = sorted(filter(None, controls), key=len, reverse=True)
        self._names = re.compile(f"({'|'.join(map(re.escape, names))})" if names else r"((?!))")
        self._rules: list[str] = []
        self._header = ""
        if any("$HEADER" in one for one in form.also):
            self._header = self._rule(" | ".join(filter(None, ("HEADER", self._control_token()))))

    def grammar(self, functions: Sequence[Mapping[str, Any]], *, one_call: bool, answer: str) -> str:
        """Return the rules; see `call_grammar`."""
        form = self._form
        prefix, *rest = _PLACEHOLDER_PATTERN.split(form.begin.lstrip())
        lead = [*self._symbols(form.first.lstrip()), *self._symbols(prefix)]
        names, arguments = [json.dumps(one["name"]) for one in functions], list(map(self._arguments_of, functions))
        calls = " | ".join(self._call(*one, "".join(rest)) for one in zip(names, arguments, strict=True))
        # A token that ends the answer is no part of the call, and nothing follows it.
        is_last = one_call or any(self._controls[name] in self._ends for name in self._names.findall(form.call))
        more = "" if is_last else f"({self._text(form.between)} {self._text(form.begin.partition('$')[0])} call)*"
        if self._must_call or answer:
            texts = [*(one for one in form.also if "$HEADER" in one), *(one for one in form.alone if "$NAME" in one)]
            heads = [" ".join(lead), *(self._text(one.partition("$NAME")[0]) for one in texts)]
            start = f"WHITE? ({' | '.join(heads)}) call more{f' | {self._rule(answer)}' if answer else ''}"
        else:
            at = next((n for n, one in enumerate(lead) if one[0] == "<" or _MARK_PATTERN.search(one)), None)
            bare = self._bare_calls(names, arguments)
            if at is None:
                return ""
            # Control tokens in the text, such as marks of reasoning, are free.
            others = self._control_token(besides=lead[at])
            free = f"(TEXT? {others})* " if others else ""
            # Some models leave out the text around a call, and begin with the mark of its name.
            short = (one.partition("$NAME")[0] for one in form.also if "$NAME" in one)
            marks = [lead[at:], *(self._symbols(one) for one in short if prefix.endswith(f"\n{one}"))]
            starts = " | ".join(f"{self._until(mark)} call more" for mark in marks)
            start = " | ".join((f"{free}(TEXT? | {starts})", *bare))
        rules = [f"start: {start}", f"more: {more} {self._text(form.last)} WHITE?", f"call: {calls}", *self._rules]
        return "\n".join(rules) + _LARK_TERMINALS

    def _control_token(self, besides: str = "") -> str:
        """Return the symbol of any control token that does not end the answer; an empty text if there is none."""
        tokens = sorted(token for token in {*self._controls.values()} - self._ends if besides != f"<[{token}]>")
        runs = [[token for _, token in run] for _, run in groupby(enumerate(tokens), lambda one: one[1] - one[0])]
        return f"<[{','.join(f'{run[0]}-{run[-1]}' for run in runs)}]>" if runs else ""

    def _rule(self, *symbols: str, options: str = "") -> str:
        """Add a rule; return its new name."""
        name = f"rule-{len(self._rules)}"
        self._rules.append(f"{name}{options}: {' '.join(symbols)}")
        return name

    def _symbols(self, text: str, **values: str) -> list[str]:
        """Return a text as symbols; `values` are those of its placeholders."""
        out: list[str] = []
        for part in _PLACEHOLDER_PATTERN.split(text):
            if part[1:] in values:
                out.append(values[part[1:]])
                continue
            for n, piece in enumerate(self._names.split(part)):
                if n % 2:
                    out += [] if self._controls[piece] in self._ends else [f"<[{self._controls[piece]}]>"]
                    continue
                words = enumerate(_LOOSE_SPACE.split(piece))
                out += [self._literal(word) if m % 2 == 0 else "WHITE?" for m, word in words if word]
        return out

    def _literal(self, text: str) -> str:
        """Return the symbol of a text; a call without marks begins as an answer in JSON does, so its lexemes do too."""
        parts = _JSON_LEXEMES.findall(text) if not self._form.trigger else [text]
        return " ".join(map(json.dumps, parts))

    def _text(self, text: str, **values: str) -> str:
        return " ".join(self._symbols(text, **values))

    def _until(self, end: Iterable[str]) -> str:
        """Return the symbols of any text and of its end."""
        first, *after = dropwhile("WHITE?".__eq__, end)
        if first[0] == "<":
            return " ".join(("TEXT?", first, *after))
        return " ".join((self._rule(f"/(?s:.*){_escaped(json.loads(first))}/", options="[lazy]"), *after))

    # Calls and arguments

    def _call(self, name: str, arguments: str, rest: str) -> str:
        """Return the rule of a call after the text with which all calls begin; `name` is a JSON string."""
        begin = self._text(rest, NAME=name, JSON=json.dumps(name), ID="ID")
        if self._header:
            begin = f"{name} {self._header}+"
        return self._rule(begin, arguments, self._text(self._form.end))

    def _arguments_of(self, function: Mapping[str, Any]) -> str:
        try:
            return self._arguments(function["parameters"], f"The schema of the tool {json.dumps(function['name'])}")
        except UsageError:
            if self._must_call:
                raise
            return self._arguments({"type": "object"}, "")

    def _bare_calls(self, names: Sequence[str], arguments: Sequence[str]) -> list[str]:
        """Return an answer per tool that begins with a JSON object without a mark, as many models write their calls."""
        heads = "|".join(map(_escaped, (one for one in self._form.alone if "$" not in one)))
        signs = _JSON_SIGNS.findall(self._form.begin)
        if not self._form.alone or "$JSON" not in signs:
            return []
        out = []
        for name, one in zip(names, arguments, strict=True):
            parts = (_escaped(name if sign == "$JSON" else sign) for sign in signs)
            begin = r"\s*".join((f"({heads})", r"\[?", *parts))
            out.append(f"{self._rule(f'/{begin}/', options='[lazy]')} WHITE? {one} TEXT?")
        return out

    def _arguments(self, schema: Any, owner: str) -> str:
        if isinstance(schema, dict) and not _TYPE_KEYWORDS & schema.keys():
            schema = {**schema, "type": "object"}
        if (argument := self._form.argument) is None:
            return self._rule(schema_rule(schema, owner))
        root, shared = Schema(schema), {}
        if isinstance(schema, dict):
            shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        pairs = {}
        for key, raw in root.properties.items():
            one = {**shared, **raw} if isinstance(raw, dict) else raw
            pairs[key] = self._pair(argument, key, one, root.of(key), f"{owner}, properties.{key},")
        other = self._pair(argument, None, True, Schema(True), owner) if root.takes_key("") else ""
        required = schema.get("required") if isinstance(schema, dict) else ()
        return self._sequence(pairs, required, self._text(argument.between) or "WHITE?", other)

    def _pair(self, argument: Argument, key: str | None, raw: Any, schema: Schema, owner: str) -> str:
        """Return the rule of an argument; of any, if the key is None."""
        kinds = schema.kinds
        is_text = kinds is None or "string" in kinds
        types = " | ".join(map(json.dumps, sorted(kinds or ["string"])))
        values = {"KEY": "KEY", "TYPE": f"({types})", "TEXT": '"true"' if is_text else '"false"'}
        begin, end = (
            self._symbols(text.replace("$KEY", key or "$KEY"), **values) for text in (argument.begin, argument.end)
        )
        listed = raw["enum"] if isinstance(raw, dict) and isinstance(raw.get("enum"), list) else []
        if argument.values is Values.BARE:
            return self._rule(*begin, self._bare(*argument.quotes[0], raw, schema))
        if listed and argument.end and all(isinstance(one, str) for one in listed):
            texts = [f"{one}{text}{two}" for text in listed for one, two in (("", ""), *argument.quotes)]
            return self._rule(*begin, f"({' | '.join(map(self._text, texts))})", *end)
        has_tags = argument.values is Values.TAGS and kinds is not None and bool(kinds & {"array", "object"})
        if argument.end and (has_tags or is_text) and not listed:
            for quote, unquote in argument.quotes:
                quoted = self._until(self._symbols(unquote))
                return self._rule(*begin, f"({self._text(quote)} {quoted} | UNQUOTED?)", *end)
            return self._rule(*begin, self._until(end))
        choices = [schema_rule(raw, owner)]
        if argument.values is Values.PYTHON and not listed:
            choices += [_PYTHON_WORDS[kind] for kind in sorted(_PYTHON_WORDS.keys() & (kinds or ()))]
            choices += ["QUOTED"] * is_text
        choices += [json.dumps(repr(one)) for one in listed if argument.values is Values.PYTHON]
        return self._rule(*begin, f"({' | '.join(choices)})", *end)

    def _bare(self, quote: str, unquote: str, raw: Any, schema: Schema, depth: int = 0) -> str:
        """Return the symbols of a value whose keys have no quotes and whose strings have the format's own."""
        if isinstance(raw, dict) and isinstance(raw.get("enum"), list) and raw["enum"]:
            texts = (f"{quote}{one}{unquote}" if isinstance(one, str) else json.dumps(one) for one in raw["enum"])
            return f"({' | '.join(map(self._text, texts))})"
        kinds = sorted(schema.kinds or ("any",)) if depth <= _DEEPEST_BARE else ["any"]
        string = f"{self._text(quote)} {self._until(self._symbols(unquote))}"
        choices = []
        for kind in kinds:
            if kind == "object" and schema.properties:
                pairs = {
                    key: self._rule(json.dumps(f"{key}:"), self._bare(quote, unquote, one, schema.of(key), depth + 1))
                    for key, one in schema.properties.items()
                }
                choices.append(f'"{{" {self._sequence(pairs, (), chr(34) + "," + chr(34), "")} "}}"')
            elif kind == "array":
                item = self._rule(self._bare(quote, unquote, {}, schema.items, depth + 1))
                choices.append(f'"[" ({item} ("," {item})*)? "]"')
            elif kind in ("integer", "number", "boolean", "null"):
                choices.append(schema_rule({"type": kind}))
            else:
                choices.append(string if kind == "string" else self._free(string))
        return f"({' | '.join(choices)})"

    def _free(self, string: str) -> str:
        """Return the rule of any value with bare keys."""
        name = f"rule-{len(self._rules)}"
        pair, simple = f'KEY ":" {name}', f'{string} | NUMBER | "true" | "false" | "null"'
        return self._rule(f'{simple} | "{{" ({pair} ("," {pair})*)? "}}" | "[" ({name} ("," {name})*)? "]"')

    def _sequence(self, items: Mapping[str, str], required: Any, separator: str, other: str) -> str:
        """Return the symbols of items in their order; those that are not required may be left out."""
        if not items:
            return f"({other} ({separator} {other})*)?" if other else ""
        needed = [key in required if isinstance(required, (list, tuple)) else False for key in items]
        beginnings: list[str] = []
        rest = self._rule(f"({separator} {other})*" if other else "")
        for item, is_needed in reversed(list(zip(items.values(), needed, strict=True))):
            beginnings = [f"{item} {rest}", *([] if is_needed else beginnings)]
            rest = self._rule(f"{separator} {item}" if is_needed else f"({separator} {item})?", rest)
        return f"({' | '.join(beginnings)}){'' if any(needed) else '?'}"


def _escaped(text: str) -> str:
    """Return a regular expression for a text."""
    return _REGEX_SPECIALS.sub(r"\\\g<0>", text)
