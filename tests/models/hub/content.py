"""Repositories of the loopback hub: files with the hashes of the real hub, and commits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

HOSTILE_NAMES = (
    "../../x.gguf",
    "a/../../../x.gguf",
    "/etc/x.gguf",
    "..\\..\\x.gguf",
    "C:\\x.gguf",
    "a//b.gguf",
    "./x.gguf",
    "line\nbreak.gguf",
    "\x1b[2J\x1b]0;title\x07.gguf",
    "nul\x00.gguf",
    "right-to-left-\u202efugg.gguf",
    "lone-surrogate-\ud800.gguf",
    "x" * 300 + ".gguf",
)
"""File names that no program may write to; `LoopbackHub.add` takes them as they are."""


@dataclass
class HubFile:
    """One file of a repository.

    Attributes:
        path: Its name in the repository.
        content: Its bytes, or a file on disk that is served from there.
    """

    path: str
    content: bytes | Path

    @cached_property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    @cached_property
    def sha256(self) -> str:
        if isinstance(self.content, bytes):
            return hashlib.sha256(self.content).hexdigest()
        with self.content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass
class HubRepo:
    """A model repository.

    Attributes:
        gated: False, "auto" or "manual": the files need the consent of their owner. The listing stays public.
        granted: Tokens that may have the files of a gated repository.
        gguf: What the hub says of the GGUF header; made up where None.
        commits: Every commit with its files.
    """

    name: str
    gated: str | bool = False
    license: str | None = None
    downloads: int = 0
    gguf: Mapping[str, Any] | None = None
    granted: set[str] = field(default_factory=set)
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, HubFile]] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        return self.branches["main"]

    @property
    def files(self) -> dict[str, HubFile]:
        return self.commits[self.commit]

    def change(self, files: Mapping[str, bytes | Path | HubFile | None]) -> str:
        """Make a commit on main: these files as given, None removes one, the others as they were."""
        held = dict(self.files) if self.commits else {}
        for path, content in files.items():
            if content is None:
                held.pop(path)
            else:
                held[path] = content if isinstance(content, HubFile) else HubFile(path, content)
        commit = hashlib.sha1(f"{self.name}#{len(self.commits)}".encode()).hexdigest()
        self.commits[commit] = held
        self.branches["main"] = commit
        return commit

    def resolve(self, revision: str) -> str | None:
        """Return the commit of a branch or a commit hash."""
        return self.branches.get(revision) or (revision if revision in self.commits else None)
