"""Small JSON files that only save time: written in one step, and begun anew whatever is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

from app import atomic

UNUSABLE = (OSError, ArithmeticError, RecursionError, ValueError, LookupError, TypeError, AttributeError)
"""What reading such a file and making values of it may raise, whoever wrote it."""


def write(path: Path, raw: object) -> None:
    """Write a file in one step, with its folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(raw).encode(), durable=False)
