"""Tools of MCP servers, and the events of their servers: frozen values that leave the thread of the servers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from app.core.errors import AppError


@dataclass(frozen=True)
class Tool:
    """A tool as its server describes it; none of it is checked.

    Attributes:
        schema: JSON schema of its arguments.
        reads_only: Whether it declares that it changes nothing.
    """

    server: str
    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict, hash=False)
    reads_only: bool = False

    @property
    def key(self) -> str:
        """Its name among the tools of all servers."""
        return f"{self.server}/{self.name}"

    @cached_property
    def digest(self) -> str:
        """A digest of all that the user saw of the tool when they allowed it."""
        seen = [self.server, self.name, self.description, self.schema, self.reads_only]
        # Not needed for the first frame.
        from hashlib import blake2b

        return blake2b(json.dumps(seen, sort_keys=True).encode("utf-8", "replace"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ToolsListed:
    """Report the tools of a server, or why it has none."""

    server: str
    tools: tuple[Tool, ...] = ()
    error: AppError | None = None


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """Report the result of a call, or the failure that the model reads instead.

    Attributes:
        call: Number of the call.
        seconds: Time that it took.
    """

    call: int
    text: str
    is_error: bool = False
    seconds: float = 0.0
