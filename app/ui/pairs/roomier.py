"""Another pair, for what does not fit into the context of the open one."""

from __future__ import annotations

from collections.abc import Iterable

from app.pairing.propose import Fit
from app.ui.pairs.setups import Card


def roomier(cards: Iterable[Card], n_tokens: int) -> Card | None:
    """The first pair that was made for more than so many tokens of context, one that can be opened at once if any."""
    found = [c for c in cards if c.context > n_tokens and not c.is_open and c.fit is not Fit.TOO_BIG]
    return next((card for card in found if card.set_up), next(iter(found), None))
