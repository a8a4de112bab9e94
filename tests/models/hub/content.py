"""What the loopback hub holds: files with the hashes the real hub gives them, repositories with their commits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

LFS_PATTERNS = ("*.gguf", "*.safetensors", "*.bin")
LFS_FROM_BYTES = 10 * 1024 * 1024

HOSTILE_NAMES = (
    "../../x.gguf",
    "a/../../../x.gguf",
    "/etc/x.gguf",
    "//server/share/x.gguf",
    "..\\..\\x.gguf",
    "C:\\x.gguf",
    "~/x.gguf",
    "$HOME/x.gguf",
    "%2e%2e/x.gguf",
    "a//b.gguf",
    "./x.gguf",
    ".gguf",
    "-rf.gguf",
    "CON.gguf",
    "x.gguf ",
    "line\nbreak.gguf",
    "bell\x07.gguf",
    "\x1b[2J\x1b]0;title\x07.gguf",
    "nul\x00.gguf",
    "right-to-left-\u202efugg.gguf",
    "lone-surrogate-\ud800.gguf",
    "x" * 300 + ".gguf",
)
"""File names a listing may hold and no program may write to; `LoopbackHub.add` takes them as they are."""


@dataclass
class HubFile:
    """One file of a repository.

    Attributes:
        path: Its name in the repository; any string, hostile ones too.
        content: Its bytes, or a file on disk that is served from there.
        known_sha256: The SHA-256 where it is known, to spare hashing a large file; any other value is a lie the hub
            tells, which tests of checksums want.
    """

    path: str
    content: bytes | Path
    known_sha256: str | None = None

    @cached_property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    @property
    def lfs(self) -> bool:
        """Whether the hub keeps it outside of git, as it does with models and with everything large."""
        name = self.path.rpartition("/")[2]
        return self.size > LFS_FROM_BYTES or any(fnmatchcase(name, pattern) for pattern in LFS_PATTERNS)

    @cached_property
    def sha256(self) -> str:
        if self.known_sha256 is not None:
            return self.known_sha256
        if isinstance(self.content, bytes):
            return hashlib.sha256(self.content).hexdigest()
        with self.content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def pointer(self) -> bytes:
        """What git holds in the place of an LFS file."""
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @cached_property
    def oid(self) -> str:
        """The git blob hash; of the pointer, where the file is in LFS."""
        blob = self.pointer if self.lfs else self.read()
        return hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest()

    @property
    def etag(self) -> str:
        """What the hub calls this content, and the cache names its blob after."""
        return self.sha256 if self.lfs else self.oid

    @cached_property
    def xet_hash(self) -> str:
        """Stands for the hash of the storage behind the CDN: 64 hex digits too, and not the SHA-256."""
        return hashlib.sha256(b"xet" + self.sha256.encode()).hexdigest()

    def read(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


@dataclass
class HubRepo:
    """A model repository.

    Attributes:
        gated: False, "auto" or "manual": whether the files need the consent of their owner. The listing stays public.
        private: Whether only tokens in `granted` see it at all.
        granted: Tokens that may have the files of a gated or private repository.
        gguf: What the hub says it read from the GGUF header; made up where None and a GGUF file is there.
        commits: Every commit with its files; what was once there stays there.
    """

    name: str
    gated: str | bool = False
    private: bool = False
    licence: str | None = None
    tags: list[str] = field(default_factory=list)
    downloads: int = 0
    likes: int = 0
    gguf: Mapping[str, Any] | None = None
    granted: set[str] = field(default_factory=set)
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, HubFile]] = field(default_factory=dict)
    _trees: dict[tuple[str, str, bool], list[HubFile | str]] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        return self.branches["main"]

    @property
    def files(self) -> dict[str, HubFile]:
        return self.commits[self.commit]

    def change(self, files: Mapping[str, bytes | Path | HubFile | None]) -> str:
        """A new commit on main: these files as given, None takes one away, the others as they were."""
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
        """The commit a branch, a tag, a commit hash or the start of one stands for."""
        if revision in self.branches:
            return self.branches[revision]
        if len(revision) < 7:
            return None
        return next((commit for commit in self.commits if commit.startswith(revision)), None)

    def tree(self, commit: str, folder: str, recursive: bool) -> list[HubFile | str] | None:
        """Files and folders (as plain paths) below `folder`, sorted by path; None where there is no such folder."""
        key = (commit, folder, recursive)
        if key not in self._trees:
            self._trees[key] = self._grown(commit, f"{folder}/" if folder else "", recursive)
        return self._trees[key] or (None if folder else [])

    def _grown(self, commit: str, prefix: str, recursive: bool) -> list[HubFile | str]:
        found: dict[str, HubFile | str] = {}
        for path, file in self.commits[commit].items():
            if not path.startswith(prefix):
                continue
            steps = path[len(prefix) :].split("/")
            folders = [prefix + "/".join(steps[:n]) for n in range(1, len(steps))]
            for folder in folders if recursive else folders[:1]:
                found[folder] = folder
            if recursive or not folders:
                found[path] = file
        return [found[path] for path in sorted(found)]
