"""Another pair, for what does not fit into the context of the open one."""

from __future__ import annotations

from collections.abc import Iterable

from app.models.pairing.propose import Fit
from app.ui.models.setups import Card


def roomier(cards: Iterable[Card], n_tokens: int) -> Card | None:
    """The first pair that can have a context here of more than so many tokens.

    One that can be opened at once goes before the others, and one that answers as fast as people read before the slow.
    """
    found = [c for c in cards if c.context > n_tokens and not c.is_open and c.fit is not Fit.TOO_BIG]
    return min(found, key=lambda card: (not card.set_up, card.slow), default=None)
