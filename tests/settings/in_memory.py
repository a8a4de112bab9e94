"""Settings without a file on disk."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.settings.file import SettingsFile
from app.settings.layers import Layer
from app.settings.live import LiveSettings


class MemoryFile(SettingsFile):
    def __init__(self) -> None:
        super().__init__(Path("settings.toml"))
        self._memory: dict[str, Any] = {}

    def _table(self) -> dict[str, Any]:
        return copy.deepcopy(self._memory)

    @contextmanager
    def _changed_table(self) -> Iterator[dict[str, Any]]:
        yield self._memory


def in_memory(flags: Layer | None = None) -> LiveSettings:
    """Return settings that keep their changes in memory."""
    return LiveSettings(MemoryFile(), flags)
