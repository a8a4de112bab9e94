"""Conversations that the disk of the store refuses to the end, as a file elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from app.chat.export import to_json
from app.chat.tree import Transcript


def rescue(transcripts: Sequence[Transcript]) -> Path | None:
    """Write them where there is room; returns the file, for `tandem import`, or None where there is none anywhere."""
    data = to_json(transcripts).encode()
    for folder in _folders():
        with suppress(OSError):
            return _write(folder, data)
    return None


def _folders() -> Iterator[Path]:
    """What outlives a restart of the machine first."""
    with suppress(RuntimeError):
        yield Path.home()
    with suppress(OSError):
        yield Path(tempfile.gettempdir())


def _write(folder: Path, data: bytes) -> Path:
    descriptor, name = tempfile.mkstemp(dir=folder, prefix="tandem-conversations-", suffix=".json")
    file = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(descriptor)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file
