"""Calls of tools as a reader sees them while a model writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.engine.text.call_reader import AnswerText, CallArguments, CallBegin, CallEnd, CallEvent, CallReader
from app.engine.text.segments import Segment
from app.engine.text.tool_calls import KeywordArguments, ToolCall


class CallSegments:
    """Separate calls from the segments of an answer, and turn them into segments of their own.

    Attributes:
        calls: The calls so far, without ids.
        is_cut: Whether the last one is incomplete.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._reader = CallReader(tools)
        self._arguments = KeywordArguments()
        self._last = Segment("")
        self.calls: list[ToolCall] = []
        self.is_cut = False

    def push(self, segments: Iterable[Segment]) -> list[Segment]:
        """Take new text; return what can be shown now, with the source of the text that decided it."""
        shown: list[Segment] = []
        for segment in segments:
            self._last = segment
            shown += self._shown(self._reader.push(segment.text, reasoning=segment.reasoning))
        return shown

    def end(self, *, is_cut: bool) -> list[Segment]:
        """Return the rest, when no more text follows."""
        return list(self._shown(self._reader.end(is_cut=is_cut)))

    def _shown(self, events: Iterable[CallEvent]) -> Iterator[Segment]:
        for event in events:
            call = replace(self._last, is_call=True, reasoning=False)
            match event:
                case AnswerText(text, reasoning):
                    yield replace(self._last, text=text, reasoning=reasoning)
                case CallBegin(name):
                    self._arguments = KeywordArguments()
                    self.calls.append(ToolCall(name, ""))
                    yield replace(call, text=f"{chr(10) * (len(self.calls) > 1)}{name}(")
                case CallArguments(text):
                    self.calls[-1] = replace(self.calls[-1], arguments=self.calls[-1].arguments + text)
                    yield replace(call, text=self._arguments.push(text))
                case CallEnd(is_cut):
                    self.is_cut = is_cut
                    yield replace(call, text="" if is_cut else ")")
