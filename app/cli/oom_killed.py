"""What to do about a pair whose process the system has ended for want of memory."""

from __future__ import annotations

from app.cli.known_pairs import known_pairs
from app.cli.options import Options
from app.cli.placing import asked_here
from app.core.errors import AppError, NoMemoryError
from app.core.units import memory_size
from app.hardware.device_room import MAIN
from app.llama.fitting.device_rooms import memory_rooms
from app.llama.fitting.does_not_fit import DoesNotFitError
from app.llama.fitting.out_of_memory import ran_out


def way_to_less(options: Options) -> str:
    """The cheapest way out that suffices, as a sentence; "" if none can be told."""
    try:
        sources = options.pair.target, options.pair.draft
        error = ran_out(asked_here(options, memory_rooms), sources, known_pairs(), NoMemoryError("", device=MAIN))
    except (AppError, OSError):
        return ""
    found = error.offers if isinstance(error, DoesNotFitError) else ()
    offer = next((offer for offer in found if offer.flags and offer.suffices), None)
    if offer is None:
        return "Choose a smaller pair: tandem pairs list"
    return f"Start with {' '.join(offer.flags)}: {offer.what}, which frees about {memory_size(offer.gain_bytes)}."
