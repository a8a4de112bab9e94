"""Result files: checked before the work begins, written while it runs."""

from __future__ import annotations

import os
from pathlib import Path

from app.core.errors import AppError, UsageError
from app.core.regular_file import exists, is_folder


def check_writable(file: Path) -> None:
    """Raise UsageError if a result cannot be written there."""
    reason = ""
    if is_folder(file):
        reason = "it is a folder"
    elif not is_folder(file.parent):
        reason = f"there is no folder {file.parent}"
    elif not os.access(file if exists(file) else file.parent, os.W_OK):
        reason = "permission denied"
    if reason:
        raise UsageError(f"{file} cannot be written: {reason}.", "Choose another file.")


def exists_already(file: Path) -> UsageError:
    """Return the error for an existing file without --force."""
    return UsageError(f"{file} exists already.", "Choose another file, or add --force to overwrite it.")


class LineFile:
    """Lines that are on disk as soon as they are added; the first one replaces the old content.

    A full disk must not end the measurement: `close` reports it.

    Args:
        file: The file; None writes nowhere.

    Raises:
        UsageError: The file cannot be written.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._mode = "w"
        self._error: OSError | None = None
        if file is not None:
            check_writable(file)

    def add(self, *lines: str) -> None:
        """Write some lines."""
        if self._file is None or self._error is not None:
            return
        try:
            with self._file.open(self._mode, encoding="utf-8", errors="replace", newline="\n") as out:
                out.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            self._error = error
        self._mode = "a"

    def close(self) -> None:
        """Raise AppError if a line could not be written."""
        if self._error is not None:
            raise _refusal(self._file, self._error)


def write(file: Path, text: str) -> None:
    """Write a text file. Raises AppError if that fails."""
    try:
        file.write_bytes(text.encode(errors="replace"))
    except OSError as error:
        raise _refusal(file, error) from error


def _refusal(file: Path | None, error: OSError) -> AppError:
    return AppError(f"{file} cannot be written: {error.strerror}.", "Choose another file.")
