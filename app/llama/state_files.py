"""Saved caches on disk, one file per conversation, so that a conversation is not read again after a restart.

A file holds the tokens and llama.cpp's serialized states in NumPy's zip format, which has a checksum for each. The
folder is named by everything that a state depends on. An unreadable file is deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from app.conversations.state_folder import PARTIAL, SUFFIX, state_files
from app.core import atomic
from app.core.paths import states_dir
from app.engine.cache import SavedCache, TokenCache
from app.engine.interfaces import SavedState
from app.engine.prompt_cache import SavedPrompt
from app.llama.params import PairParams
from app.llama.stored_measurements import states_identity

_NAMED_BY = 256
"""Leading tokens that name a state without a conversation: questions about one document replace each other."""
_AUTO_BYTES, _AUTO_SHARE = 4 << 30, 0.05
"""Disk limit if the settings have none: a size, and a share of the free space."""
_RAM_SHARE, _RAM_BYTES = 0.25, 8 << 30
"""RAM limit if the settings have none: a share of the free RAM, and llama-server's default."""
_KEPT_FREE = 1 << 30
"""Free disk space that states never use."""
log = logging.getLogger("tandem.states")
log.addHandler(logging.NullHandler())


def cache_bytes(params: PairParams) -> int:
    """Return the RAM limit for the saved states of a pair."""
    mib = params.settings["model.cache_ram"]
    return mib << 20 if mib is not None else min(_RAM_BYTES, int(_RAM_SHARE * psutil.virtual_memory().available))


def state_store(params: PairParams) -> StateFiles | None:
    """Return the stored states of a pair; None if they are turned off, or a model file is unreadable."""
    mib = params.settings["model.cache_disk"]
    if params.memory_dir is None or mib == 0:
        return None
    try:
        return StateFiles(states_dir() / states_identity(params), _cap(mib))
    except OSError as error:
        log.warning("states are not stored: %s", error)
        return None


def _cap(mib: int | None) -> int:
    if mib is not None:
        return mib << 20
    folder = states_dir()
    folder.mkdir(parents=True, exist_ok=True)
    used = sum(status.st_size for status in state_files().values())
    return min(_AUTO_BYTES, int(_AUTO_SHARE * (shutil.disk_usage(folder).free + used)))


class StateFiles:
    """The states of a pair; implements `app.engine.prompt_cache.StateStore`.

    Args:
        cap_bytes: Disk limit for the states of all pairs; the least recently used are deleted first.
    """

    def __init__(self, folder: Path, cap_bytes: int) -> None:
        self._folder = folder
        self._cap_bytes = cap_bytes
        self._known: dict[tuple[Path, int, int], SavedCache] = {}
        """The target's tokens in each file, without the data."""
        self._pending: list[SavedPrompt] = []
        self._writer: threading.Thread | None = None

    def find(self, cache: TokenCache, prompt: Sequence[int], n_least: int) -> SavedPrompt | None:
        found = [(cache.n_reusable(entry, prompt), path) for path, entry in self._entries()]
        n, path = max(found, default=(0, self._folder))
        return self._read(path) if found and n >= n_least else None

    def save(self, saved: SavedPrompt) -> None:
        self._pending.append(saved)

    def write_soon(self) -> None:
        if self._pending:
            self._join()
            pending, self._pending = self._pending, []
            # A daemon thread is safe: a rename makes the file appear only when it is complete.
            self._writer = threading.Thread(target=self._write, args=(pending,), name="states", daemon=True)
            self._writer.start()

    def close(self) -> None:
        self.write_soon()
        self._join()

    def _join(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    # Reading

    def _entries(self) -> Iterator[tuple[Path, SavedCache]]:
        known, self._known = self._known, {}
        for path, status in state_files().items():
            if path.parent != self._folder:
                continue
            key = path, status.st_mtime_ns, status.st_size
            try:
                entry = known.get(key) or _saved_prompt(path, with_states=False).target
            except Exception as error:
                _discard(path, error)
            else:
                self._known[key] = entry
                yield path, entry

    def _read(self, path: Path) -> SavedPrompt | None:
        try:
            saved = _saved_prompt(path)
            os.utime(path)
        except Exception as error:
            _discard(path, error)
            return None
        return saved

    # Writing

    def _write(self, pending: Sequence[SavedPrompt]) -> None:
        for saved in pending:
            try:
                if not self._make_room(saved.n_bytes):
                    continue
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor, name = tempfile.mkstemp(dir=self._folder, suffix=PARTIAL)
                try:
                    with os.fdopen(descriptor, "wb") as file:
                        np.savez(file, **_arrays(saved))
                    atomic.replace(Path(name), self._folder / (_file_name(saved) + SUFFIX))
                except BaseException:
                    _remove(Path(name))
                    raise
            except OSError as error:
                log.warning("a state cannot be stored: %s", error)

    def _make_room(self, n_bytes: int) -> bool:
        """Delete old states until there is space for another; return whether there is."""
        if n_bytes > self._cap_bytes:
            return False
        files = state_files()
        total = sum(status.st_size for status in files.values())
        for path, status in sorted(files.items(), key=lambda file: file[1].st_mtime):
            if total + n_bytes <= self._cap_bytes:
                break
            total -= status.st_size
            _remove(path)
        states_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
        return shutil.disk_usage(states_dir()).free > n_bytes + _KEPT_FREE


def _file_name(saved: SavedPrompt) -> str:
    if saved.name:
        return saved.name
    first = np.array(saved.target.tokens[:_NAMED_BY], dtype=np.int32)
    return f"prompt-{hashlib.blake2b(first.tobytes(), digest_size=12).hexdigest()}"


def _arrays(saved: SavedPrompt) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for part, cache in (("target", saved.target), ("draft", saved.draft)):
        if cache is None:
            continue
        snapshots = cache.state.snapshots
        arrays[f"{part}_tokens"] = np.array(cache.tokens, dtype=np.int32)
        arrays[f"{part}_state"] = np.frombuffer(cache.state.data, dtype=np.uint8)
        arrays[f"{part}_snapshots"] = np.array([n for n, _ in snapshots], dtype=np.int32)
        arrays |= {f"{part}_{n}": np.frombuffer(data, dtype=np.uint8) for n, data in snapshots}
    return arrays


def _saved_prompt(path: Path, *, with_states: bool = True) -> SavedPrompt:
    with np.load(path) as file:

        def cache(part: str) -> SavedCache:
            tokens = file[f"{part}_tokens"].tolist()
            data = file[f"{part}_state"].data if with_states else bytearray()
            lengths = file[f"{part}_snapshots"].tolist()
            snapshots = tuple((n, file[f"{part}_{n}"].data if with_states else b"") for n in lengths)
            return SavedCache(tuple(tokens), SavedState(data, snapshots))

        return SavedPrompt("", cache("target"), cache("draft") if "draft_tokens" in file else None)


def _discard(path: Path, error: Exception) -> None:
    log.warning("%s is discarded: %s", path, error)
    _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
