"""Read and change settings.toml; unknown entries are kept.

Comments are lost: before Tandem rewrites a file that the user wrote, it copies the file to .bak.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.core import atomic, regular_file
from app.core.atomic import exclusive
from app.core.errors import SettingsError
from app.settings.checking import Problem, check, check_keys, check_presets, put
from app.settings.kinds import Value
from app.settings.layers import BUILT_IN, Layer, unknown_preset
from app.settings.table import BY_NAME, FORMER

PRESETS = "presets"
KEYS = "keys"
_LOCK_S = 5.0
_SETTINGS_FILE_FIX = "Fix it, or move it away."

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Content:
    """The content of the file.

    Attributes:
        keys: Keys by the ids of their bindings.
        unreadable: Why the whole file is ignored, if it is.
    """

    values: Layer = field(default_factory=dict)
    presets: Mapping[str, Layer] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unreadable: str | None = None


class SettingsFile:
    """The settings of all conversations; a `SettingsError` leaves the file unchanged."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Content:
        """Return the content; empty if there is no file."""
        try:
            table = self._table()
        except SettingsError as error:
            return Content(unreadable=error.message)
        presets, wrong_presets = check_presets(table.pop(PRESETS, {}))
        keys, wrong_keys = check_keys(table.pop(KEYS, {}))
        values, wrong = check(table)
        if (name := values.get("preset")) is not None and name not in (known := {**BUILT_IN, **presets}):
            wrong.append(Problem("preset", unknown_preset(str(values.pop("preset")), known).message))
        return Content(values, presets, keys, (*wrong, *wrong_presets, *wrong_keys))

    def sentence(self, problem: Problem) -> str:
        """Prefix a problem with the path of the file."""
        return f"{self.path}: {problem.text}"

    def set(self, name: str, value: Value, preset: str | None = None) -> None:
        """Store a setting, in a preset if given."""
        with self._changed_table() as table:
            _remove_former(table, name, preset)
            put(table, _path(name, preset), BY_NAME[name].kind.write(value))

    def unset(self, name: str, preset: str | None = None) -> bool:
        """Remove a setting, even an unknown one; return whether it existed."""
        with self._changed_table() as table:
            return _remove_former(table, name, preset) | _remove(table, _path(name, preset))

    def save_preset(self, name: str, values: Layer) -> None:
        """Store a preset, replacing any of the same name."""
        with self._changed_table() as table:
            _remove(table, [PRESETS, name])
            for setting, value in values.items():
                put(table, _path(setting, name), BY_NAME[setting].kind.write(value))

    def remove_preset(self, name: str) -> bool:
        """Remove a preset, and its selection unless a built-in preset has its name; return whether it existed."""
        with self._changed_table() as table:
            found = _remove(table, [PRESETS, name])
            if found and name not in BUILT_IN and table.get("preset") == name:
                del table["preset"]
        return found

    def unset_key(self, binding: str) -> bool:
        """Remove the custom key of a binding; return whether there was one."""
        with self._changed_table() as table:
            # An id without quotes is a table in TOML.
            return _remove(table, [KEYS, binding]) | _remove(table, [KEYS, *binding.split(".")])

    def _table(self) -> Table:
        return regular_file.read_toml(self.path, SettingsError, _SETTINGS_FILE_FIX, missing_ok=True)

    @contextmanager
    def _changed_table(self) -> Iterator[Table]:
        """Yield the whole table under the file's lock, and write it if the block changes it."""
        import tomli_w

        with exclusive(self.path, SettingsError, timeout_s=_LOCK_S):
            # Read again, so that two programs do not undo each other's changes.
            table = self._table()
            try:
                before = tomli_w.dumps(table)
                yield table
                after = tomli_w.dumps(table)
            except RecursionError:
                raise SettingsError(f"{self.path} has tables nested too deeply.", _SETTINGS_FILE_FIX) from None
            if after != before:
                self._write(before, after)

    def _write(self, before: str, after: str) -> None:
        # The file may be a link; the copy goes beside its target.
        path = self.path.resolve()
        if path.exists() and regular_file.read_bytes(path).decode() != before:
            shutil.copy2(path, path.with_name(f"{path.name}.bak"))
        atomic.write(path, after.encode())


def _path(name: str, preset: str | None) -> list[str]:
    return [*([PRESETS, preset] if preset else []), *name.split(".")]


def _remove_former(table: Table, name: str, preset: str | None) -> bool:
    return any(_remove(table, _path(former, preset)) for former, now in FORMER.items() if now == name)


def _remove(table: Table, path: list[str]) -> bool:
    head, *rest = path
    if head not in table:
        return False
    if not rest:
        del table[head]
        return True
    if not isinstance(table[head], dict):
        return False
    found = _remove(table[head], rest)
    if not table[head]:
        del table[head]
    return found
