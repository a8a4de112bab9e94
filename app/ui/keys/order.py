"""The keys of the last line: their order, and which are dimmed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from textual.binding import ActiveBinding


def in_order(
    bindings: dict[str, ActiveBinding], first: Sequence[str], idle: Collection[str] = ()
) -> dict[str, ActiveBinding]:
    """The bindings of a screen, those for its last line in front.

    Args:
        bindings: What can be pressed now.
        first: The ids for the last line, most wanted first.
        idle: The ids of those that have nothing to do. They are dimmed, not disabled: whoever presses one may be told
            why, or has typed something before it that is not in sight yet.
    """

    def rank(item: tuple[str, ActiveBinding]) -> int:
        identity = item[1].binding.id
        return first.index(identity) if identity in first else len(first)

    shown = {key: one._replace(enabled=one.enabled and one.binding.id not in idle) for key, one in bindings.items()}
    return dict(sorted(shown.items(), key=rank))
