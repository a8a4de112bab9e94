"""Copies text to where other programs paste from, as far as the terminal lets us, and always to a file."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from textual.app import App

from app.core import atomic
from app.core.paths import copied_file
from app.core.program import find_program
from app.ui.background import in_thread, run_latest
from app.ui.terminal.sequences import send
from app.ui.widgets.hint import Hint

_LONGEST_SEQUENCE = 100_000
"""Characters of an OSC 52 sequence; terminals drop longer ones, some without a word."""
_PATIENCE_S = 2.0


def copy_text(app: App[Any], text: str, what: str = "") -> None:
    """Copy a text and say so in the hint line.

    Args:
        app: The application.
        text: What to copy.
        what: How to call it; its length if nothing is said.
    """
    if text:
        # Half a character, as a selection may cut it, is none in any encoding.
        whole = text.encode("utf-8", "replace").decode()
        length = f"{len(text):,} character{'s' * (len(text) != 1)}"

        async def copy() -> None:
            await _copy(app, whole, what or length)

        run_latest(app, copy, "copy")


async def _copy(app: App[Any], text: str, what: str) -> None:
    kept = await in_thread(lambda: _keep(text))
    reached = await in_thread(lambda: _give(text)) or _tell_terminal(app, text)
    where = f"in {_short(kept)}" if kept is not None else ""
    if reached:
        line = f"Copied {what}" + (f"; also {where}" if where else ".")
    elif where:
        line = f"Too long for the terminal's clipboard; {what}: {where}"
    else:
        line = f"It cannot be copied: {what}."
    for hint in app.screen.query(Hint):
        hint.say(line)


def _tell_terminal(app: App[Any], text: str) -> bool:
    """Ask the terminal, by OSC 52; it does not answer, so the file is told of as well."""
    sequence = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a"
    if app.is_headless:
        return True
    return len(sequence) <= _LONGEST_SEQUENCE and send(app, sequence)


def _give(text: str) -> bool:
    """Hand the text to a program that holds the clipboard; False where there is none that answers."""
    for name, *arguments in _programs():
        program = find_program(name)
        if program is None:
            continue
        with suppress(OSError, subprocess.SubprocessError):
            # Some stay in the background to hold the text, with the pipes they were given.
            subprocess.run(
                (program, *arguments),
                input=text.encode("utf-16" if name == "clip" else "utf-8"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Without a locale of UTF-8 pbcopy reads Mac OS Roman.
                env={**os.environ, "LC_ALL": "en_US.UTF-8"} if name == "pbcopy" else None,
                timeout=_PATIENCE_S,
                check=True,
            )
            return True
    return False


def _programs() -> Sequence[Sequence[str]]:
    """Return what may hold the clipboard here, best first."""
    environment = os.environ
    found: list[Sequence[str]] = []
    # tmux drops OSC 52 from programs in it unless it was set up otherwise, but sends it on from its own command.
    if environment.get("TMUX"):
        found.append(("tmux", "load-buffer", "-w", "-"))
    # At the far end of a connection a program would reach the wrong machine's clipboard.
    elif not environment.get("SSH_CONNECTION"):
        if sys.platform == "darwin":
            found.append(("pbcopy",))
        elif sys.platform == "win32":
            found.append(("clip",))
        elif environment.get("WAYLAND_DISPLAY"):
            found.append(("wl-copy",))
        elif environment.get("DISPLAY"):
            found += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
    return found


def _keep(text: str) -> Path | None:
    """Write the text where only the user reads it; None if the disk refuses."""
    file = copied_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(file, text.encode(), durable=False)
    except OSError:
        return None
    return file


def _short(path: Path) -> str:
    """The path as the user would type it."""
    with suppress(ValueError, RuntimeError):
        return f"~/{path.relative_to(Path.home()).as_posix()}"
    return str(path)
