"""The clipboard: copy text, and read a picture, with programs of the desktop."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from asyncio import wrap_future
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from textual.app import App

from app.core.errors import AppError
from app.core.printable import one_line, storable
from app.core.program import find_program, in_background, limited_run
from app.core.units import counted
from app.ui.widgets.hint import Hint

_ESCAPE_CHARACTER = "\x1b"
_LONGEST_SEQUENCE = 100_000
"""Longest OSC 52 sequence in characters; terminals drop longer sequences."""
_TIMEOUT_S = 2.0

_PASTE_S = 10.0
_MAX_PICTURE_BYTES = 256 << 20
_WINDOWS_SCRIPT = (
    "Add-Type -AssemblyName System.Windows.Forms; $image = [Windows.Forms.Clipboard]::GetImage(); if ($image) { "
    "$file = New-Object IO.MemoryStream; $image.Save($file, 'Png'); [Convert]::ToBase64String($file.ToArray()) }"
)
_WINDOWS_ARGUMENTS = ("-NoProfile", "-STA", "-Command", _WINDOWS_SCRIPT)
_MACOS_COMMAND = ("osascript", "-e", "the clipboard as «class PNGf»")
_MACOS_DATA = re.compile(rb"PNGf([0-9A-Fa-f]+)")
_X11_COMMAND = ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
_WAYLAND_COMMAND = ("wl-paste", "--type", "image/png")
_PACKAGE_BY_PROGRAM = {"wl-paste": "wl-clipboard"}
"""Packages of programs with another name."""


def copy_text(app: App[Any], text: str, what: str = "") -> None:
    """Copy a text and say so in the hint line, with its name or its length."""
    if text:
        # A selection may contain half a surrogate pair.
        whole = storable(text)
        length = counted(len(text), "character")
        # A function, because a coroutine that is canceled before it begins would warn that it was never awaited.
        app.run_worker(partial(_copy, app, whole, what or length), group="copy", exclusive=True)  # type: ignore[arg-type]


async def _copy(app: App[Any], text: str, what: str) -> None:
    by_program = await wrap_future(in_background(partial(copy_by_program, text), "copy"))
    is_copied = by_program or _send_to_terminal(app, text)
    line = f"Copied {what}." if is_copied else f"Too long for the terminal's clipboard: {what}."
    for hint in app.screen.query(Hint):
        hint.say(line)


def _send_to_terminal(app: App[Any], text: str) -> bool:
    """Send the text by OSC 52, which terminals do not answer; return whether it is short enough."""
    sequence = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a"
    driver = app._driver
    if app.is_headless or driver is None:
        return True
    if len(sequence) > _LONGEST_SEQUENCE:
        return False
    driver.write(through_tmux(sequence) if os.environ.get("TMUX") else sequence)
    driver.flush()
    return True


def through_tmux(sequence: str) -> str:
    """Wrap a sequence for the terminal around tmux."""
    return f"{_ESCAPE_CHARACTER}Ptmux;{sequence.replace(_ESCAPE_CHARACTER, _ESCAPE_CHARACTER * 2)}{_ESCAPE_CHARACTER}\\"


def copy_by_program(text: str) -> bool:
    """Pass the text to a clipboard program; return whether one succeeds."""
    for name, *arguments in clipboard_commands():
        program = find_program(name)
        if program is None:
            continue
        with suppress(OSError, subprocess.SubprocessError):
            # Some programs stay in the background, and keep their pipes open.
            subprocess.run(
                (program, *arguments),
                input=text.encode("utf-16" if name == "clip" else "utf-8"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Without a UTF-8 locale pbcopy reads Mac OS Roman.
                env={**os.environ, "LC_ALL": "en_US.UTF-8"} if name == "pbcopy" else None,
                timeout=_TIMEOUT_S,
                check=True,
            )
            return True
    return False


def clipboard_commands() -> Sequence[Sequence[str]]:
    """Return the commands that may access the clipboard, best first."""
    # By default, tmux drops OSC 52 from programs in it, but not from its own command.
    if os.environ.get("TMUX"):
        return [("tmux", "load-buffer", "-w", "-")]
    # In an SSH session a program would use the wrong machine's clipboard.
    if os.environ.get("SSH_CONNECTION"):
        return []
    if sys.platform == "darwin":
        return [("pbcopy",)]
    if sys.platform == "win32":
        return [("clip",)]
    if os.environ.get("WAYLAND_DISPLAY"):
        return [("wl-copy",)]
    return [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")] * bool(os.environ.get("DISPLAY"))


def clipboard_picture(environment: Mapping[str, str] = os.environ, system: str = sys.platform) -> bytes:
    """Return the picture on the clipboard as a file. Raises AppError with a fix."""
    name, *arguments = _paste_command(environment, system)
    program = find_program(name)
    if program is None:
        package = _PACKAGE_BY_PROGRAM.get(name, name)
        raise AppError(f"The clipboard cannot be read without {name}.", f"Install {package}, or name a file with @.")
    try:
        done = limited_run([program, *arguments], _PASTE_S, environment, most_bytes=_MAX_PICTURE_BYTES)
        output = done.stdout if done.returncode == 0 else b""
        if name == "osascript":
            found = _MACOS_DATA.search(output)
            output = bytes.fromhex(found[1].decode()) if found is not None else b""
        elif name.startswith("powershell"):
            output = base64.b64decode(output.strip())
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise AppError(f"{name} could not read the clipboard.", "Name a file with @ instead.") from error
    if not output:
        reason = one_line(done.stderr.decode(errors="replace")).rstrip(".")
        said = f": {reason}" if reason else ""
        raise AppError(f"There is no picture on the clipboard{said}.", "Copy one, or name its file with @.")
    return output


def _paste_command(environment: Mapping[str, str], system: str) -> tuple[str, ...]:
    if system == "win32":
        return ("powershell", *_WINDOWS_ARGUMENTS)
    if "WSL_DISTRO_NAME" in environment:
        return ("powershell.exe", *_WINDOWS_ARGUMENTS)
    if system == "darwin":
        return _MACOS_COMMAND
    if environment.get("WAYLAND_DISPLAY"):
        return _WAYLAND_COMMAND
    if environment.get("DISPLAY"):
        return _X11_COMMAND
    raise AppError("There is no desktop here whose clipboard could be read.", "Name a file with @ instead.")
