"""The sides of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.errors import UsageError
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.worker.request import LoadedPair

PLAIN, AUTOMATIC = "plain", "automatic"


@dataclass(frozen=True, slots=True)
class Side:
    """One way to draft, by a name that is unique in its comparison."""

    name: str
    drafting: Drafting


def sides_of(automatic: AutoDraft, fixed: DraftParams | None) -> tuple[Side, ...]:
    """Return no draft, the fixed parameters if any, and automatic drafting."""
    middle = [Side(fixed_name(fixed), fixed)] if fixed is not None else []
    return (Side(PLAIN, None), *middle, Side(AUTOMATIC, automatic))


def fixed_name(fixed: DraftParams) -> str:
    """Return a name such as "fixed 7/0.6" for n_max and p_min; n_min stands between them unless it is 0."""
    n_min = f"/{fixed.n_min}" if fixed.n_min else ""
    return f"fixed {fixed.n_max}{n_min}/{fixed.p_min:g}"


def check_sides(pair: LoadedPair, sides: Sequence[Side]) -> None:
    """Raise UsageError if the pair lacks what a side needs."""
    if pair.drafter is None and any(isinstance(side.drafting, DraftParams) for side in sides):
        raise UsageError("Fixed parameters need a draft model.", "Name one with --draft, or leave them out.")
    for side in sides:
        if reason := pair.info.why_no_draft(side.drafting):
            raise UsageError(f"There is nothing to compare: {reason}.")
