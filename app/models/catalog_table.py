"""The tables of a catalogue, read key by key.

Whoever wrote one is told what is wrong in it: every function raises CatalogError that names the place, which is `where`
and the key.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from app.core.errors import CatalogError, UsageError
from app.core.units import MAX_SIZE
from app.engine.types import DraftParams, SamplingParams

T = TypeVar("T", SamplingParams, DraftParams)


def whole(entry: Mapping[str, Any], key: str, where: str) -> int | None:
    """A whole number above 0; None where there is none."""
    value = entry.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise CatalogError(f"{where}.{key} must be a whole number above 0.")
    if value is not None and value > MAX_SIZE:
        raise CatalogError(f"{where}.{key} is larger than can be meant.")
    return value


def text(entry: Mapping[str, Any], key: str, where: str) -> str | None:
    """A text; None where there is none."""
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise CatalogError(f"{where}.{key} must be a text in quotes.")
    return value


def params(default: T, table: Any, keys: Sequence[str], where: str) -> T:
    """The default with the numbers that a table says."""
    if not isinstance(table, dict):
        raise CatalogError(f"{where} must be a table.", "Write it as { name = value, ... }.")
    refuse_unknown(table, keys, where)
    for key, value in table.items():
        wanted = type(getattr(default, key)) if getattr(default, key) is not None else int
        broken = wanted is int and isinstance(value, float) and not value.is_integer()
        if isinstance(value, bool) or not isinstance(value, int | float) or broken:
            raise CatalogError(f"{where}.{key} must be {'a whole' if wanted is int else 'a'} number.")
    try:
        return replace(default, **table)
    except UsageError as error:
        raise CatalogError(f"{where}: {error.message}") from error


def refuse_unknown(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    """Refuse a key that is none of these, with the nearest one that is."""
    for key in table:
        if key not in keys:
            meant = nearest(key, keys)
            hint = "Mend that line, or take it out." if meant else f"Known: {', '.join(keys)}."
            raise CatalogError(f'{where} has the unknown key "{key}".{meant}', hint)


def nearest(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """A sentence that asks whether the nearest of these was meant; "" where none is near."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
