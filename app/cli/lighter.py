"""What to do about a pair that ran out of memory although it was reckoned to fit."""

from __future__ import annotations

import re
from dataclasses import replace

from app.cli.fitting import lighter
from app.cli.options import Options, catalog, pair_params
from app.errors import AppError, ModelLoadError
from app.pairing.propose import gigabytes

_MEMORY = re.compile(r"alloc|out of memory", re.IGNORECASE)


def way_to_less(options: Options) -> str:
    """The cheapest way out that suffices, as a sentence; "" if none can be told."""
    try:
        # Not counted: it has been, and it is no question any more whether it fits.
        params = pair_params(replace(options, placement=replace(options.placement, fit=False)))
        found = lighter(params, (options.pair.target, options.pair.draft), list(catalog().pairs.values()))
    except (AppError, OSError):
        return ""
    offer = next((offer for offer in found if offer.flags and offer.suffices), None)
    if offer is None:
        return "Choose a smaller pair: tandem pairs list"
    return f"Start with {' '.join(offer.flags)}: {offer.what}, which frees about {gigabytes(offer.gain_bytes)}."


def with_way_out(error: ModelLoadError, options: Options) -> ModelLoadError:
    """The same failure; where it is for want of memory, with what would take less."""
    hint = way_to_less(options) if _MEMORY.search(error.message) else ""
    return ModelLoadError(error.message, hint or error.hint)
