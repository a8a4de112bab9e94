"""Why a pair is slow: every cause that shows in facts and measurements, the dearest first."""

from __future__ import annotations

from app.hardware.slow import costs, placement, processor
from app.hardware.slow.situation import Cause, Situation

_LOOKS = (*placement.LOOKS, *processor.LOOKS, *costs.LOOKS)


def diagnose(s: Situation) -> tuple[Cause, ...]:
    """Every cause that is found, the dearest first; () if nothing slows the pair."""
    found = (look(s) for look in _LOOKS)
    return tuple(sorted(filter(None, found), key=lambda cause: -cause.factor))
