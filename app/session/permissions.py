"""Tools that may run without asking: in a conversation, or always."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from app.core import atomic
from app.core.errors import AppError
from app.core.regular_file import read_bytes
from app.worker.events import Tool, tool_key


class Permission(Enum):
    """The user's answer to a call."""

    ONCE = "once"
    CONVERSATION = "chat"
    ALWAYS = "always"
    READING = "reading"
    """All tools of the server that declare to change nothing, with their current descriptions."""
    NO = "no"


class Permissions:
    """The tools that the user allows, each as its server described it.

    Args:
        file: Stores the tools that are always allowed; None keeps them in memory.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._always: dict[str, str] = {}
        self._in_conversation: dict[tuple[int | None, str], str] = {}

    def allows(self, tool: Tool, conversation: int | None) -> bool:
        """Return whether a tool may run without asking, with its current description and the current file."""
        return tool.digest in (self._in_conversation.get((conversation, tool.key)), self._readable().get(tool.key))

    def of_server(self, server: str) -> dict[str, str]:
        """Return the names of a server's allowed tools, with where each is allowed."""
        here = dict.fromkeys((key for _, key in self._in_conversation), "in a conversation")
        start = tool_key(server, "")
        found = here | dict.fromkeys(self._readable(), "always")
        return {key.removeprefix(start): where for key, where in sorted(found.items()) if key.startswith(start)}

    def knows(self, tool: Tool) -> bool:
        """Return whether a tool was ever allowed, perhaps with another description."""
        return tool.key in self._readable() or any(key == tool.key for _, key in self._in_conversation)

    def allow(self, permission: Permission, tools: Iterable[Tool], conversation: int | None) -> None:
        """Remember what the user allows. Raises AppError if it cannot be stored."""
        new = {tool.key: tool.digest for tool in tools}
        if permission is Permission.CONVERSATION:
            self._in_conversation |= {(conversation, key): digest for key, digest in new.items()}
        elif permission in (Permission.ALWAYS, Permission.READING):
            self._write(self.always() | new)

    def revoke(self, keys: Iterable[str]) -> None:
        """Ask again before these tools run, in all conversations. Raises AppError if it cannot be stored."""
        gone = set(keys)
        here = self._in_conversation.items()
        self._in_conversation = {where: digest for where, digest in here if where[1] not in gone}
        self._write({key: digest for key, digest in self.always().items() if key not in gone})

    def _readable(self) -> dict[str, str]:
        """Return what is always allowed, which is nothing while the file cannot be read."""
        try:
            return self.always()
        except AppError:
            return {}

    def always(self) -> dict[str, str]:
        """Return the digests of the tools that are always allowed by key, as the file has them now.

        Raises AppError for a file that cannot be read, and so must not be overwritten.
        """
        if self._file is None:
            return self._always
        try:
            found = json.loads(read_bytes(self._file))
        except FileNotFoundError:
            return {}
        except OSError as error:
            reason = error.strerror or error
            raise AppError(f"{self._file} cannot be read: {reason}.", "Check the file and its permissions.") from error
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise AppError(f"{self._file} is damaged.", "Delete it; Tandem then asks again before a tool runs.")
        return found

    def _write(self, always: dict[str, str]) -> None:
        self._always = always
        try:
            if self._file is not None:
                atomic.write_json(self._file, always)
        except OSError as error:
            raise AppError(f"{self._file} cannot be written: {error.strerror or error}.") from error
