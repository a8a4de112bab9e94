"""How large a value is, and how large an operation of a template would make one, before it does.

A value weighs the characters that it prints as, about. What nests too deeply is refused too: a list that holds another
one twice, forty times over, is small until something prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from jinja2 import Environment
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter

MAX_CHARACTERS = 8_000_000
"""Longest text, and thereby longest prompt: twice what the longest context holds."""
MAX_WIDTH = 10_000
"""Largest number for padding, indenting, batching and rounding."""
MAX_DEPTH = 64
WIDTH_FILTERS = ("batch", "center", "indent", "round", "slice", "tojson")
WIDTH_METHODS = ("center", "ljust", "rjust", "zfill")
SCANNING_METHODS = ("strip", "lstrip", "rstrip", "rfind", "rindex", "rpartition", "rsplit")
"""Methods of texts that may take as long as the text times their argument; those that search forwards do not."""
_MAX_SCAN = 1_000_000_000
"""A quarter of a second."""
_ELEMENT = 16
"""What one place in a list weighs, in characters."""
_MAX_BITS = 4096

_WIDE_PERCENT = re.compile(r"\d{5}|%[-#0 +.\d]*\*")
"""Wherever the digits stand: what a name in parentheses in front of them may hold is more than a pattern can tell."""
_WIDE_FIELD = re.compile(r"\{[^{}]*(\d{5}|\{)")
_REACHING_FIELD = re.compile(r"\{[^{}:!]*[.\[]")


def weigh(value: Any) -> int:
    """About how many characters a value is when printed.

    Raises:
        SecurityError: It is too large, or nested too deeply.
    """
    total = 0
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, dict | list | tuple | set | frozenset):
            total += _ELEMENT * (len(item) + 1)
            if depth == MAX_DEPTH:
                raise SecurityError("its lists are nested too deeply")
            if total <= MAX_CHARACTERS:
                pending.extend((part, depth + 1) for part in item)
                if isinstance(item, dict):
                    pending.extend((part, depth + 1) for part in item.values())
        elif isinstance(item, int):
            # Before it is divided by another one, which takes as long as both are long.
            if item.bit_length() > _MAX_BITS:
                raise SecurityError("a number becomes too large")
            total += item.bit_length() // 3 + 1
        else:
            total += _ELEMENT
        if total > MAX_CHARACTERS:
            raise SecurityError("a value becomes too large")
    return total


def weigh_alone(value: Any) -> int:
    """About how many characters a value takes besides those that it holds, which were there before."""
    if isinstance(value, str | bytes):
        return len(value)
    return _ELEMENT * (len(value) + 1) if isinstance(value, dict | list | tuple | set | frozenset) else _ELEMENT


def check_growth(size: int) -> None:
    if size > MAX_CHARACTERS:
        raise SecurityError("a value becomes too large")


def check_widths(arguments: Iterable[Any]) -> None:
    if any(isinstance(a, int) and abs(a) > MAX_WIDTH for a in arguments):
        raise SecurityError("a width is too large")


def _reach(argument: Any) -> int:
    return abs(argument) if isinstance(argument, int) else len(str(argument))


def check_scan(text: str, wanted: Any) -> None:
    if isinstance(wanted, str) and len(text) * len(wanted) > _MAX_SCAN:
        raise SecurityError("a search takes too long")


def check_replace(text: str, old: Any = "", new: Any = "") -> None:
    if isinstance(old, str) and isinstance(new, str):
        places = text.count(old) if old else len(text) + 1
        check_growth(len(text) + places * max(0, len(new) - len(old)))


def checked_join(separator: str, items: Iterable[Any]) -> list[Any]:
    parts = list(islice(items, MAX_CHARACTERS // _ELEMENT + 1))
    check_growth(weigh(parts) + len(separator) * len(parts))
    return parts


def check_percent(layout: str, values: Any) -> None:
    if _WIDE_PERCENT.search(layout):
        raise SecurityError("a width is too large")
    check_growth(len(layout) + layout.count("%") * (weigh(values) + MAX_WIDTH))


def check_fields(layout: str, values: Any) -> None:
    fields = layout.replace("{{", "")
    if _WIDE_FIELD.search(fields):
        raise SecurityError("a width is too large")
    # What is reached was not weighed.
    if _REACHING_FIELD.search(fields):
        raise SecurityError("a format looks into a value")
    check_growth(len(layout) + fields.count("{") * (weigh(values) + MAX_WIDTH))


def check_power(left: Any, right: Any) -> None:
    if not (isinstance(left, int | float) and isinstance(right, int | float)) or abs(left) > 1e6 or right > 64:
        raise SecurityError("a power is too large")


def check_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > _MAX_BITS:
            raise SecurityError("a number becomes too large")
        return
    for value, times in ((left, right), (right, left)):
        if isinstance(times, int) and not isinstance(value, float):
            check_growth(weigh(value) * max(times, 0))


# Checks of single filters: given the environment, the value, the other arguments; they return the value to use.


def _before_indent(_: Environment, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    check_growth((str(value).count("\n") + 1) * max(map(_reach, [*rest, *kwargs.values()]), default=4))
    return value


def _before_json(_: Environment, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    check_growth(weigh(value) * max(map(_reach, [*rest, *kwargs.values()]), default=1))
    return value


def _before_format(_: Environment, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    check_percent(str(value), [rest, kwargs])
    return value


def _before_replace(_: Environment, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    old, new = [*rest[:2], kwargs.get("old", ""), kwargs.get("new", "")][:2]
    check_replace(str(value), str(old), str(new))
    return value


def _before_join(environment: Environment, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    attribute = rest.pop(1) if len(rest) > 1 else kwargs.pop("attribute", None)
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return checked_join(str(rest[0] if rest else kwargs.get("d", "")), value)


def _before_trim(_: Environment, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    for wanted in [*rest, *kwargs.values()]:
        check_scan(str(value), wanted)
    return value


def _before_sum(_: Environment, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    # Adding lists one by one copies each of them again and again.
    if not all(isinstance(a, int | float | str) for a in [*rest, *kwargs.values()]):
        raise SecurityError("only numbers can be summed")
    return value


BEFORE_FILTER: dict[str, Callable[[Environment, Any, list[Any], dict[str, Any]], Any]] = {
    "format": _before_format,
    "indent": _before_indent,
    "join": _before_join,
    "replace": _before_replace,
    "sum": _before_sum,
    "tojson": _before_json,
    "trim": _before_trim,
}
