"""Small JSON files that only save time: written in one step, and begun anew whatever is wrong with them."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

UNUSABLE = (OSError, ArithmeticError, RecursionError, ValueError, LookupError, TypeError, AttributeError)
"""What reading such a file and making values of it may raise, whoever wrote it."""


def write(path: Path, raw: object) -> None:
    """Write a file in one step, with its folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".partial")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(raw, file)
        Path(name).replace(path)
    except BaseException:
        # A full disk would only be fuller of halves, one for every answer.
        with suppress(OSError):
            Path(name).unlink()
        raise
