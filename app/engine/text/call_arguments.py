"""Read the arguments of a tool call while they are written; return them as JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Sequence

from app.engine.text.call_format import Argument, Values
from app.engine.text.call_patterns import Found, Partial, Pattern, UnreadText
from app.engine.text.call_values import Schema, as_json, unescaped
from app.engine.text.segments import held_back

_OPEN_ESCAPE = re.compile(r"(\\+)(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?\Z")
_LONGEST_UNDECIDED = 4_000
"""Longest text after the end of a call, in characters, in which the call may end once more."""


class ArgumentReader:
    """Converts arguments that are written separately into a JSON object.

    A string may contain every mark of its format, and whole calls: the mark that ends it is followed by another
    parameter of the tool, the end of the call, or nothing. Text after the end of a call belongs to the string if the
    call ends once more after it. A call that begins in the string and never ends is text too.

    Args:
        argument: Texts around each argument.
        ends: Texts that end the call, in order.
        followers: Other texts that may follow the call.
        opening: Regular expression of the beginning of a call up to its first value.
    """

    def __init__(
        self,
        argument: Argument,
        schema: Schema,
        ends: Sequence[str],
        followers: Sequence[str],
        opening: str,
    ) -> None:
        self._argument = argument
        self._has_escapes = argument.values is Values.PYTHON and not argument.end
        self._begin = Pattern(argument.begin.removesuffix("\n"))
        self._between = argument.between.strip()
        self._schema = schema
        self._ends = tuple(ends)
        self._followers = tuple(followers)
        end = "".join(map(re.escape, self._ends[: 2 if argument.values is Values.BARE else 1]))
        self._nesting = re.compile(rf"(?P<opening>{opening})|{end}")
        self._used: list[str] = []
        self._counted = self._depth = 0
        """Characters of the current value that were searched for calls, and the calls that are open there."""

    def read(self, unread: UnreadText) -> Iterator[str | None]:
        """Yield the object as JSON text; None asks for more text."""
        yield "{"
        while (found := (yield from self._next_argument(unread))) is not None:
            key = found.values["$KEY"].strip("'\"")
            yield f"{', ' if self._used else ''}{json.dumps(key, ensure_ascii=False)}: "
            self._used.append(key)
            says_text = found.values.get("$TYPE") == "string" or found.values.get("$TEXT") == "true"
            yield from self._value(unread, key, self._schema.of(key), says_text=says_text)
        yield "}"

    def _next_argument(self, unread: UnreadText) -> Generator[None, None, Found | None]:
        while True:
            rest = unread.text.lstrip()
            rest = rest.removeprefix(self._between).lstrip() if self._used else rest
            found = self._begin.match(rest)
            if isinstance(found, Found):
                unread.text = rest[found.end :]
                return found
            if found is None or (unread.is_last and (rest or unread.is_whole)):
                return None
            yield

    def _value(self, unread: UnreadText, key: str, schema: Schema, *, says_text: bool) -> Iterator[str | None]:
        argument, kinds = self._argument, schema.kinds
        close = argument.end.strip().replace("$KEY", key)
        while (quotes := self._quotes(unread)) is None:
            yield None
        quote, end_quote = quotes
        is_text = bool(quote) or (says_text and (kinds is None or "string" in kinds))
        if quote:
            unread.text = unread.text.lstrip()[len(quote) :]
        elif close:
            is_text = is_text or not schema.may_not_be_text(unread.text)
            unread.text = unread.text.removeprefix("\n") if argument.begin.endswith("\n") else unread.text
        else:
            yield from self._literal(unread, schema)
            return
        value = yield from self._closed(unread, end_quote + close, is_text=is_text)
        yield '"' if is_text else as_json(value, schema, argument.values)

    def _quotes(self, unread: UnreadText) -> tuple[str, str] | None:
        """Return the quotes of the value that begins, empty without quotes; None if that is undecided."""
        rest = unread.text.lstrip()
        if not (rest or unread.is_last):
            return None
        for quotes in self._argument.quotes:
            if rest.startswith(quotes[0]):
                return quotes
            if quotes[0].startswith(rest) and not unread.is_last:
                return None
        return "", ""

    def _closed(self, unread: UnreadText, close: str, *, is_text: bool) -> Generator[str | None, None, str]:
        """Yield a text as it is written; return the value, whose end mark is removed."""
        self._counted = self._depth = 0
        has_break = self._argument.end.startswith("\n")
        at = shown = 0
        if is_text:
            yield '"'
        while True:
            text = unread.text
            found = _find(close, text, at, has_escapes=self._has_escapes)
            is_end = self._ends_at(unread, found, close) if found >= 0 else None
            if is_end is False:
                at = found + 1
                continue
            stop = found if found >= 0 else self._undecided_at(text, close, at)
            stop -= has_break and found > 0 and text[found - 1] == "\n"
            if is_text:
                yield self._escaped(text[shown:stop])
                shown = stop
            if is_end:
                unread.text = text[found + len(close) :]
                return text[:stop]
            at = max(at, stop)
            yield None

    def _undecided_at(self, text: str, close: str, start: int) -> int:
        before = "\n" if self._argument.end.startswith("\n") else ""
        at = len(text) - held_back(text, (before + close, close))
        escape = _OPEN_ESCAPE.search(text, start) if self._has_escapes else None
        return min(at, escape.end(1) - 1) if escape is not None and len(escape[1]) % 2 else at

    def _ends_at(self, unread: UnreadText, at: int, close: str) -> bool | None:
        """Return whether the mark at a position ends the value; None if that is undecided."""
        rest = unread.text[at + len(close) :].lstrip()
        is_next = rest.startswith(self._between)
        rest = rest.removeprefix(self._between).lstrip()
        if not rest:
            return unread.is_last or None
        found = self._begin.match(rest) if is_next else None
        end = self._ends[0]
        if isinstance(found, Found):
            key = found.values["$KEY"].strip("'\"")
            if self._schema.takes_key(key) and key not in self._used:
                is_in_call = self._is_in_call(unread, at, rest)
                return None if is_in_call is None else not is_in_call
        if rest.startswith(end):
            return self._may_follow(unread, rest[len(end) :], close, self._is_in_call(unread, at, rest))
        return None if (isinstance(found, Partial) or end.startswith(rest)) and not unread.is_last else False

    def _is_in_call(self, unread: UnreadText, at: int, rest: str) -> bool | None:
        """Return whether a value began a call, and its own call ends after that one; None if that is undecided."""
        for mark in () if self._has_escapes else self._nesting.finditer(unread.text[:at], self._counted):
            self._depth = self._depth + 1 if mark["opening"] else max(0, self._depth - 1)
            self._counted = mark.end()
        if not (depth := self._depth):
            return False
        for mark in self._nesting.finditer(rest):
            depth += 1 if mark["opening"] else -1
            if depth < 0:
                return True
        if unread.is_whole:
            return False
        return True if unread.is_last or len(rest) > _LONGEST_UNDECIDED else None

    def _may_follow(self, unread: UnreadText, text: str, close: str, is_in_call: bool | None) -> bool | None:
        """Return whether a text can follow the end of a call, which a value may contain too."""
        rest, others = text.lstrip(), self._ends[1:]
        if (self._argument.values is Values.BARE and is_in_call is False) or (
            self._has_escapes and rest.startswith((",", *others))
        ):
            return True
        missing = []
        for end in others:
            missing += [] if rest.startswith(end) else [end]
            rest = rest.removeprefix(end).lstrip()
        if not rest:
            return unread.is_last or None
        closes = () if self._has_escapes else (close, self._ends[0])
        if not unread.is_last and any(mark.startswith(rest) for mark in (*closes, *missing, *self._followers)):
            return None
        if self._has_escapes:
            return text.startswith("\n")
        if rest.startswith(closes) or (missing and not rest.startswith(self._followers)) or is_in_call:
            return False
        if is_in_call is None:
            return None
        marks = (self._ends[0], *self._followers)
        if (mark := re.search("|".join(map(re.escape, marks)), rest)) is not None:
            return mark[0] != self._ends[0]
        return True if unread.is_last or len(rest) > _LONGEST_UNDECIDED else None

    def _literal(self, unread: UnreadText, schema: Schema) -> Iterator[str | None]:
        """Yield a value without quotes, which ends before a comma or the end of the arguments."""
        at = depth = 0
        while True:
            text = unread.text
            while at < len(text):
                quotes = [
                    pair
                    for pair in (*self._argument.quotes, ('"', '"'))
                    if pair[0].startswith(text[at : at + len(pair[0])])
                ]
                if quotes:
                    quote, end = quotes[0]
                    stop = _find(end, text, at + len(quote), has_escapes=len(end) == 1)
                    if stop < 0:
                        break
                    at = stop + len(end)
                elif text[at] in ",)]}" and not depth:
                    unread.text = text[at:]
                    yield as_json(text[:at].strip(), schema, self._argument.values)
                    return
                else:
                    depth += (text[at] in "([{") - (text[at] in ")]}")
                    at += 1
            yield None

    def _escaped(self, text: str) -> str:
        return json.dumps(unescaped(text) if self._has_escapes else text, ensure_ascii=False)[1:-1]


def _find(mark: str, text: str, at: int, *, has_escapes: bool) -> int:
    if not has_escapes:
        return text.find(mark, at)
    found = re.compile(rf"\\.|{mark}", re.DOTALL).finditer(text, at)
    return next((one.start() for one in found if one[0] == mark), -1)
