"""Error for a pair that does not fit, with options."""

from __future__ import annotations

from app.core.errors import PairError
from app.hardware.offers import Offer


class DoesNotFitError(PairError):
    """A pair that does not fit into this machine.

    Args:
        message: What is missing, and where.
        hint: The offers, as flags.
        offers: The same, as values.
    """

    def __init__(self, message: str, hint: str, offers: tuple[Offer, ...]) -> None:
        super().__init__(message, hint)
        self.offers = offers
