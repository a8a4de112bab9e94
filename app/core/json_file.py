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
UNUSABLE = (OSError, ArithmeticError, RecursionError, ValueError, LookupError, TypeError, AttributeError)
"""Errors of reading such a file and building a value from it."""


def read(path: Path, form: int, made: Callable[[Any], T]) -> T | None:
    """Read a file; return None if it cannot be used.

    Args:
        path: Written by `write`, an object with its "format"; it may be missing, or anybody's.
        form: The format that is known.
        made: Makes the value of the object; what `UNUSABLE` names may go wrong in it.

    Returns:
        None if there is no file of that format that can be used.
    """
    try:
        raw = json.loads(regular_file.read_text(path))
        return made(raw) if raw["format"] == form else None
    except FileNotFoundError:
        return None
    except UNUSABLE as error:
        log.warning("%s is discarded: %s", path, error)
        return None


def write(path: Path, raw: object) -> None:
    """Write a file in one step, with its folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(raw).encode(), durable=False)
