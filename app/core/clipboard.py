"""A picture on the clipboard, read by a program of the desktop."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Mapping

from app.core.errors import AppError
from app.core.program import find_program, limited_run

_SECONDS = 10.0
_MOST_BYTES = 256 << 20
_WINDOWS_SCRIPT = (
    "Add-Type -AssemblyName System.Windows.Forms; $image = [Windows.Forms.Clipboard]::GetImage(); if ($image) { "
    "$file = New-Object IO.MemoryStream; $image.Save($file, 'Png'); [Convert]::ToBase64String($file.ToArray()) }"
)
_WINDOWS_ARGUMENTS = ("-NoProfile", "-STA", "-Command", _WINDOWS_SCRIPT)
_MACOS_COMMAND = ("osascript", "-e", "the clipboard as «class PNGf»")
_MACOS_DATA = re.compile(rb"PNGf([0-9A-Fa-f]+)")
_X11_COMMAND = ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
_WAYLAND_COMMAND = ("wl-paste", "--type", "image/png")
_PACKAGES = {"wl-paste": "wl-clipboard"}
"""Packages of programs with another name."""


def clipboard_picture(environment: Mapping[str, str] = os.environ, system: str = sys.platform) -> bytes:
    """Return the picture on the clipboard as a file. Raises AppError with a fix."""
    name, *arguments = _command(environment, system)
    program = find_program(name)
    if program is None:
        package = _PACKAGES.get(name, name)
        raise AppError(f"The clipboard cannot be read without {name}.", f"Install {package}, or name a file with @.")
    try:
        output = limited_run([program, *arguments], _SECONDS, environment, most_bytes=_MOST_BYTES).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AppError(f"{name} could not read the clipboard.", "Name a file with @ instead.") from error
    if name == "osascript":
        found = _MACOS_DATA.search(output)
        output = bytes.fromhex(found[1].decode()) if found is not None else b""
    elif name.startswith("powershell"):
        output = base64.b64decode(output.strip())
    if not output:
        raise AppError("There is no picture on the clipboard.", "Copy one, or name its file with @.")
    return output


def _command(environment: Mapping[str, str], system: str) -> tuple[str, ...]:
    if system == "win32":
        return ("powershell", *_WINDOWS_ARGUMENTS)
    if "WSL_DISTRO_NAME" in environment:
        return ("powershell.exe", *_WINDOWS_ARGUMENTS)
    if system == "darwin":
        return _MACOS_COMMAND
    return _WAYLAND_COMMAND if environment.get("WAYLAND_DISPLAY") else _X11_COMMAND
