"""The command that installs packages into this Python."""

from __future__ import annotations

import importlib.util
import sys

from app.core.shell import quoted


def installer(system: str) -> str:
    """Return the start of the install command.

    Args:
        system: "linux", "darwin" or "windows", whose shell is to read it.
    """
    python = quoted(sys.executable or "python", system)
    if importlib.util.find_spec("pip") is None:
        # Environments that uv makes have no pip of their own.
        return f"uv pip install --python {python}"
    # PowerShell takes a quoted program for a text unless it is told to call it.
    call = "& " if system == "windows" and python.startswith('"') else ""
    return f"{call}{python} -m pip install"
