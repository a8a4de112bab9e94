"""Edit a text in the user's own editor, which uses the terminal meanwhile."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from asyncio import wrap_future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from textual.app import App, SuspendNotSupported

from app.core.errors import AppError
from app.core.program import in_background


async def edited(text: str, app: App[Any]) -> str:
    """Return the edited text; answers continue meanwhile. Raises AppError."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        found = next(filter(shutil.which, ("nano", "vim", "vi")), None)
        fix = f"Quit, and start Tandem with one: EDITOR={found} tandem" if found else "Set EDITOR to an editor."
        raise AppError("No editor is set.", fix)
    try:
        with TemporaryDirectory(prefix="tandem-") as folder:
            file = Path(folder, "prompt.md")
            file.write_text(text, encoding="utf-8")
            command = [*shlex.split(editor), str(file)]
            # Nothing may be drawn while the editor has the terminal.
            with app.batch_update(), app.suspend():
                code = await wrap_future(in_background(lambda: subprocess.call(command), "editor"))
            if code:
                raise AppError(f"{editor} ended with exit code {code}.", "The prompt is unchanged.")
            return file.read_text(encoding="utf-8").removesuffix("\n")
    except SuspendNotSupported as error:
        fix = "Write the prompt into a file with it, and include that file with @."
        raise AppError(f"{editor} cannot use the terminal of Tandem here.", fix) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AppError(f"{editor} cannot be used: {reason}.", "Set EDITOR to another editor.") from error
