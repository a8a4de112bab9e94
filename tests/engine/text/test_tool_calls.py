"""Check the system prompt with tools for templates that show none, and the calls of earlier turns with it."""

from __future__ import annotations

from app.engine.text.tool_calls import ToolCall, instructions, written
from tests.engine.text.reading import read, tool


def test_written_calls_are_read_again() -> None:
    f = tool("f", {"a": {"type": "string"}, "n": {"type": "integer"}})
    found = read(written([ToolCall("f", '{"a": "x", "n": 3}')]), [f])
    assert (found.text, found.calls) == ("", [("f", '{"a": "x", "n": 3}')])
    assert '"f"' in instructions([f])
