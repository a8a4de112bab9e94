"""Sizes of a template's values, checked before they are created or printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from jinja2.exceptions import SecurityError

MAX_CHARACTERS = 8_000_000
"""Longest value, and thus longest prompt: twice the longest context."""
MAX_GROWTH = 100_000_000
_MAX_SCAN = 1_000_000_000
"""Characters that one operation can write and compare in a quarter of a second."""
_MAX_WIDTH = 10_000
_MAX_DEPTH = 64
_MAX_BITS = 4096
ELEMENT = 16
"""Size of one list element, in characters."""
_GROWING_FILTERS = ("indent", "replace", "tojson")


class GrowingList(list[Any]):
    """A list literal in a template, which may grow.

    Other lists may contain it several times, so its size counts when it is printed or compared, not when it is created.
    """

    __hash__ = None
    on_text: Callable[[str], None]
    """Called with every text of the list, which counts as a created value."""

    def __repr__(self) -> str:
        size_of(self)
        text = super().__repr__()
        self.on_text(text)
        return text

    def __eq__(self, other: object) -> bool:
        size_of(self)
        return super().__eq__(other)

    def __lt__(self, other: Any) -> bool:
        size_of(self)
        return super().__lt__(other)


def size_of(value: Any) -> int:
    """Return approximately how many characters a value has when printed.

    Raises:
        SecurityError: It is too large, or nested too deeply: a list that contains another twice, forty levels deep, is
            small until something prints it.
    """
    total = 0
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, dict | list | tuple | set | frozenset):
            total += ELEMENT * (len(item) + 1)
            if depth == _MAX_DEPTH:
                raise SecurityError("its lists are nested too deeply")
            if total <= MAX_CHARACTERS:
                parts = [*item, *item.values()] if isinstance(item, dict) else item
                pending.extend((part, depth + 1) for part in parts)
        elif isinstance(item, int) and item.bit_length() > _MAX_BITS:
            raise SecurityError("a number becomes too large")
        else:
            total += ELEMENT
        refuse_over(total, MAX_CHARACTERS)
    return total


def refuse_over(size: int, limit: int) -> None:
    if size > limit:
        raise SecurityError("a value becomes too large")


def check_arguments(name: str, value: Any, arguments: list[Any]) -> None:
    """Refuse arguments that would make a filter or method slow or fill the memory."""
    if any(isinstance(a, int) and abs(a) > _MAX_WIDTH for a in arguments):
        raise SecurityError("a number becomes too large")
    if name in _GROWING_FILTERS:
        reach = max((abs(a) if isinstance(a, int) else len(str(a)) for a in arguments), default=1)
        refuse_over(size_of(value) * max(1, reach), MAX_GROWTH)
    elif isinstance(value, str):
        longest = max((len(a) for a in arguments if isinstance(a, str)), default=0)
        if len(value) * longest > _MAX_SCAN:
            raise SecurityError("a search takes too long")


def joinable(separator: str, items: Iterable[Any]) -> list[Any]:
    parts = list(islice(items, MAX_CHARACTERS // ELEMENT + 1))
    refuse_over(size_of(parts) + len(separator) * len(parts), MAX_CHARACTERS)
    return parts
