"""Find the beginning of a tool call in the format of a model family."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any

from app.engine.text.call_arguments import ArgumentReader
from app.engine.text.call_format import CallFormat, leading_mark
from app.engine.text.call_formats import FORMATS
from app.engine.text.call_json import JsonReader
from app.engine.text.call_patterns import PARTIAL, Found, Partial, Pattern, UnreadText, as_regex
from app.engine.text.call_values import Schema

_NAME_KEYS, _ARGUMENT_KEYS = ("name", "function", "tool_name"), ("arguments", "parameters", "args", "input")
_OBJECT_KEYS = (*_NAME_KEYS, *_ARGUMENT_KEYS, "id", "type", "tool_call_id")
_DEFINING_KEYS = ("description", "input_schema")
"""Keys that occur only in the definition of a tool."""
_JSON_DECODER = json.JSONDecoder(strict=False)
_KEY_PATTERN = re.compile(r"""(?:"([^"\n]*)"|'([^'\n]*)'|(\w+))\s*:\s*""")
_OPEN_KEY = re.compile(r"""(?:"[^"\n]*"?|'[^'\n]*'?|\w+)\s*""")
_QUOTED_PATTERN = re.compile(r"'([^'\\\n]*)'")
_JSON_TAIL = 12
"""A JSON error this close to the end of a text may be an incomplete value."""
_NAME_LEAD = re.compile(r".*\s(?=\S*\$NAME)", re.DOTALL)
_MARK_PATTERN = re.compile(r"[\])}](?=<[^\]]|\s|\Z)|\S+")


@dataclass(frozen=True, slots=True)
class Opening:
    """The beginning of a call.

    Attributes:
        end: Index where its arguments begin.
    """

    row: FormatPatterns
    name: str
    end: int
    depth: int = 0
    arguments: str | None = None


class FormatPatterns:
    """A format with patterns of its texts."""

    def __init__(self, form: CallFormat) -> None:
        self._argument = form.argument
        self.is_json = form.argument is None
        argument_begin = form.argument.begin if form.argument is not None else ""
        self._argument_begin = Pattern(argument_begin)
        self._opening = as_regex(_NAME_LEAD.sub("", form.begin) + argument_begin)
        self._is_object = "$JSON" in form.begin
        whole, begin = form.first + form.begin, form.begin
        if self._is_object:
            # Objects are read by their keys.
            whole, begin = (text.partition("{")[0].rstrip().removesuffix("[") for text in (whole, begin))
        texts = {**{text: leading_mark(text) for text in (begin, *form.also)}, whole: form.trigger}
        self.starts = [(mark, Pattern(text)) for text, mark in texts.items() if mark]
        self.alone = [Pattern(text) for text in form.alone]
        self.again = [Pattern(text) for text in ((begin, "") if self._is_object else (begin,))]
        self.ends = _MARK_PATTERN.findall(form.end.lstrip("}") if self._is_object else form.end)
        same = [one.last for one in FORMATS if one.call == form.call]
        self._followers = [
            *(mark for mark, _ in self.starts),
            *(end for last in same for end in _MARK_PATTERN.findall(last)),
        ]
        self.last = _MARK_PATTERN.findall(form.last) or (["]", "```"] if self._is_object else [])

    def arguments(self, schema: Schema) -> JsonReader | ArgumentReader:
        """Return a reader of a call's arguments; other formats' ends may end the call too."""
        if self._argument is None:
            return JsonReader((*self.ends, *self.last, *known_marks().ends, *(mark for mark, _ in self.starts)))
        return ArgumentReader(self._argument, schema, [*self.ends, *self.last], self._followers, self._opening)

    def opening(
        self, pattern: Pattern, text: str, at: int, names: Collection[str], *, is_strict: bool = False
    ) -> Opening | Partial | None:
        """Return the beginning of a call of a tool at a position, if any; `is_strict` allows no other keys."""
        found = pattern.match(text, at, names)
        if not isinstance(found, Found):
            return found
        if self._is_object:
            return self._object(text, found.end, names, is_strict=is_strict)
        rest = text[found.end :].lstrip()
        opening = Opening(self, found.values["$NAME"], len(text) - len(rest) if self._argument is None else found.end)
        if not rest:
            return PARTIAL
        if self._argument is None:
            return opening if rest.startswith("{") else None
        first = self._argument_begin.match(rest)
        if isinstance(first, Found) or rest.startswith(tuple(self.ends)):
            return opening
        return first or (PARTIAL if any(end.startswith(rest) for end in self.ends) else None)

    def _object(self, text: str, at: int, names: Collection[str], *, is_strict: bool) -> Opening | Partial | None:
        at = skipped(text, at)
        at = skipped(text, at + 1) if text.startswith("[", at) else at
        if not text.startswith("{", at):
            return PARTIAL if at == len(text) else None
        # The template of Qwen2.5-Coder shows models two braces.
        depth = 2 if text.startswith("{{", at) else 1
        at, name, arguments = at + depth, "", None
        while (at := skipped(text, at)) < len(text):
            if text[at] in ",}":
                depth -= text[at] == "}"
                at += 1
                if depth:
                    continue
                is_call = name and (arguments is not None or not is_strict)
                return Opening(self, name, at, 0, arguments or "{}") if is_call else None
            found = _KEY_PATTERN.match(text, at)
            if found is None:
                return PARTIAL if _OPEN_KEY.fullmatch(text, at) else None
            key, at = next(filter(None, found.groups()), ""), found.end()
            if at == len(text):
                return PARTIAL
            may_be_schema = depth > 1 and key == "parameters"
            if key in _ARGUMENT_KEYS and name and text[at] == "{" and not may_be_schema:
                return Opening(self, name, at, depth)
            if key == "function" and text[at] == "{":
                depth, at = depth + 1, at + 1
                continue
            value, at = _decoded(text, at)
            if at < 0 or key in _DEFINING_KEYS or (may_be_schema and _is_schema(value)):
                # A model may quote the tools themselves.
                return None
            if may_be_schema and at > len(text):
                return PARTIAL
            if key in _ARGUMENT_KEYS:
                arguments = _as_arguments(value)
            elif key in _NAME_KEYS and isinstance(value, str) and at <= len(text):
                name = value
            if (name and name not in names) or (
                is_strict and (key not in _OBJECT_KEYS or (key in _ARGUMENT_KEYS and not isinstance(value, dict)))
            ):
                return None
        return PARTIAL


