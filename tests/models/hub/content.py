"""Repositories of the loopback hub: files with the hashes of the real hub, and commits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass
class HubFile:
    """One file of a repository."""

    path: str
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass
class HubRepo:
    """A model repository.

    Attributes:
        gated: False, "auto" or "manual": the files need the consent of their owner. The listing stays public.
        granted: Tokens that may have the files of a gated repository.
        gguf: What the hub says of the GGUF header; made up where None.
        commits: Every commit with its files; the last one is main.
    """

    name: str
    gated: str | bool = False
    license: str | None = None
    downloads: int = 0
    gguf: Mapping[str, Any] | None = None
    granted: set[str] = field(default_factory=set)
    commits: dict[str, dict[str, HubFile]] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, HubFile]:
        return self.commits[self.resolve("main") or ""]

    def change(self, files: Mapping[str, bytes]) -> None:
        """Make a commit on main: these files as given, the others as they were."""
        held = dict(self.files) if self.commits else {}
        held |= {path: HubFile(path, content) for path, content in files.items()}
        self.commits[hashlib.sha1(f"{self.name}#{len(self.commits)}".encode()).hexdigest()] = held

    def forget(self, revision: str) -> None:
        """Remove a commit, as a rewritten history does."""
        del self.commits[revision]

    def resolve(self, revision: str) -> str | None:
        """Return the commit of main or of a commit hash."""
        if revision == "main":
            return list(self.commits)[-1]
        return revision if revision in self.commits else None
