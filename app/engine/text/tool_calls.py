"""Tool calls in a conversation, and tools in the system prompt for templates that show none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool with arguments, a JSON object as text, and its id in a conversation, "" as a model writes it."""

    name: str
    arguments: str
    id: str = ""


def instructions(tools: Sequence[Any]) -> str:
    """Return a system prompt with tools, in Hermes' format, for templates that know no tools."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query. Their signatures are within "
        f"<tools></tools>:\n<tools>\n{listed}\n</tools>\n\nFor each function call, return a JSON object with its name "
        'and arguments within <tool_call></tool_call>:\n<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
    )


def written(calls: Sequence[ToolCall]) -> str:
    """Return calls as a model writes them after `instructions`."""
    parts = (
        f'\n<tool_call>\n{{"name": {json.dumps(c.name)}, "arguments": {c.arguments}}}\n</tool_call>' for c in calls
    )
    return "".join(parts)
