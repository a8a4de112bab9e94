"""Calls as a reader sees them, whole and while they are written."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.sources import Source
from app.engine.text.segments import Segment
from app.engine.text.shown_calls import CallSegments
from app.engine.text.tool_calls import ToolCall, shown_call

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read", "list")
]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("{}", "read()"),
        ("", "read()"),
        ('{"path": "notes.md"}', 'read(path="notes.md")'),
        ('{"a": 1, "b": [{"c": "d, e: {f}"}], "g": {"h": null}}', 'read(a=1, b=[{"c": "d, e: {f}"}], g={"h": null})'),
        (r'{"a": "say \"b\" \\", "c": true}', r'read(a="say \"b\" \\", c=true)'),
    ],
)  # fmt: skip
def test_a_call_as_one_line(arguments: str, shown: str) -> None:
    assert shown_call(ToolCall("read", arguments)) == shown


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_text_and_calls_of_an_answer(size: int) -> None:
    text = (
        'I look.\n<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "list", "arguments": {}}\n</tool_call>'
    )
    separate = CallSegments(TOOLS)
    pieces = [Segment("Hm.", reasoning=True)]
    pieces += [Segment(text[at : at + size], Source.MODEL) for at in range(0, len(text), size)]
    shown = [*separate.push(pieces), *separate.end(is_cut=False)]

    def joined(*, reasoning: bool = False, is_call: bool = False) -> str:
        return "".join(s.text for s in shown if (s.reasoning, s.is_call) == (reasoning, is_call))

    assert joined(reasoning=True) == "Hm."
    assert joined().strip() == "I look."
    assert joined(is_call=True) == 'read(path="a")\nlist()'
    assert {segment.source for segment in shown if segment.is_call} == {Source.MODEL}
    assert separate.calls == [ToolCall("read", '{"path": "a"}'), ToolCall("list", "{}")]
    assert not separate.is_cut


def test_a_cut_call() -> None:
    separate = CallSegments(TOOLS)
    separate.push([Segment('<tool_call>\n{"name": "read", "arguments": {"path": "no')])
    separate.end(is_cut=True)

    assert separate.is_cut
