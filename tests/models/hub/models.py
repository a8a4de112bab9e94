"""Small model files for the loopback hub, and a recorded download."""

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.core.errors import Interrupted
from app.models.catalog import Pair
from app.models.hub.choose import RemoteFile
from app.models.hub.client import repository
from app.models.hub.download import Download
from app.models.progress import DownloadWatcher, HeaderWatcher, Watcher
from app.models.registry import Registry, SetUp
from app.models.setup import Prepared, install, prepare
from app.models.source import HubModel
from tests.llama.tiny_model import write_model
from tests.models.hub.loopback import LoopbackHub

TARGET, DRAFT = "owner/big-GGUF", "owner/small-GGUF"
BOTH = ["--target", f"{TARGET}:q4_k_m", "--draft", DRAFT]
"""Options that name both models."""
SETUP = ("setup", "--yes", "--no-trial")
"""Sets a pair up without a question and without a trial."""
TEMPLATE = "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}<|start|>"
CONTENT = bytes(range(256)) * 9000
"""2.3 MB: several chunks."""


def no_demo(part: str) -> Path:
    """Fail if the demo's files are requested."""
    raise AssertionError(part)


def tiny(folder: Path, name: str = "tiny.gguf", **changes: Any) -> bytes:
    """The bytes of a model that llama.cpp loads."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_model(folder / name, **{"tokenizer__chat_template": TEMPLATE, **changes}).read_bytes()


def publish(hub: LoopbackHub, name: str = "big-Q4_K_M.gguf") -> RemoteFile:
    """Put a file on the hub; return its listing."""
    hub.add(TARGET, {name: CONTENT})
    listed = repository(TARGET, "main")
    return next(file for file in listed.files if file.path == name)


class Watched(Watcher):
    """Records the progress of a request or a download, and does not wait; canceled after some bytes if given."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self.came = 0
        self.here = 0
        self.waits: list[tuple[str, float]] = []
        self.on_pause: Callable[[], object] = lambda: None
        self._stop_after = stop_after

    def received(self, n_bytes: int) -> None:
        self.came += n_bytes

    def found(self, n_bytes: int) -> None:
        self.here += n_bytes

    def waiting(self, reason: str | None, seconds: float) -> None:
        if reason:
            self.waits.append((reason, seconds))

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.on_pause()

    def check_cancelled(self) -> None:
        if self._stop_after is not None and self.came >= self._stop_after:
            raise Interrupted

    def fetch(self, file: RemoteFile) -> Path:
        return Download(file, self).run()


def looked_at(pair: Pair, on_status: Callable[[str], None] = lambda _: None) -> Prepared:
    """Return a pair whose files were found."""
    return prepare(pair, no_demo, HeaderWatcher(on_status))


def install_in(file: Path, prepared: Prepared) -> list[DownloadWatcher]:
    """Set up a pair in a registry; return the downloads."""
    downloads: list[DownloadWatcher] = []
    install(prepared, Registry(file), downloads, threading.Event())
    return downloads


def brought(file: Path, source: HubModel) -> SetUp:
    """Set up a target without a draft, as the pair "mine"."""
    install_in(file, looked_at(Pair("mine", "Mine", source, None)))
    return Registry(file).read().pairs["mine"]


def write_catalog(home: Path, entries: str) -> None:
    """Write the user's models.toml."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "models.toml").write_text(entries, encoding="utf-8")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
