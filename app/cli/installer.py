"""How something is installed into the Python that this program runs in."""

from __future__ import annotations

import importlib.util
import shlex
import sys


def installer(system: str) -> str:
    """The beginning of a command that installs here.

    Args:
        system: "linux", "darwin" or "windows", whose shell is to read it.
    """
    python = sys.executable or "python"
    if importlib.util.find_spec("pip") is None:
        # Environments that uv makes have no pip of their own.
        return f"uv pip install --python {_quoted(python, system)}"
    # PowerShell takes a quoted program for a text unless it is told to call it.
    call = "& " if system == "windows" and " " in python else ""
    return f"{call}{_quoted(python, system)} -m pip install"


def _quoted(path: str, system: str) -> str:
    if system == "windows":
        return f'"{path}"' if " " in path else path
    return shlex.quote(path)
