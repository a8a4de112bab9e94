"""Tool calls in a conversation, their parts in a stream, and their text for people."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call: its arguments are a JSON object as text, and its id is "" until a conversation gives it one."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class CallPart:
    """The beginning of a tool call, the next text of its arguments, or its end; a cut call has no end.

    Attributes:
        index: Number of the call in its answer, from 0.
        call: The call with the new text of its arguments.
    """

    index: int
    call: ToolCall
    begins: bool = False
    ends: bool = False


def read_arguments(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments of a call, or None if they are not a JSON object."""
    try:
        found = json.loads(call.arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def argument_object(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call, which most templates need as an object; other text is one argument."""
    found = read_arguments(call)
    return {"arguments": call.arguments} if found is None else found


def shown_call(call: ToolCall) -> str:
    """Return a call as a reader sees it: `read_file(path="notes.md")`."""
    return f"{call.name}({KeywordArguments().push(call.arguments)})"


class KeywordArguments:
    """Converts the streamed text of a JSON object into keyword arguments."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._in_key = self._is_escaped = False
        self._expects_key = True

    def push(self, text: str) -> str:
        """Add text of the object; return the new text of the arguments."""
        return "".join(map(self._shown, text))

    def _shown(self, character: str) -> str:
        is_outer = self._depth == 1
        if self._in_string:
            ends = character == '"' and not self._is_escaped
            self._is_escaped = character == "\\" and not self._is_escaped
            self._in_string = not ends
            return "" if ends and self._in_key else character
        match character:
            case '"':
                self._in_string, self._in_key = True, is_outer and self._expects_key
                return "" if self._in_key else character
            case "{" | "[":
                self._depth += 1
                return character if self._depth > 1 else ""
            case "}" | "]":
                self._depth -= 1
                return character if self._depth else ""
            case ":" | "," if is_outer:
                self._expects_key = character == ","
                return "=" if character == ":" else ", "
        return "" if is_outer and character.isspace() else character
