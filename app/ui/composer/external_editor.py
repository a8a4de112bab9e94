"""Edit a text in the editor of the user, to which the terminal belongs meanwhile."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from asyncio import wrap_future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from textual.app import App, SuspendNotSupported

from app.core.errors import AppError
from app.core.program import in_background
from app.core.regular_file import with_line_feeds


def editor_command() -> list[str]:
    """Return the program and its arguments. Raises AppError."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(command, posix=sys.platform != "win32")
    except ValueError:
        words = []
    if not words:
        how = f"EDITOR is {command!r}, which is no command." if command.strip() else "No editor is set."
        raise AppError(how, "Quit, and start Tandem with one: EDITOR=nano tandem")
    return words


async def edited(text: str, app: App[Any]) -> str:
    """Return what the user makes of a text; answers go on meanwhile. Raises AppError."""
    command = editor_command()
    with TemporaryDirectory(prefix="tandem-") as folder:
        file = Path(folder, "prompt.md")
        file.write_text(text, encoding="utf-8")
        try:
            # Nothing may be drawn while the editor has the terminal.
            with app.batch_update(), app.suspend():
                code = await wrap_future(in_background(lambda: subprocess.call([*command, str(file)]), "editor"))
            if code:
                raise AppError(f"{command[0]} ended with exit code {code}.", "The prompt is as it was.")
            return with_line_feeds(file.read_text(encoding="utf-8")).removesuffix("\n")
        except SuspendNotSupported as error:
            raise AppError("This terminal cannot be given to an editor.") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its text is not UTF-8"
            raise AppError(f"{command[0]} cannot be used: {reason}.", "Set EDITOR to another editor.") from error
