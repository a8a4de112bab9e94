"""Result files: checked before the work begins, written while it runs."""

from __future__ import annotations

import os
from pathlib import Path

from app.core import atomic
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.core.regular_file import exists, is_file, is_folder, is_gone


def check_writable(file: Path) -> None:
    """Check that a result can be written there.

    Raises:
        UsageError: It cannot.
    """
    _check_place(file)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"{file} cannot be written: it is not yours to write.", "Choose another file.")


def check_replaceable(file: Path) -> None:
    """Check that a file can be replaced: its folder must be writable.

    Raises:
        UsageError: It cannot.
    """
    _check_place(file)
    # A link stays one: what it leads to is replaced.
    folder = Path(os.path.realpath(file)).parent
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{file} cannot be written: the folder {folder} is not yours to write.", "Choose another one.")


def _check_place(file: Path) -> None:
    folder = file.parent
    if is_gone(folder) or (exists(folder) and not is_folder(folder)):
        raise UsageError(f"{file} cannot be written: there is no folder {folder}.", "Make it, or choose another file.")
    if is_folder(file):
        raise UsageError(f"{file} cannot be written: it is a folder.", "Choose another file.")
    if reason := atomic.invalid_name(file.name):
        raise UsageError(f"{file} cannot be written: {reason}.", "Choose another name.")
    try:
        os.lstat(file)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise UsageError(f"{printable(str(file))} cannot be written: {why}.", "Choose another.") from error


def exists_already(file: Path) -> UsageError:
    """Return the error for an existing file without --force."""
    return UsageError(f"{file} exists already.", "Choose another file, or add --force to overwrite it.")


class LineFile:
    """Lines that are on disk as soon as they are added; what was in the file before goes with the first one.

    A disk that refuses must not end what is measured: `close` tells it in the end.

    Args:
        file: Where to; None writes nowhere.

    Raises:
        UsageError: Nothing can be written there.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._begun = False
        self._error: OSError | None = None
        if file is not None:
            check_writable(file)

    @property
    def is_file(self) -> bool:
        """Return whether there is a file."""
        return self._file is not None

    def add(self, *lines: str) -> None:
        """Write some lines."""
        if self._file is None or self._error is not None:
            return
        try:
            text = "".join(f"{line}\n" for line in lines)
            (_append if self._begun else _write)(self._file, text)
        except OSError as error:
            self._error = error
        self._begun = True

    def close(self) -> None:
        """Tell whether everything is there.

        Raises:
            AppError: It is not.
        """
        if self._error is not None:
            raise _refusal(self._file, self._error)


def write(file: Path, text: str) -> None:
    """Write a text file whole; what was in it stays where the disk refuses.

    Raises:
        AppError: It cannot be written.
    """
    try:
        _write(file, text)
    except OSError as error:
        raise _refusal(file, error) from error


def _write(file: Path, text: str) -> None:
    """Write a file; another one in its place makes way once this one is on the disk. Raises OSError."""
    data = text.encode(errors="replace")
    # A pipe and a device take it as it comes, and a folder that is not one's own takes nothing beside what it has.
    if is_file(file) and os.access(Path(os.path.realpath(file)).parent, os.W_OK):
        atomic.write(file, data)
    else:
        file.write_bytes(data)


def _append(file: Path, text: str) -> None:
    with file.open("ab") as out:
        out.write(text.encode(errors="replace"))


def _refusal(file: Path | None, error: OSError) -> AppError:
    return AppError(f"{file} cannot be written: {error.strerror}.", "Choose another file.")
