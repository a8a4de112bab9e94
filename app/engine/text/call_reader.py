"""Separate tool calls from the text of an answer while it is written, in the format of any model family.

A call begins with a mark of its format and the name of a tool; everything else is text.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.engine.sources import Source
from app.engine.text.call_json import JsonReader
from app.engine.text.call_openings import FormatPatterns, Opening, known_marks, skipped
from app.engine.text.call_patterns import PARTIAL, Partial, UnreadText
from app.engine.text.call_values import Schema
from app.engine.text.segments import Segment
from app.engine.text.tool_calls import CallPart, KeywordArguments, ToolCall

_SHORTEST_MARK = 5
"""Shortest beginning of a mark, in characters, that is dropped where a text is cut; without text, any length is."""


class CallReader:
    """Separates calls from the segments of an answer, and turns them into segments of their own.

    Text that may begin a call is held back until that is decided; arguments are returned as they are written. Each
    segment has the source of the text that decided it.

    Args:
        must_call: Whether the answer consists only of calls.

    Attributes:
        calls: The complete calls so far, without ids.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]], *, must_call: bool = False) -> None:
        self._must_call = must_call
        functions = [tool["function"] for tool in tools]
        schemas = {function["name"]: Schema(function.get("parameters")) for function in functions}
        self._schemas = dict(sorted(schemas.items(), key=lambda item: len(item[0]), reverse=True))
        self._marks = known_marks()
        self._is_thinking = self._has_text = self._is_open = False
        self._is_space = True
        self._source: Source | None = None
        self.calls: list[ToolCall] = []
        self._restart()

    def _restart(self) -> None:
        self._unread = UnreadText()
        self._segments = self._read()

    def push(self, segments: Iterable[Segment]) -> list[Segment]:
        """Add text of the answer or its reasoning; return the decided segments."""
        out: list[Segment] = []
        for segment in segments:
            self._source = segment.source
            if segment.reasoning is not self._is_thinking and not self._is_open:
                out += self._close_part()
                self._is_thinking = segment.reasoning
            self._unread.text += segment.text
            out += self._decided()
        return out

    def end(self, *, is_cut: bool = False) -> list[Segment]:
        """Return the remaining segments after the model ended its answer or something cut it."""
        self._unread.is_last, self._unread.is_whole = True, not is_cut
        out = self._decided()
        return out if self._is_open else out + self._close_part()

    def _close_part(self) -> list[Segment]:
        held = self._unread.text
        self._restart()
        return [Segment(held, self._source, self._is_thinking)] if held else []

    def _decided(self) -> list[Segment]:
        out: list[Segment] = []
        while (segment := next(self._segments, None)) is not None:
            out.append(segment)
        return out

    def _read(self) -> Iterator[Segment | None]:
        """Yield the segments of an answer, or None where they depend on text to come."""
        opening = yield from self._read_text()
        while opening is not None:
            yield from self._read_call(opening)
            opening = yield from self._read_after(opening.row)
            if opening is None:
                opening = yield from self._read_text()

    def _read_call(self, opening: Opening) -> Iterator[Segment | None]:
        self._is_space = self._is_open = True
        name, index, shown = opening.name, len(self.calls), KeywordArguments()
        begin = CallPart(index, ToolCall(name, ""), begins=True)
        yield Segment(f"\n{name}(" if index else f"{name}(", self._source, call=begin)
        before, text = "", opening.arguments or ""
        if opening.arguments is None:
            for piece in opening.row.arguments(self._schemas[name]).read(self._unread):
                if piece is not None:
                    text += piece
                    continue
                if text:
                    yield Segment(shown.push(text), self._source, call=CallPart(index, ToolCall(name, text)))
                    before, text = before + text, ""
                yield None
        self._is_open = False
        self.calls.append(ToolCall(name, before + text))
        end = CallPart(index, ToolCall(name, text), ends=True)
        yield Segment(f"{shown.push(text)})", self._source, call=end)
        if opening.depth:
            # The rest of the object around the arguments
            yield from (None for piece in JsonReader(None, opening.depth).read(self._unread) if piece is None)

    def _read_after(self, row: FormatPatterns) -> Generator[Segment | None, None, Opening | None]:
        """Read what follows a call; return the next call, or None before other text."""
        ends = list(row.ends)
        while True:
            if self._pass_ends(row, ends):
                rest = self._unread.text.lstrip(" \t\r\n,;")
                found = [row.opening(pattern, rest, 0, self._schemas) for pattern in row.again]
                opening = next((one for one in found if isinstance(one, Opening)), None)
                if opening is not None:
                    self._unread.text = rest[opening.end :]
                    return opening
                is_undecided = not self._unread.is_last and any(isinstance(one, Partial) for one in found)
                if not is_undecided and self._pass_ends(row, [*row.last, *self._marks.ends]):
                    return None
            yield None

    def _pass_ends(self, row: FormatPatterns, ends: list[str]) -> bool:
        """Remove ends from the text and the list while they match; return whether more text follows."""
        unread = self._unread
        unread.text = unread.text.lstrip()
        if row.is_json and not (ends and unread.text.startswith(ends[0])):
            # Some models close an object or a list twice.
            unread.text = unread.text.lstrip("]} \t\r\n")
        while ends and unread.text:
            if not unread.text.startswith(ends[0]) and ends[0].startswith(unread.text):
                if not unread.is_last:
                    return False
                # The mark was cut.
                unread.text = ""
                break
            unread.text = unread.text.removeprefix(ends.pop(0)).lstrip()
        return bool(unread.text) or unread.is_last

    def _read_text(self) -> Generator[Segment | None, None, Opening | None]:
        """Read text; return the call that follows, or None at the end of the answer."""
        unread = self._unread
        while True:
            at, opening, is_alone = self._find()
            if isinstance(opening, Opening):
                yield from self._emit(at, before_call=True)
                if not self._is_thinking:
                    unread.text = unread.text[opening.end - at :]
                    return opening
                # It is a call only if the reasoning is not closed after it.
                while not unread.is_last:
                    yield None
                self._is_thinking = False
                continue
            is_mark = isinstance(opening, Partial)
            if opening is None:
                at = self._undecided_at()
                mark, is_first = unread.text[at:], not (self._has_text or unread.text[:at].strip())
                is_mark = len(mark) >= _SHORTEST_MARK or (is_first and not mark[:1].isalnum())
            elif is_alone:
                is_mark = any(json.dumps(name)[:-1] in unread.text for name in self._schemas)
            if not (self._is_space and unread.text[:at].isspace()):
                yield from self._emit(at)
            if unread.is_last:
                # The beginning of a cut call is not text of the answer.
                is_dropped = not unread.is_whole and (is_mark or self._must_call)
                unread.text = "" if is_dropped else unread.text
                yield from self._emit(len(unread.text), before_call=bool(self.calls))
                return None
            yield None

    def _find(self) -> tuple[int, Opening | Partial | None, bool]:
        """Return the first position of a call or its possible beginning, and whether the answer's beginning decides."""
        text, rows, names = self._unread.text, self._marks.rows, self._schemas
        if self._is_space and text.isspace() and not self._is_thinking:
            return 0, PARTIAL, True
        if not (self._has_text or self._is_thinking):
            at = skipped(text, 0)
            alone = (row.opening(one, text, at, names, is_strict=True) for row in rows for one in row.alone)
            if (found := _best(alone)) is not None:
                return at, found, True
        for start in self._marks.pattern.finditer(text):
            several = (
                row.opening(pattern, text, start.start(), names, is_strict=mark.startswith("`"))
                for row in rows
                for mark, pattern in row.starts
                if text.startswith(mark, start.start())
            )
            if (found := _best(several)) is not None:
                return start.start(), found, False
        return len(text), None, False

    def _undecided_at(self) -> int:
        text, marks = self._unread.text, self._marks
        for at in range(max(0, len(text) - len(marks.starts[0])), len(text)):
            if text[at] in marks.first_letters and any(mark.startswith(text[at:]) for mark in marks.starts):
                return at
        return len(text)

    def _emit(self, at: int, *, before_call: bool = False) -> Iterator[Segment]:
        unread = self._unread
        text, unread.text = unread.text[:at], unread.text[at:]
        if not text or (before_call and self._is_space and text.isspace() and not self._is_thinking):
            # White space around calls is no text.
            return
        self._has_text = self._has_text or not self._is_thinking
        self._is_space = self._is_space and self._is_thinking
        yield Segment(text, self._source, self._is_thinking)


def _best(several: Iterator[Opening | Partial | None]) -> Opening | Partial | None:
    undecided = None
    for one in several:
        if isinstance(one, Opening):
            return one
        undecided = undecided or one
    return undecided
