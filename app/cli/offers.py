"""Offers for a pair that does not fit, in the words of the command line."""

from __future__ import annotations

from app.cli.setting_flags import flags_of
from app.core.errors import AppError, DoesNotFitError, PairError
from app.hardware.offers import Offer

_INDENT = "\n        "


def offer_line(offer: Offer) -> str:
    """Return an offer in one line, with the flags that choose it."""
    flags = ["--pair", offer.pair] if offer.pair is not None else flags_of(offer.settings)
    what = f"{' '.join(flags)}: {offer.what}" if flags else offer.what
    return f"{what}, {offer.gain} ({offer.cost})"


def in_flags(error: AppError) -> AppError:
    """Return an error whose fix names flags."""
    if not isinstance(error, DoesNotFitError):
        return error
    lines = ["Choose one of these, or load it anyway with --fit off:", *map(offer_line, error.offers)]
    return PairError(error.message, _INDENT.join(lines))
