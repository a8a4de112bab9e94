"""Read an answer in pieces or in tokens, and write calls in a format."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.engine.text.call_format import CallFormat
from app.engine.text.call_formats import TRIGGERS, is_call_mark
from app.engine.text.call_reader import CallReader
from app.engine.text.reasoning import ReasoningMarkup
from app.engine.text.segments import Segment
from app.engine.text.stream import TextStream
from app.engine.text.tool_calls import CallPart, ToolCall

_MARK_WITH_BARS = re.compile(r"<\|[^<>]*\|?>|<[a-z_]+\|>")
SPELLED_MARKS = "\0"
"""Character that stands for the text of all marks, in tokens of letters."""


@dataclass
class Reading:
    """Text, reasoning and calls that a reader found in an answer."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    is_cut: bool = False

    def add(self, segments: Sequence[Segment]) -> None:
        for one in segments:
            match one.call:
                case None:
                    self.text += "" if one.reasoning else one.text
                    self.reasoning += one.text if one.reasoning else ""
                case CallPart(_, call, begins, ends):
                    before = "" if begins else self.calls.pop()[1]
                    self.calls.append((call.name, before + call.arguments))
                    self.is_cut = not ends

    @property
    def values(self) -> list[tuple[str, Any]]:
        """Return the names and the arguments of the calls."""
        return [(name, json.loads(arguments)) for name, arguments in self.calls]


def read(
    text: str, tools: Sequence[Mapping[str, Any]], size: int = 1, *, cut: bool = False, reasoning: bool = False
) -> Reading:
    """Return the result of an answer that arrives in pieces of a size."""
    reader, found = CallReader(tools), Reading()
    for at in range(0, len(text), size):
        found.add(reader.push([Segment(text[at : at + size], reasoning=reasoning)]))
    found.add(reader.end(is_cut=cut))
    return found


def read_tokens(
    markup: ReasoningMarkup,
    text: str,
    marks: Sequence[str] | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    shown: bool = False,
    stops: Sequence[str] = (),
    **how: Any,
) -> Reading:
    """Return the result of an answer in which marks are tokens, and every other byte is a token too.

    Args:
        marks: The marks that are tokens; None for all with bars.
        shown: Whether llama.cpp returns the text of these tokens, as for GPT-OSS.
    """
    marks = _MARK_WITH_BARS.findall(text) if marks is None else marks
    ids = {mark: 1000 + n for n, mark in enumerate(dict.fromkeys(marks))}
    parts = re.split(f"({'|'.join(map(re.escape, ids))})", text) if ids else [text]
    markup = replace(markup, calls=TRIGGERS) if tools else markup
    stream, reader, found = TextStream(stops, markup=markup.with_tokens(ids), **how), CallReader(tools), Reading()

    def add(segments: Sequence[Segment]) -> None:
        found.add(reader.push(segments) if tools else segments)

    for part in parts:
        if part in ids:
            add(stream.push(part.encode() if shown or is_call_mark(part) else b"", None, ids[part]))
            continue
        for byte in part.replace(SPELLED_MARKS, " ".join(ids)).encode():
            add(stream.push(bytes([byte]), None, byte))
    add(stream.flush())
    found.add(reader.end())
    return found


def tool(name: str, properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a tool."""
    parameters = {"type": "object", "properties": dict(properties), **more}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def written(form: CallFormat, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return calls in a format."""
    return form.written(
        [ToolCall(name, json.dumps(arguments), f"abcdefgh{n}") for n, (name, arguments) in enumerate(calls)]
    )
