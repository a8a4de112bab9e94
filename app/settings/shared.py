"""What holds for all conversations: kept in the settings file, or for this program only where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.core.errors import SettingsError
from app.settings.file import Content, SettingsFile
from app.settings.kinds import Value
from app.settings.layers import Layer


class SharedSettings:
    """The settings file as it was last looked at, or a stand-in for it in memory.

    Args:
        file: Where changes go; None keeps them for this program only.
    """

    def __init__(self, file: SettingsFile | None) -> None:
        self._file = file
        self._content = file.read() if file is not None else Content()

    @property
    def content(self) -> Content:
        """What it says."""
        return self._content

    def set(self, name: str, value: Value) -> None:
        """Change a setting.

        Raises:
            SettingsError: The file cannot be written; nothing has changed.
        """
        if self._file is not None:
            self._file.set(name, value)
            self._content = self._file.read()
        else:
            self._replace({**self._content.values, name: value})

    def unset(self, *names: str) -> None:
        """Take settings out.

        Raises:
            SettingsError: As for `set`.
        """
        if self._file is not None:
            self._file.unset(*names)
            self._content = self._file.read()
        else:
            self._replace({key: value for key, value in self._content.values.items() if key not in names})

    def clear(self) -> None:
        """Take every setting out; presets and keys stay.

        Raises:
            SettingsError: As for `set`.
        """
        if self._file is not None:
            self._file.clear()
            self._content = self._file.read()
        else:
            self._replace({})

    def save_preset(self, name: str, values: Layer) -> None:
        """Write a preset down.

        Raises:
            SettingsError: There is no file, or it cannot be written; nothing has changed.
        """
        if self._file is None:
            raise SettingsError("There is no settings file to keep a preset in.")
        self._file.save_preset(name, values)
        self._content = self._file.read()

    def remove_preset(self, name: str) -> None:
        """Take a preset out of the file.

        Raises:
            SettingsError: It cannot be written; nothing has changed.
        """
        if self._file is not None:
            self._file.remove_preset(name)
            self._content = self._file.read()

    def move_file_away(self) -> Path:
        """Rename a file that cannot be read; returns its new path.

        Raises:
            SettingsError: It cannot be renamed.
        """
        assert self._file is not None
        away = self._file.move_away()
        self._content = self._file.read()
        return away

    def sentences(self) -> Sequence[str]:
        """What of the file does not count."""
        if self._content.unreadable:
            return (f"{self._content.unreadable} Its settings do not count, and nothing is written into it.",)
        return [self._file.sentence(problem) for problem in self._content.problems] if self._file is not None else []

    def _replace(self, values: Layer) -> None:
        self._content = Content(values, self._content.presets, self._content.keys)