class KnownMarks:
    """Marks of all formats, the longest first.

    Attributes:
        rows: All formats.
        starts: Marks that begin calls.
        first_letters: First characters of these marks.
        pattern: Regular expression of these marks.
        ends: Marks that end calls in any format, because some models end them with the mark of another format, or
            of the previous mark.
    """

    def __init__(self) -> None:
        self.rows = [FormatPatterns(form) for form in FORMATS]
        starts = {mark for row in self.rows for mark, _ in row.starts}
        self.starts = sorted(starts, key=lambda mark: (-len(mark), mark))
        self.first_letters = {mark[0] for mark in starts}
        self.pattern = re.compile("|".join(map(re.escape, self.starts)))
        ends = {end for row in self.rows for end in (*row.ends, *row.last) if end.startswith("<")}
        tags = (mark for mark in self.starts if mark.startswith("<") and mark.endswith(">"))
        self.ends = [*sorted(ends), *(f"</{tag[1:]}" for tag in tags)]


@cache
def known_marks() -> KnownMarks:
    """Return the marks; they do not depend on the tools."""
    return KnownMarks()


def skipped(text: str, at: int) -> int:
    """Return the next position after white space."""
    while text[at : at + 1].isspace():
        at += 1
    return at


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """Return a JSON value and its end: past the text if it may be incomplete, negative if it is no JSON."""
    if (quoted := _QUOTED_PATTERN.match(text, at)) is not None:
        return quoted[1], quoted.end()
    try:
        return _JSON_DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        may_go_on = error.msg.startswith("Unterminated") or error.pos >= len(text) - _JSON_TAIL
        may_go_on = may_go_on or (text[at] == "'" and "\n" not in text[at:])
        return "", len(text) + 1 if may_go_on else -1
    except RecursionError:
        return "", -1


def _is_schema(value: object) -> bool:
    return isinstance(value, dict) and value.get("type") == "object" and isinstance(value.get("properties"), dict)


def _as_arguments(value: object) -> str:
    """Return arguments as JSON text; some models write the object as a string."""
    if isinstance(value, str):
        unread = UnreadText(value or "{}", is_last=True, is_whole=True)
        pieces = takewhile(lambda piece: piece is not None, JsonReader().read(unread))
        return "".join(filter(None, pieces)) + unread.text
    return json.dumps({} if value is None else value, ensure_ascii=False)
