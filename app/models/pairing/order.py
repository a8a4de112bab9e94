"""The order of pairs in every list: what is here, the best for this machine, the fast by size, the slow by speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.models.catalog import Pair
from app.models.pairing.propose import Fit, Proposal, bytes_per_token
from app.models.registry import Registered


@dataclass(frozen=True, slots=True)
class Standing:
    """How it stands with a pair.

    Attributes:
        pair: The pair.
        proposal: The pair held against this machine; None while that is not known.
        set_up: Whether it can be opened at once.
        here: Whether its files are on this machine.
        is_default: Whether it is taken when none is named.
        is_new: Whether the user has put it together just now.
    """

    pair: Pair
    proposal: Proposal | None
    set_up: bool = False
    here: bool = False
    is_default: bool = False
    is_new: bool = False


def every_pair(catalog: Mapping[str, Pair], registered: Registered) -> dict[str, Pair]:
    """The pairs that were set up, then those of the catalogue, whose entries are the newer ones.

    One that another release makes of other files stays what was set up.
    """
    newer = {name: pair for name, pair in catalog.items() if registered.in_place_of(pair) is None}
    return {name: one.pair for name, one in registered.pairs.items()} | newer


def in_order(standings: Sequence[Standing], proposed: Sequence[Proposal]) -> list[Standing]:
    """Put pairs in order; equal ones stay as they are.

    What can be opened comes first, then what else is here, then the pair that is proposed. Of the others those that
    answer as fast as people read come by size, the largest first; slow ones by speed, the fastest first; those that do
    not fit by what they need, the least first.

    Args:
        standings: The pairs.
        proposed: What `propose` says, the best first; nothing while the machine is not known.
    """
    best = proposed[0].pair.name if proposed else None
    return sorted(standings, key=lambda standing: _rank(standing, best))


def _rank(one: Standing, best: str | None) -> tuple[int, int, int]:
    fit = one.proposal.fit if one.proposal is not None else Fit.UNKNOWN
    if one.set_up:
        return 0, not one.is_default, 0
    if one.here:
        return 1, fit is Fit.TOO_BIG, 0
    if one.is_new:
        return 2, 0, 0
    if one.pair.name == best:
        return 3, 0, 0
    if one.proposal is None or fit is Fit.UNKNOWN:
        return 7, 0, 0
    if fit is Fit.TOO_BIG:
        return 6, one.proposal.need_bytes, 0
    if one.proposal.slow:
        return 5, bytes_per_token(one.pair), 0
    return 4, fit is Fit.TIGHT, -one.pair.memory_gb
