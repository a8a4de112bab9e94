"""The order of keys in the last line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import ActiveBinding


def in_order(bindings: dict[str, ActiveBinding], first: Sequence[str]) -> dict[str, ActiveBinding]:
    """The bindings of a screen, those for its last line in front.

    Args:
        bindings: What can be pressed now.
        first: The ids for the last line, most wanted first.
    """

    def rank(item: tuple[str, ActiveBinding]) -> int:
        identity = item[1].binding.id
        return first.index(identity) if identity in first else len(first)

    return dict(sorted(bindings.items(), key=rank))
