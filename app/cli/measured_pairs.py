"""What answers on this machine have shown of pairs, read from memories that are kept; llama.cpp only where it must."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from app import memory_store
from app.cli.options import open_settings, options_of
from app.cli.placing import asked_here, placed_here
from app.engine.tuning.memory import Memory
from app.errors import AppError
from app.fitting.device_rooms import memory_rooms
from app.fitting.weighing import weighed
from app.hardware.device_room import DeviceRoom
from app.hardware.slow.measured import Measured
from app.llama.identity import memory_file
from app.llama.pair_params import PairParams
from app.pairing.gain import Seen
from app.pairing.texts import quantisation
from app.registry import SetUp
from app.settings.model_file import Recommended
from app.source import LocalModel

_ENOUGH = 128
"""Judged tokens after which `Memory.gain` has nearly forgotten what it began with."""
_TYPICAL_DRAFT = 0.5
"""Of a plain token's time; a draft that costs more tells of itself, not of the target's weights."""
_MOST = 0.99
log = logging.getLogger("tandem.memory")


def seen(pairs: Mapping[str, SetUp]) -> dict[str, Seen]:
    """What is remembered of pairs with a draft model, by their names, placed as they would be now."""
    found: dict[str, Seen] = {}
    try:
        rooms = memory_rooms()
    except AppError as error:
        log.warning("what was measured of pairs cannot be read: %s", error)
        return found
    for name, files in pairs.items():
        try:
            memory = _memory(files, rooms)
        except (AppError, OSError) as error:
            log.warning("what was measured of %s cannot be read: %s", name, error)
            continue
        if memory is not None:
            found[name] = seen_of(memory, quantisation(LocalModel(files.target.path)))
    return found


def _memory(files: SetUp, rooms: tuple[DeviceRoom, ...]) -> Memory | None:
    model = Recommended()  # what it recommends is about sampling, which costs nothing here
    options = options_of(open_settings({}, files.pair, model).resolved(), files.pair, files, model)
    sources = files.pair.target, files.pair.draft

    def plan(params: PairParams) -> PairParams:
        return weighed(params, sources, rooms, certain=math.inf).params if len(rooms) > 1 else params

    params = placed_here(options, asked_here(options, lambda: rooms), plan)
    if params.draft is None:
        return None  # the settings turn drafting off, or its file is damaged
    file = memory_file(params)
    return memory_store.load(file) if file is not None else None


def seen_of(memory: Memory, quant: str) -> Seen:
    """What a memory tells of the draft model.

    Args:
        memory: Of a pair with a draft model.
        quant: Of the target's weights.
    """
    measured = of_memory(memory, with_draft=True)
    gain = memory.gain if measured.judged >= _ENOUGH else None
    return Seen(
        quant=quant,
        is_off=not memory.trial.on or measured.is_off,
        speedup=1 / (1 - min(gain, _MOST)) if gain is not None else None,
        is_typical=measured.draft_ns <= _TYPICAL_DRAFT * measured.plain_ns,
    )


def of_memory(memory: Memory, *, with_draft: bool) -> Measured:
    """A memory as sums and speeds."""
    counts = [bin_ for place in memory.model.counts for bin_ in place]
    return Measured(
        costs=memory.costs,
        with_draft=with_draft,
        least_ns=memory.least_ns,
        accepted=sum(accepted for accepted, _ in counts),
        judged=sum(seen for _, seen in counts),
    )
