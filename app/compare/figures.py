"""The figures of one side in words, the same in every table."""

from __future__ import annotations

from dataclasses import dataclass

from app.compare.measure import Measured


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of a side, for a table; "" for what was not.

    Attributes:
        speed: Tokens a second.
        first_token: Seconds to the first token.
        accepted: Share of the drafted tokens.
        per_check: Tokens of a verify round; where nothing was drafted that is one, and says nothing.
    """

    speed: str
    first_token: str
    accepted: str
    per_check: str


def figures_of(side: Measured) -> Figures:
    """A side's medians, as every table has them."""
    speed, first = side.tokens_per_second, side.first_token_ms
    drafted = side.acceptance is not None and side.tokens_per_verify is not None
    return Figures(
        speed=f"{speed.median:.1f} tok/s" if speed is not None else "",
        first_token=f"{first.median / 1e3:.2f} s" if first is not None else "",
        accepted=f"{side.acceptance:.0%}" if side.acceptance is not None else "",
        per_check=f"{side.tokens_per_verify:.1f}" if drafted else "",
    )
