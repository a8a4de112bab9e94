"""The sides of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.errors import UsageError
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.worker.request import LoadedPair

PLAIN, FIXED, AUTOMATIC = "plain", "fixed", "automatic"


@dataclass(frozen=True, slots=True)
class Side:
    """One way to answer.

    Attributes:
        name: What it is called, different for each in a comparison.
        drafting: How it drafts; None for no draft.
    """

    name: str
    drafting: Drafting


def sides_of(automatic: AutoDraft, fixed: DraftParams | None) -> tuple[Side, ...]:
    """No draft, the fixed parameters if there are any, and automatic drafting.

    Args:
        automatic: How automatic drafting takes part.
        fixed: Parameters for a third side.
    """
    middle = [Side(fixed_name(fixed), fixed)] if fixed is not None else []
    return (Side(PLAIN, None), *middle, Side(AUTOMATIC, automatic))


def fixed_name(fixed: DraftParams) -> str:
    """Such as "fixed 7/0.6": n_max and p_min, with n_min between them where it is not 0."""
    n_min = f"/{fixed.n_min}" if fixed.n_min else ""
    return f"{FIXED} {fixed.n_max}{n_min}/{fixed.p_min:g}"


def check_sides(pair: LoadedPair, sides: Sequence[Side]) -> None:
    """Return whether a pair has what everybody needs.

    Raises:
        UsageError: It has not.
    """
    if pair.drafter is None and any(isinstance(side.drafting, DraftParams) for side in sides):
        raise UsageError("Fixed parameters need a draft model.", "Name one with --draft, or leave them out.")
    for why in filter(None, (pair.info.why_plain(side.drafting) for side in sides)):
        raise UsageError(f"There is nothing to compare: {why}.")
