"""Saved caches on disk, one file per conversation, so that a conversation is not read again after a restart.

A file is one line of JSON with sizes and a checksum, then the tokens as 32-bit integers and the states as llama.cpp
serializes them. The folder is named by everything that a state depends on. A file that does not match is deleted.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from app.conversations.state_folder import PARTIAL, SUFFIX, state_files
from app.core import atomic
from app.core.paths import states_dir
from app.engine.cache import SavedCache, TokenCache
from app.engine.interfaces import SavedState
from app.engine.prompt_cache import SavedPrompt
from app.llama.params import PairParams
from app.llama.stored_measurements import states_identity

_FORMAT = 1
_LONGEST_HEADER = 1 << 16
_NAMED_BY = 256
"""Leading tokens that name a state without a conversation: questions about one document replace each other."""
_AUTO_BYTES, _AUTO_SHARE = 4 << 30, 0.05
"""Most disk space if the settings name none: a size, and a share of what is free."""
_KEPT_FREE = 1 << 30
"""Bytes of the disk that states leave free."""
_UNUSABLE = (OSError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError)
log = logging.getLogger("tandem.states")
log.addHandler(logging.NullHandler())


def state_store(params: PairParams) -> StateFiles | None:
    """Return the stored states of a pair; None if they are turned off, or a model file cannot be read."""
    if params.memory_dir is None or params.cache_disk_mib == 0:
        return None
    try:
        return StateFiles(states_dir() / states_identity(params), _cap(params.cache_disk_mib))
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
    """The states of one pair; implements `app.engine.prompt_cache.StateStore`.

    Args:
        folder: Folder for the files of this pair.
        cap_bytes: Most disk space for the states of all pairs; those not used for longest are deleted first.
    """

    def __init__(self, folder: Path, cap_bytes: int) -> None:
        self._folder = folder
        self._cap_bytes = cap_bytes
        self._known: dict[tuple[Path, int, int], SavedCache] = {}
        """The target's tokens in each file, without the data."""
        self._writer: threading.Thread | None = None

    def find(self, cache: TokenCache, prompt: Sequence[int], n_least: int) -> SavedPrompt | None:
        best: tuple[int, Path] | None = None
        for path, entry in self._entries():
            n = cache.n_reusable(entry, prompt)
            if n >= n_least and (best is None or n > best[0]):
                best = n, path
        return self._read(best[1]) if best is not None else None

    def save(self, saved: SavedPrompt) -> None:
        self.close()
        # A daemon: a rename makes the file appear only when it is complete.
        self._writer = threading.Thread(target=self._write, args=(saved,), name="states", daemon=True)
        self._writer.start()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    # Reading

    def _entries(self) -> Iterator[tuple[Path, SavedCache]]:
        known, self._known = self._known, {}
        paths: list[Path] = []
        with suppress(OSError):
            paths += self._folder.glob(f"*{SUFFIX}")
        for path in paths:
            try:
                status = path.stat()
                key = path, status.st_mtime_ns, status.st_size
                self._known[key] = entry = known.get(key) or _entry(path)
            except _UNUSABLE as error:
                log.warning("%s is discarded: %s", path, error)
                _remove(path)
            else:
                yield path, entry

    def _read(self, path: Path) -> SavedPrompt | None:
        try:
            saved = _saved_prompt(path)
            os.utime(path)
        except _UNUSABLE as error:
            log.warning("%s is discarded: %s", path, error)
            _remove(path)
            return None
        return saved

    # Writing

    def _write(self, saved: SavedPrompt) -> None:
        try:
            if not self._make_room(saved.n_bytes):
                return
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            pieces = [piece for part in (saved.target, saved.draft) if part is not None for piece in _pieces(part)]
            digest = hashlib.blake2b()
            for piece in pieces:
                digest.update(piece)
            header = {"format": _FORMAT, "name": saved.name, "digest": digest.hexdigest(), "parts": _sizes(saved)}
            descriptor, name = tempfile.mkstemp(dir=self._folder, suffix=PARTIAL)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(json.dumps(header).encode() + b"\n")
                    for piece in pieces:
                        file.write(piece)
                atomic.replace(Path(name), self._folder / (_file_name(saved) + SUFFIX))
            except BaseException:
                _remove(Path(name))
                raise
        except OSError as error:
            log.warning("a state cannot be stored: %s", error)

    def _make_room(self, n_bytes: int) -> bool:
        """Delete old states until there is room for another one; return whether there is."""
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


def _sizes(saved: SavedPrompt) -> list[dict[str, Any]]:
    return [
        {
            "tokens": len(part.tokens),
            "data": len(part.state.data),
            "snapshots": [[n, len(data)] for n, data in part.state.snapshots],
        }
        for part in (saved.target, saved.draft)
        if part is not None
    ]


def _pieces(part: SavedCache) -> Iterator[memoryview]:
    yield memoryview(np.array(part.tokens, dtype=np.int32).tobytes())
    yield memoryview(part.state.data)
    for _, data in part.state.snapshots:
        yield memoryview(data).cast("B")


def _header(file: IO[bytes]) -> dict[str, Any]:
    line = file.readline(_LONGEST_HEADER)
    header = json.loads(line)
    if not isinstance(header, dict) or header["format"] != _FORMAT or not 1 <= len(header["parts"]) <= 2:
        raise ValueError("another format")
    left = os.fstat(file.fileno()).st_size - len(line)
    for part in header["parts"]:
        sizes = [4 * part["tokens"], part["data"], *(size for _, size in part["snapshots"])]
        if any(type(size) is not int or size < 0 for size in sizes):
            raise ValueError("a size is wrong")
        left -= sum(sizes)
    if left:
        raise ValueError("its length is wrong")
    return header


def _entry(path: Path) -> SavedCache:
    with path.open("rb") as file:
        part = _header(file)["parts"][0]
        tokens = np.frombuffer(file.read(4 * part["tokens"]), dtype=np.int32)
    snapshots = tuple((int(n), b"") for n, _ in part["snapshots"])
    return SavedCache(tuple(tokens.tolist()), SavedState(len(tokens), bytearray(), snapshots))


def _saved_prompt(path: Path) -> SavedPrompt:
    with path.open("rb") as file:
        header, digest = _header(file), hashlib.blake2b()
        parts = [_read_part(file, part, digest) for part in header["parts"]]
        if digest.hexdigest() != header["digest"]:
            raise ValueError("its checksum is wrong")
    return SavedPrompt(str(header["name"]), parts[0], parts[1] if len(parts) > 1 else None)


def _read_part(file: IO[bytes], part: dict[str, Any], digest: Any) -> SavedCache:
    def read(size: int) -> bytearray:
        data = bytearray(size)
        if file.readinto(data) != size:  # type: ignore[attr-defined] # every buffered file has it
            raise ValueError("it is cut")
        digest.update(data)
        return data

    tokens = tuple(np.frombuffer(read(4 * part["tokens"]), dtype=np.int32).tolist())
    data = read(part["data"])
    snapshots = [(int(n), (ctypes.c_ubyte * size).from_buffer(read(size))) for n, size in part["snapshots"]]
    return SavedCache(tokens, SavedState(len(tokens), data, tuple(snapshots)))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
