"""Ways out of a pair that does not fit, as the chat shows and takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.core.errors import PairError
from app.ui.models.setups import Choice


@dataclass(frozen=True, slots=True)
class Way:
    """One way out.

    Attributes:
        what: What would be done, as a phrase.
        gain: What it frees, and whether that is enough.
        cost: What it costs.
        take: Chooses it and gives the pair, to be loaded that way; None where something must be downloaded first.
        command: What brings that.
    """

    what: str
    gain: str
    cost: str
    take: Callable[[], Choice] | None = None
    command: str = ""


class NoRoomError(PairError):
    """A pair that does not fit into this machine.

    Args:
        message: What is missing, and where.
        ways: What can be done about it, the cheapest first.
        hint: What to do where there is no way.
    """

    def __init__(self, message: str, ways: tuple[Way, ...], hint: str = "") -> None:
        super().__init__(message, hint)
        self.ways = ways
