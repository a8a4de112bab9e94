"""Small model files for the loopback hub, and a download watched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.models.hub.choose import RemoteFile
from app.models.hub.client import repository
from app.models.hub.download import Download
from app.models.hub.request import RetryPolicy
from app.models.progress import Watcher
from tests.llama.tiny_model import write_model
from tests.models.hub.loopback import LoopbackHub

TARGET, DRAFT = "owner/big-GGUF", "owner/small-GGUF"
BOTH = ["--target", f"{TARGET}:q4_k_m", "--draft", DRAFT]
"""How a command names them."""
TEMPLATE = "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}<|start|>"
CONTENT = bytes(range(256)) * 9000
"""2.3 MB: several chunks."""

RETRY = RetryPolicy(lambda seconds: False)
"""No pause takes time."""


def no_demo(part: str) -> Path:
    """For what must not ask for the demo's files."""
    raise AssertionError(part)


def tiny(folder: Path, name: str = "tiny.gguf", **changes: Any) -> bytes:
    """The bytes of a model that llama.cpp loads."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_model(folder / name, **{"tokenizer__chat_template": TEMPLATE, **changes}).read_bytes()


def publish(hub: LoopbackHub, content: bytes = CONTENT, name: str = "big-Q4_K_M.gguf") -> tuple[str, RemoteFile]:
    """Put one file on the hub; returns its commit and how the hub lists it."""
    hub.add(TARGET, {name: content})
    listed = repository(TARGET, "main")
    return listed.commit, next(file for file in listed.files if file.path == name)


class Watched(Watcher):
    """A download that records all its progress and does not wait."""

    def __init__(self, stop_after: int | None = None, attempts: int = 8) -> None:
        self.came = 0
        self.here = 0
        self.waits: list[tuple[str, float]] = []
        self.pauses: list[float] = []
        self.on_pause: Callable[[], object] = lambda: None
        self._stop_after = stop_after
        self._retry = RetryPolicy(self._pause, attempts, self._is_cancelled)

    def received(self, n_bytes: int) -> None:
        self.came += n_bytes

    def found(self, n_bytes: int) -> None:
        self.here += n_bytes

    def waiting(self, reason: str, seconds: float) -> None:
        if reason:
            self.waits.append((reason, seconds))

    def _pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self.on_pause()
        return False

    def _is_cancelled(self) -> bool:
        return self._stop_after is not None and self.came >= self._stop_after

    def fetch(self, commit: str, file: RemoteFile) -> Path:
        return Download(TARGET, commit, file, self, self._retry).run()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
