"""Small JSON cache files: written atomically, and discarded if they are broken."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from app.core import atomic, regular_file

T = TypeVar("T")
log = logging.getLogger("tandem.json_file")
log.addHandler(logging.NullHandler())
_UNUSABLE = (OSError, ArithmeticError, RecursionError, ValueError, LookupError, TypeError, AttributeError)


def read(path: Path, form: int, made: Callable[[Any], T]) -> T | None:
    """Read a file; return None if it is missing, broken or of another format.

    Args:
        path: Written by `write`: an object with a "format".
        form: The expected format.
        made: Converts the object; its errors discard the file.
    """
    try:
        raw = json.loads(regular_file.read_text(path))
        return made(raw) if raw["format"] == form else None
    except FileNotFoundError:
        return None
    except _UNUSABLE as error:
        log.warning("%s is discarded: %s", path, error)
        return None


def write(path: Path, raw: object) -> None:
    """Write a file in one step, with its folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(raw).encode(), durable=False)
