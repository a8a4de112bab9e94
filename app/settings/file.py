"""settings.toml: read as it is, changed in one step, and never written while it cannot be read.

Whatever it holds that this Tandem does not know stays. Comments do not: the file before the first change that would
lose one is kept beside it, with .bak behind its name.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.core import atomic, regular_file
from app.core.errors import SettingsError
from app.core.file_lock import exclusive
from app.core.printable import printable
from app.core.toml import has_comment, read_toml, reason
from app.settings.checking import Problem, check, check_keys, check_presets
from app.settings.kinds import Value
from app.settings.layers import BUILT_IN, Layer
from app.settings.table import BY_NAME

PRESETS = "presets"
KEYS = "keys"
_LOCK_S = 5.0
_LARGEST = 1 << 20
_WAY_OUT = "Mend it, or move it away."

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Content:
    """What the file says.

    Attributes:
        values: Settings by name.
        presets: Named partial settings.
        keys: Keys by the ids of their bindings.
        problems: What in it does not count.
        unreadable: Why nothing in it counts; "" unless that is so.
    """

    values: Layer = field(default_factory=dict)
    presets: Mapping[str, Layer] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unreadable: str = ""


class SettingsFile:
    """The settings of all conversations.

    Args:
        path: Where the file is, or will be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Content:
        """What it says; nothing if it is not there."""
        try:
            table = self._table()
        except SettingsError as error:
            return Content(unreadable=error.message)
        presets, wrong_presets = check_presets(table.pop(PRESETS, {}))
        keys, wrong_keys = check_keys(table.pop(KEYS, {}))
        values, wrong = check(table)
        return Content(values, presets, keys, (*wrong, *wrong_presets, *wrong_keys))

    def sentence(self, problem: Problem) -> str:
        """A problem with the file's name in front."""
        return f"{self.path}: {problem.text}"

    def set(self, name: str, value: Value, preset: str = "") -> None:
        """Write a setting down, for a preset if one is named.

        Raises:
            SettingsError: The file cannot be read, or not written; it is as it was.
        """
        self._change(lambda table: _put(table, _path(name, preset), BY_NAME[name].kind.write(value)))

    def unset(self, *names: str, preset: str = "") -> bool:
        """Take settings out, so that their defaults count again; also one that this Tandem does not know.

        Returns:
            Whether there was anything of such a name.

        Raises:
            SettingsError: As for `set`.
        """
        return self._took(*(_path(name, preset) for name in names))

    def clear(self) -> None:
        """Take out every setting; presets, keys and what this Tandem does not know stay."""

        def change(table: Table) -> None:
            for name in BY_NAME:
                _take(table, name.split("."))

        self._change(change)

    def save_preset(self, name: str, values: Layer) -> None:
        """Write a preset down, in place of one of the same name."""

        def change(table: Table) -> None:
            _take(table, [PRESETS, name])
            for setting, value in values.items():
                _put(table, _path(setting, name), BY_NAME[setting].kind.write(value))

        self._change(change)

    def remove_preset(self, name: str) -> bool:
        """Take a preset out, with the choice of it where none of that name comes with Tandem.

        Returns:
            Whether there was one.
        """
        found: list[bool] = []

        def change(table: Table) -> None:
            found.append(_take(table, [PRESETS, name]))
            if found[0] and name not in BUILT_IN and table.get("preset") == name:
                del table["preset"]

        self._change(change)
        return any(found)

    def unset_key(self, binding: str) -> bool:
        """Give a binding its own key back, however its id is written; returns whether it had another one."""
        return self._took([KEYS, binding], [KEYS, *binding.split(".")])

    def move_away(self) -> Path:
        """Rename the file, so that a new one can be written; returns its new path.

        Raises:
            SettingsError: It cannot be renamed.
        """
        number = 1
        try:
            while (away := self.path.with_name(f"{self.path.name}.broken-{number}")).exists():
                number += 1
            self.path.rename(away)
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be moved: {error.strerror or error}.") from error
        return away

    def _took(self, *paths: list[str]) -> bool:
        """Take entries out; returns whether any of them was there."""
        found: list[bool] = []
        self._change(lambda table: found.extend(_take(table, path) for path in paths))
        return any(found)

    def _table(self) -> Table:
        try:
            text = regular_file.read_bytes(self.path, _LARGEST + 1)
            if len(text) > _LARGEST:
                raise SettingsError(f"{self.path} is larger than 1 MiB; that is no settings file.")
            return read_toml(regular_file.with_line_feeds(text.decode("utf-8-sig")))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, RecursionError, ValueError) as error:
            said = printable(reason(error)).rstrip(".")
            raise SettingsError(f"{self.path} cannot be read: {said}.", _WAY_OUT) from error

    def _change(self, change: Callable[[Table], object]) -> None:
        with exclusive(self.path, SettingsError, timeout_s=_LOCK_S):
            # Read anew, so that two programs do not undo each other.
            table = self._table()
            try:
                before = repr(table)
            except RecursionError:
                # What Python can read, with tables in tables by name, it may still not walk.
                raise SettingsError(f"{self.path} has tables too deep in each other.", _WAY_OUT) from None
            change(table)
            if repr(table) != before:
                self._write(table)

    def _write(self, table: Table) -> None:
        import tomli_w

        # The file may be a link into somebody's collection of such files; the copy stays beside what it is a copy of.
        path = self.path.resolve()
        if path.exists() and has_comment(regular_file.read_bytes(path).decode()):
            shutil.copy2(path, path.with_name(f"{path.name}.bak"))
        atomic.write(path, tomli_w.dumps(table).encode())


def _path(name: str, preset: str) -> list[str]:
    return [*([PRESETS, preset] if preset else []), *name.split(".")]


def _put(table: Table, path: list[str], value: object) -> None:
    *tables, key = path
    for name in tables:
        inner = table.get(name)
        if not isinstance(inner, dict):
            # Something else stands where a table belongs; it did not count, and says so until now.
            inner = table[name] = {}
        table = inner
    table[key] = value


def _take(table: Table, path: list[str]) -> bool:
    """Take an entry out, and the tables that are empty after it; returns whether it was there."""
    head, *rest = path
    if head not in table:
        return False
    if not rest:
        del table[head]
        return True
    if not isinstance(table[head], dict):
        return False
    found = _take(table[head], rest)
    if not table[head]:
        del table[head]
    return found
