"""Measure what a pair costs while nothing is asked; a prompt interrupts it at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.core.errors import Interrupted
from app.engine.types import AutoDraft, Drafting
from app.worker.events import Event, JobEnded, Measuring
from app.worker.request import LoadedPair

if TYPE_CHECKING:
    from app.engine.interfaces import Cancelled, Controls


_IDLE_S = 1.0
"""Seconds without a request before the measurement begins: an agent sends its next request sooner."""


@dataclass(frozen=True, slots=True)
class MeasureJob:
    """Measure a pair if automatic drafting needs that; the result is False if the job was stopped before its end.

    Attributes:
        after_s: Seconds to wait first.
    """

    drafting: Drafting
    after_s: float = _IDLE_S
    loads = False
    gives_way = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        if needs_measuring(pair, self.drafting) and not controls.waits(self.after_s):
            with pair.lend_caches():
                yield from measure(pair, number, controls.cancelled)
        yield JobEnded(number, not controls.cancelled())


def needs_measuring(pair: LoadedPair, drafting: Drafting) -> bool:
    """Return whether automatic drafting knows no measured costs, or needs another measurement."""
    is_automatic = isinstance(drafting, AutoDraft) and bool(pair.info.sources(drafting))
    return is_automatic and _has_no_costs(pair)


def _has_no_costs(pair: LoadedPair) -> bool:
    known = pair.memory
    return known is None or known.is_estimated or bool(known.why_remeasure)


def measure(pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
    """Measure a pair, on empty caches, and save the result; a stopped measurement continues at the next call."""
    known = pair.memory
    why = known.why_remeasure if known is not None and not known.is_estimated else ""
    began, first = time.monotonic(), None
    try:
        for share in pair.measure_costs(cancelled):
            # A stopped measurement does not begin at 0.
            first = share if first is None else first
            spent_s, done = time.monotonic() - began, share - first
            yield Measuring(number, share, why, spent_s * (1 - share) / done if done > 0 else None)
    except Interrupted:
        # No prompt begins with this text.
        pair.target.rollback(0)
    else:
        pair.remember()
