"""Grammars of tool calls in llguidance's Lark syntax, from a call format and the tools' schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from app.core.errors import UsageError
from app.engine.text.call_format import Argument, CallFormat, Values
from app.engine.text.call_values import Schema
from app.engine.types import Guidance
from app.llama.json_schema import schema_rule, warn_once
from app.llama.lark_rules import LINE_BREAK, PLACEHOLDER_PATTERN, LarkRules, escaped
from app.llama.matcher import Matcher, Vocabulary
from app.llama.model import Model
from app.llama.text_patterns import text_terminal

_TYPE_KEYWORDS = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))
"""Keywords that define the type; without them, the arguments of a tool are an object, whatever else its schema says."""

_MARK_PATTERN = re.compile(r"[<\[].*[>\].=]|=.*\.|\w{6,}\[")
"""Literals that begin calls; other texts, such as "Action:", may occur in any answer."""
_JSON_SIGNS = re.compile(r'"[^"]*"|[{}\[\]:,]|\$JSON')
_PLAIN_QUOTED = r"/'[^'\\\n]*'/"
_PYTHON_WORDS = {"boolean": '"True" | "False"', "null": '"None"'}
_ONLY_STRING = frozenset({"string"})
_DEEPEST_BARE = 4
"""Levels of objects with bare keys that follow their schema; deeper levels, and circular references, are free."""


def call_matcher(
    model: Model, form: CallFormat, tools: Sequence[Mapping[str, Any]], guidance: Guidance
) -> Matcher | None:
    """Return a matcher of an answer that may call tools, which are as in OpenAI's API.

    Optional calls are free if nothing marks their beginning, or if their grammar is too complex; so are the arguments
    of a tool whose schema cannot be enforced.

    Raises:
        UsageError: A schema must be enforced but cannot be.
    """
    vocabulary = Vocabulary.of(model)
    known = (vocabulary.controls, vocabulary.ends)
    must_call, one_call = guidance.must_call, guidance.one_call
    has_answer = guidance.schema is not None and not must_call
    answer = schema_rule(guidance.schema, strict=guidance.strict) if has_answer else None
    try:
        calls = call_grammar(form, json.dumps(tools), *known, must_call=must_call, one_call=one_call, answer=answer)
    except RecursionError:
        raise UsageError("The schemas of the tools are nested too deeply.", "Flatten them.") from None
    return Matcher(model, calls, lax=not (must_call or has_answer)) if calls is not None else None


@lru_cache(maxsize=8)
def call_grammar(
    form: CallFormat,
    tools: str,
    controls: tuple[tuple[str, int], ...] = (),
    ends: frozenset[int] = frozenset(),
    *,
    must_call: bool = False,
    one_call: bool = False,
    answer: str | None = None,
) -> str | None:
    """Return a grammar of calls, unless optional calls begin without a mark.

    `controls` are the tokens that no text contains, each after its name, and `ends` those that end an answer. `answer`
    is the right side of a rule for an answer without calls; None allows any text, after which calls may follow.
    """
    # Cached: an agent sends the same tools each time.
    builder = _Builder(form, dict(controls), ends, must_call=must_call)
    return builder.grammar(json.loads(tools), one_call=one_call, answer=answer)


class _Builder(LarkRules):
    def __init__(self, form: CallFormat, controls: Mapping[str, int], ends: frozenset[int], *, must_call: bool) -> None:
        super().__init__(controls, ends, splits_json=not form.trigger)
        self._form, self._must_call = form, must_call
        self._header = ""
        if any("$HEADER" in one for one in form.also):
            self._header = self._rule(" | ".join(filter(None, ("HEADER", self._control_token()))))

    def grammar(self, tools: Sequence[Mapping[str, Any]], *, one_call: bool, answer: str | None) -> str | None:
        """Return the rules; see `call_grammar`."""
        form = self._form
        prefix, *rest = PLACEHOLDER_PATTERN.split(form.begin.lstrip())
        lead = [*self._symbols(form.first.lstrip()), *self._symbols(prefix)]
        names, arguments = [json.dumps(one["function"]["name"]) for one in tools], list(map(self._arguments_of, tools))
        calls = " | ".join(self._call(*one, "".join(rest)) for one in zip(names, arguments, strict=True))
        # A token that ends the answer is not part of the call, and nothing follows it.
        is_last = one_call or any(self._controls[name] in self._ends for name in self._names.findall(form.call))
        more = "" if is_last else f"({self._text(form.between)} {self._text(form.begin.partition('$')[0])} call)*"
        if self._must_call or answer:
            texts = [*(one for one in form.also if "$HEADER" in one), *(one for one in form.alone if "$NAME" in one)]
            heads = [" ".join(lead), *(self._text(one.partition("$NAME")[0]) for one in texts)]
            start = f"WHITE? ({' | '.join(heads)}) call more"
            if answer:
                # A call that begins like the answer has the same lexemes, so that both stay possible.
                begins = (" WHITE? ".join(map(json.dumps, one)) for one in self._bare_begins(names))
                pairs = zip(begins, arguments, strict=False)
                bare = [f'WHITE? {begin} WHITE? {one} WHITE? "}}"' for begin, one in pairs]
                start = " | ".join((start, *bare, self._rule(answer)))
        else:
            at = next((n for n, one in enumerate(lead) if one[0] == "<" or _MARK_PATTERN.search(one)), None)
            bare = self._bare_calls(names, arguments)
            if at is None and not bare:
                return None
            marks = [lead[at:]] if at is not None else []
            # Control tokens in the text, such as reasoning marks, are free.
            others = self._control_token(besides=marks[0][0] if marks else "")
            free = f"(TEXT? {others})* " if others else ""
            # Some models leave out the text around a call, and begin with the mark of its name.
            short = (one.partition("$NAME")[0] for one in form.also if "$NAME" in one)
            marks += [self._symbols(one) for one in short if prefix.endswith(f"\n{one}")]
            starts = (f"{self._until(mark)} call more" for mark in marks)
            start = " | ".join((f"{free}({' | '.join(('TEXT?', *starts))})", *bare))
        return self._joined(f"start: {start}", f"more: {more} {self._text(form.last)} WHITE?", f"call: {calls}")

    def _call(self, name: str, arguments: str, rest: str) -> str:
        """Return the rule of a call after the common beginning of all calls; `name` is a JSON string."""
        begin = self._text(rest, NAME=name, JSON=json.dumps(name), ID="ID")
        if self._header:
            begin = f"{name} {self._header}+"
        return self._rule(begin, arguments, self._text(self._form.end))

    def _arguments_of(self, tool: Mapping[str, Any]) -> str:
        function, strict = tool["function"], tool.get("strict", False)
        lark = tool.get("custom", {}).get("lark", "")
        owner = f"The {'grammar' if lark else 'schema'} of the tool {json.dumps(function['name'])}"
        try:
            return self._arguments(function["parameters"], owner, strict=strict, lark=lark)
        except UsageError as error:
            if self._must_call or strict:
                raise
            warn_once(f"{error.message} Calls of this tool are free.")
            return self._arguments({"type": "object"}, "")

    def _bare_begins(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Yield the signs and strings that begin the call of each tool if it is a JSON object without a mark."""
        signs = _JSON_SIGNS.findall(self._form.begin)
        if "" in self._form.alone and "$JSON" in signs:
            yield from ([name if sign == "$JSON" else sign for sign in signs] for name in names)

    def _bare_calls(self, names: Sequence[str], arguments: Sequence[str]) -> list[str]:
        """Return an answer per tool that begins with a JSON object without a mark, as many models write their calls."""
        heads = "|".join(map(escaped, (one for one in self._form.alone if "$" not in one)))
        out = []
        for signs, one in zip(self._bare_begins(names), arguments, strict=False):
            begin = r"\s*".join((f"({heads})", r"\[?", *map(escaped, signs)))
            out.append(f"{self._rule(f'/{begin}/', options='[lazy]')} WHITE? {one} TEXT?")
        return out

    def _arguments(self, schema: Mapping[str, Any], owner: str, *, strict: bool = False, lark: str = "") -> str:
        if not _TYPE_KEYWORDS & schema.keys():
            schema = {**schema, "type": "object"}
        if (argument := self._form.argument) is None:
            return self._rule(schema_rule(schema, owner, strict=strict))
        root, pairs = Schema(schema), {}
        for key in root.properties:
            place = f"{owner}, properties.{key},"
            pairs[key] = self._pair(argument, key, root.of(key), place, strict=strict, lark=lark)
        other = self._pair(argument, None, Schema(True), owner) if root.takes_key("") else ""
        return self._sequence(pairs, root.required, self._text(argument.between) or "WHITE?", other)

    def _pair(
        self,
        argument: Argument,
        key: str | None,
        schema: Schema,
        owner: str,
        *,
        strict: bool = False,
        lark: str = "",
    ) -> str:
        """Return the rule of an argument, whose text may have a grammar; any argument if the key is None."""
        # The schema is checked even if the format needs its own rules.
        as_json = schema_rule(schema.document, owner, strict=strict)
        kinds, keywords, listed = schema.kinds, schema.keywords, schema.listed
        is_text = kinds is None or "string" in kinds
        # Kimi's template calls every number "number".
        names = {"number" if kind == "integer" else kind for kind in kinds or ["string"]}
        types = " | ".join(map(json.dumps, sorted(names)))
        values = {"KEY": "KEY", "TYPE": f"({types})", "TEXT": '"true"' if is_text else '"false"'}
        begin, end = (
            self._symbols(text.replace("$KEY", key or "$KEY"), **values) for text in (argument.begin, argument.end)
        )
        if argument.values is Values.BARE:
            quote, unquote = argument.quotes[0]
            if kinds == _ONLY_STRING and not listed:
                text = self._until(self._symbols(unquote), keywords, owner, lark)
                return self._rule(*begin, self._text(quote), text)
            return self._rule(*begin, self._bare(quote, unquote, schema))
        if listed and argument.end and all(isinstance(one, str) for one in listed):
            texts = [f"{one}{text}{two}" for text in listed for one, two in (("", ""), *argument.quotes)]
            return self._rule(*begin, f"({' | '.join(map(self._text, texts))})", *end)
        has_tags = argument.values is Values.TAGS and kinds is not None and bool(kinds & {"array", "object"})
        if argument.end and (has_tags or is_text) and not listed:
            limits = keywords if kinds == _ONLY_STRING else {}
            if (lark or text_terminal(limits)) and begin[-1] == "WHITE?":
                begin[-1] = LINE_BREAK
            for quote, unquote in argument.quotes:
                quoted = f"{self._text(quote)} {self._until(self._symbols(unquote), limits, owner, lark)}"
                is_free = not (lark or text_terminal(limits))
                return self._rule(*begin, f"({quoted} | UNQUOTED?)" if is_free else quoted, *end)
            return self._rule(*begin, self._until(end, limits, owner, lark))
        choices = [as_json]
        if argument.values is Values.PYTHON and not listed:
            choices += [_PYTHON_WORDS[kind] for kind in sorted(_PYTHON_WORDS.keys() & (kinds or ()))]
            limit = text_terminal(keywords, "'", "'")
            # A text that must have a line break has no single quotes.
            with suppress(UsageError):
                choices += [self._terminal(f"{limit} & {_PLAIN_QUOTED}", owner) if limit else "QUOTED"] * is_text
        choices += [json.dumps(repr(one)) for one in listed if argument.values is Values.PYTHON]
        return self._rule(*begin, f"({' | '.join(choices)})", *end)

    def _bare(self, quote: str, unquote: str, schema: Schema, depth: int = 0) -> str:
        """Return the symbols of a value with bare keys and the format's own string quotes."""
        if listed := schema.listed:
            texts = (f"{quote}{one}{unquote}" if isinstance(one, str) else json.dumps(one) for one in listed)
            return f"({' | '.join(map(self._text, texts))})"
        kinds = sorted(schema.kinds or ("any",)) if depth <= _DEEPEST_BARE else ["any"]
        string = f"{self._text(quote)} {self._until(self._symbols(unquote))}"
        choices = []
        for kind in kinds:
            if kind == "object" and schema.properties:
                pairs = {
                    key: self._rule(json.dumps(f"{key}:"), self._bare(quote, unquote, schema.of(key), depth + 1))
                    for key in schema.properties
                }
                choices.append(f'"{{" {self._sequence(pairs, schema.required, chr(34) + "," + chr(34), "")} "}}"')
            elif kind == "array":
                item = self._rule(self._bare(quote, unquote, schema.items, depth + 1))
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

    def _sequence(self, items: dict[str, str], required: Collection[str], separator: str, other: str) -> str:
        """Return the symbols of items in order; optional items may be left out."""
        if not items:
            return f"({other} ({separator} {other})*)?" if other else ""
        beginnings: list[str] = []
        rest = self._rule(f"({separator} {other})*" if other else "")
        for key, item in reversed(items.items()):
            beginnings = [f"{item} {rest}", *([] if key in required else beginnings)]
            rest = self._rule(f"{separator} {item}" if key in required else f"({separator} {item})?", rest)
        return f"({' | '.join(beginnings)}){'' if any(key in required for key in items) else '?'}"
