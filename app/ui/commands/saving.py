"""The conversation that goes on, as a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from app.conversations.export import n_left_out, to_json, to_markdown
from app.conversations.tree import Transcript
from app.core import atomic
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.session.library import Library

_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,8}")
"""Of a file's name; what follows a dot in a title is none."""


def saving(library: Library, name: str) -> Callable[[], str]:
    """How to write the conversation, as it is now, to a new file: JSON if its name says so, else Markdown.

    A name without an ending gets one.

    Returns:
        What writes it, on any thread, for a disk may take its time: returns where it is and what of it is not there,
        as sentences, and raises AppError where the file cannot be written.

    Raises:
        AppError: There is nothing to save, or the name is no file's.
    """
    found = library.with_conversation(lambda store, number: store.transcript(number))
    if found is None:
        raise AppError("There is nothing to save yet.")
    try:
        file = Path(name).expanduser()
    except (RuntimeError, ValueError):
        file = Path(name)
    if not file.name:
        raise UsageError(f"{printable(name)} is a folder.", "Name a file in it.")
    if not _ENDING.fullmatch(file.suffix):
        file = file.with_name(file.name + ".md")
    return partial(_save, found, file)


def _save(transcript: Transcript, file: Path) -> str:
    as_json = file.suffix.lower() == ".json"
    _write(file, to_json([transcript]) if as_json else to_markdown([transcript]))
    n = 0 if as_json else n_left_out(transcript)
    beside = f" {n:,} message{'s' * (n != 1)} of other branches left out; a .json takes all." if n else ""
    return f"Saved as {file}.{beside}"


def _write(file: Path, text: str) -> None:
    """All of it or nothing, and never over another file."""
    try:
        atomic.create(file, text.encode())
    except FileExistsError as error:
        raise UsageError(f"{file} exists already.", "Choose another name.") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise AppError(f"{file} cannot be written: {reason}.", "Choose another place.") from error
