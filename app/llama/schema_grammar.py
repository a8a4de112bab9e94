"""Convert a JSON schema to a grammar with llama-cpp-python's converter, extended by bounds of numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from app.core.errors import UsageError
from app.core.printable import one_line

_LARGEST = 10**15 - 1
"""Bound on a side where the schema sets none; llama.cpp's numbers have as many digits."""
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_FRACTION = '("." [0-9]{1,15})?'


def grammar_of_schema(schema: Mapping[str, Any]) -> str:
    """Return the grammar of a JSON schema.

    Raises:
        UsageError: The library cannot translate it.
    """
    try:
        converter = _converter()(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
        # References are replaced in place.
        converter.visit(converter.resolve_refs(json.loads(json.dumps(schema)), "stdin"), "")
        return str(converter.format_grammar())
    except Exception as error:
        # The library raises many kinds for a wrong schema.
        raise UsageError(
            f"The JSON schema cannot be used: {one_line(str(error)).rstrip('.') or type(error).__name__}.",
            "Use a schema of objects, arrays, strings, numbers, enums and references within it.",
        ) from error


@cache
def _converter() -> Any:
    from llama_cpp.llama_grammar import SchemaConverter

    class Converter(SchemaConverter):  # type: ignore[misc]
        """Add bounds of numbers, and make each of several types as strict as a single type."""

        def visit(self, schema: dict[str, Any], name: str) -> str:
            kind = schema.get("type")
            if isinstance(kind, list):
                schema = {"anyOf": [{**schema, "type": one} for one in kind]}
            elif kind in ("integer", "number", None) and _needs_multiples(schema):
                raise UsageError(f"multipleOf is {schema['multipleOf']!r}, which a grammar cannot express")
            elif kind in ("integer", "number") and any(key in schema for key in _BOUNDS) and "enum" not in schema:
                rule = f"({_bounded_number(schema, whole=kind == 'integer')}) space"
                return str(self._add_rule(f"{name}-range" if name else "root", rule))
            return str(super().visit(schema, name))

    return Converter


def _needs_multiples(schema: Mapping[str, Any]) -> bool:
    """Return whether only multiples of a number are valid; each integer is a multiple of 1."""
    step = schema.get("multipleOf")
    return step is not None and "enum" not in schema and (schema.get("type"), step) != ("integer", 1)


def _bounded_number(schema: Mapping[str, Any], *, whole: bool) -> str:
    """Return the rule of the numbers between the bounds of a schema."""
    low, low_open = _bound(schema, "minimum", -1, whole=whole)
    high, high_open = _bound(schema, "maximum", 1, whole=whole)
    parts = []
    if low < 0:
        negative = _range(max(0, -high), -low, high_open and high <= 0, low_open, whole=whole)
        parts += [f'"-" ({negative})'] if negative else []
    if high >= 0:
        parts.append(_range(max(0, low), high, low_open and low >= 0, high_open, whole=whole))
    if not any(parts):
        raise UsageError("no number lies within its bounds")
    return " | ".join(part for part in parts if part)


def _bound(schema: Mapping[str, Any], name: str, sign: int, *, whole: bool) -> tuple[int, bool]:
    """Return a bound and whether it is excluded; `sign` is 1 for the upper one."""
    found = (_LARGEST, False)
    for key in (name, f"exclusive{name.capitalize()}"):
        value, is_open = schema.get(key), key != name
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise UsageError(f"{key} is {value!r}; it must be a number")
        if whole:
            # The nearest whole number within; an excluded one is left out.
            value = sign * (math.ceil(sign * value) - 1 if is_open else math.floor(sign * value))
            is_open = False
        elif value != int(value):
            raise UsageError(f"{key} is {value}; only bounds without a fraction are supported")
        # The stricter of two bounds holds.
        found = min(found, (sign * int(value), is_open), key=lambda one: (one[0], not one[1]))
    return sign * found[0], found[1]


def _range(low: int, high: int, low_open: bool, high_open: bool, *, whole: bool) -> str:
    """Return the rule of the numbers from `low` to `high`, neither negative; "" for none."""
    if low > high:
        return ""
    if whole:
        return _whole_range(low, high)
    if low == high:
        return "" if low_open or high_open else f'"{low}" ("." "0"{{1,15}})?'
    parts = [f'"{low}" "." [0-9]{{0,14}} [1-9]' if low_open else f'"{low}" {_FRACTION}']
    parts += [f"({_whole_range(low + 1, high - 1)}) {_FRACTION}"] if high - low > 1 else []
    parts += [] if high_open else [f'"{high}" ("." "0"{{1,15}})?']
    return " | ".join(parts)


def _whole_range(low: int, high: int) -> str:
    return " | ".join(
        _digits(str(max(low, 10 ** (n - 1) if n > 1 else 0)), str(min(high, 10**n - 1)))
        for n in range(len(str(low)), len(str(high)) + 1)
    )


def _digits(low: str, high: str) -> str:
    """Return the rule of the numbers from `low` to `high`, two texts with the same number of digits."""
    first, last, rest = low[0], high[0], len(low) - 1
    if not rest:
        return f"[{first}-{last}]"
    if first == last:
        return f'"{first}" ({_digits(low[1:], high[1:])})'
    if not int(low[1:]) and set(high[1:]) == {"9"}:
        return f"[{first}-{last}] [0-9]{{{rest}}}"
    parts = [f'"{first}" ({_digits(low[1:], "9" * rest)})']
    parts += [f"[{int(first) + 1}-{int(last) - 1}] [0-9]{{{rest}}}"] if int(last) - int(first) > 1 else []
    return " | ".join([*parts, f'"{last}" ({_digits("0" * rest, high[1:])})'])
