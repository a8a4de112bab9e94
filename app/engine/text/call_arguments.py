"""Read the arguments of a tool call while they are written; return them as JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from app.engine.text.call_format import Argument, Values
from app.engine.text.call_patterns import Found, Partial, Pattern
from app.engine.text.call_values import Schema, as_json, unescaped
from app.engine.text.segments import held_back

_ONLY_STRING = frozenset({"string"})
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
        self.is_done = False
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
        self._has_begun = False
        # The current value
        self._key: str | None = None
        self._value_schema = schema
        self._is_open = self._is_text = False
        self._close = self._value = ""
        self._scanned = self._counted = self._depth = 0

    def read(self, text: str, *, is_last: bool = False, is_whole: bool = False) -> tuple[str, str]:
        """Return the next JSON text, and the text that is undecided or follows the arguments.

        Args:
            text: The undecided text of the last call, and new text.
            is_whole: Whether the model ended its answer itself, so that nothing is missing.
        """
        out = "" if self._has_begun else "{"
        self._has_begun = True
        while not self.is_done:
            key = self._key
            part = self._read_key if key is None else self._read_value
            new, text = part(text, is_last, is_whole)
            out += new
            if self._key == key:
                break
        return out, text

    def _read_key(self, text: str, is_last: bool, is_whole: bool) -> tuple[str, str]:
        rest = text.lstrip()
        rest = rest.removeprefix(self._between).lstrip() if self._used else rest
        found = self._begin.match(rest)
        if isinstance(found, Partial) and not (is_last and (rest or is_whole)):
            return "", text
        if not isinstance(found, Found):
            self.is_done = True
            return "}", text
        key = self._key = found.values["$KEY"].strip("'\"")
        self._value_schema = self._schema.of(key)
        kinds = self._value_schema.kinds
        says_text = found.values.get("$TYPE") == "string" or found.values.get("$TEXT") == "true"
        self._is_text = kinds == _ONLY_STRING or (says_text and (kinds is None or "string" in kinds))
        self._is_open, self._value = False, ""
        self._close = self._argument.end.strip().replace("$KEY", key)
        self._scanned = self._counted = self._depth = 0
        comma = ", " if self._used else ""
        self._used.append(key)
        return f"{comma}{json.dumps(key, ensure_ascii=False)}: ", rest[found.end :]

    def _read_value(self, text: str, is_last: bool, is_whole: bool) -> tuple[str, str]:
        out = ""
        if not self._is_open:
            opened = self._opened(text, is_last)
            if opened is None:
                return "", text
            text, self._is_open = opened, True
            out = '"' if self._is_text else ""
        if not self._close:
            return self._read_literal(text)
        at, ends = self._find_close(text), None
        while at >= 0 and (ends := self._ends_at(text, at, is_last, is_whole)) is False:
            self._scanned = at + 1
            at = self._find_close(text)
        stop = self._undecided_at(text) if at < 0 else at
        if at > 0 and self._argument.end.startswith("\n") and text[at - 1] == "\n":
            stop = at - 1
        if ends:
            self._key = None
            end = f'{self._escaped(text[:stop])}"' if self._is_text else self._as_json(text[:stop])
            return out + end, text[at + len(self._close) :]
        if not self._is_text:
            return out, text
        self._scanned = max(0, self._scanned - stop)
        self._value += text[:stop]
        return out + self._escaped(text[:stop]), text[stop:]

    def _opened(self, text: str, is_last: bool) -> str | None:
        is_tagged, rest = bool(self._close), text.lstrip()
        if not (rest or is_last):
            return None
        for quote, end in self._argument.quotes:
            if rest.startswith(quote):
                self._close, self._is_text = end + self._close, True
                return rest[len(quote) :]
            if quote.startswith(rest) and not is_last:
                return None
        if not is_tagged:
            self._is_text = False
            return rest
        self._is_text = self._is_text or not self._value_schema.may_not_be_text(rest)
        return text.removeprefix("\n") if self._argument.begin.endswith("\n") else text

    def _find_close(self, text: str) -> int:
        if not self._has_escapes:
            return text.find(self._close, self._scanned)
        marks = re.compile(rf"\\.|{self._close}", re.DOTALL).finditer(text, self._scanned)
        return next((mark.start() for mark in marks if mark[0] == self._close), -1)

    def _undecided_at(self, text: str) -> int:
        before = "\n" if self._argument.end.startswith("\n") else ""
        at = len(text) - held_back(text, (before + self._close, self._close))
        escape = _OPEN_ESCAPE.search(text) if self._has_escapes else None
        return min(at, escape.end(1) - 1) if escape is not None and len(escape[1]) % 2 else at

    def _ends_at(self, text: str, at: int, is_last: bool, is_whole: bool) -> bool | None:
        """Return whether the mark at a position ends the value; None if that is undecided."""
        value, rest = text[:at], text[at + len(self._close) :].lstrip()
        is_next = not self._between or rest.startswith(self._between)
        rest = rest.removeprefix(self._between).lstrip()
        if not rest:
            return is_last or None
        found = self._begin.match(rest) if is_next else None
        end = self._ends[0]
        if isinstance(found, Found):
            key = found.values["$KEY"].strip("'\"")
            if self._schema.takes_key(key) and key not in self._used:
                is_in_call = self._is_in_call(value, rest, is_last, is_whole)
                return None if is_in_call is None else not is_in_call
        if rest.startswith(end):
            is_in_call = self._is_in_call(value, rest, is_last, is_whole)
            return self._may_follow(rest[len(end) :], is_in_call, is_last)
        return None if (isinstance(found, Partial) or end.startswith(rest)) and not is_last else False

    def _is_in_call(self, value: str, rest: str, is_last: bool, is_whole: bool) -> bool | None:
        """Return whether a value began a call, and its own call ends after that one; None if that is undecided."""
        for mark in () if self._has_escapes else self._nesting.finditer(self._value + value, self._counted):
            self._depth = self._depth + 1 if mark["opening"] else max(0, self._depth - 1)
            self._counted = mark.end()
        if not (depth := self._depth):
            return False
        for mark in self._nesting.finditer(rest):
            depth += 1 if mark["opening"] else -1
            if depth < 0:
                return True
        if is_whole:
            return False
        return True if is_last or len(rest) > _LONGEST_UNDECIDED else None

    def _may_follow(self, text: str, is_in_call: bool | None, is_last: bool) -> bool | None:
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
            return is_last or None
        closes = () if self._has_escapes else (self._close, self._ends[0])
        if not is_last and any(mark.startswith(rest) for mark in (*closes, *missing, *self._followers)):
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
        return True if is_last or len(rest) > _LONGEST_UNDECIDED else None

    def _read_literal(self, text: str) -> tuple[str, str]:
        """Read a value without quotes, which ends before a comma or the end of the arguments."""
        at = self._scanned
        while at < len(text):
            quotes = [
                pair for pair in (*self._argument.quotes, ('"', '"')) if pair[0].startswith(text[at:][: len(pair[0])])
            ]
            if quotes:
                stop = _string_end(text, at, *quotes[0])
                if stop < 0:
                    break
                at = stop
                continue
            if text[at] in ",)]}" and not self._depth:
                self._key = None
                return self._as_json(text[:at].strip()), text[at:]
            self._depth += (text[at] in "([{") - (text[at] in ")]}")
            at += 1
        self._scanned = at
        return "", text

    def _as_json(self, text: str) -> str:
        return as_json(text, self._value_schema, self._argument.values)

    def _escaped(self, text: str) -> str:
        return json.dumps(unescaped(text) if self._has_escapes else text, ensure_ascii=False)[1:-1]


def _string_end(text: str, at: int, quote: str, end: str) -> int:
    if len(end) > 1:
        stop = text.find(end, at + len(quote))
        return stop + len(end) if stop >= 0 else -1
    marks = re.compile(rf"\\.|{end}", re.DOTALL).finditer(text, at + 1)
    return next((mark.end() for mark in marks if mark[0] == end), -1)
