"""Which pair for this machine? From memory alone, before anything is asked of the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from app.catalog import Pair
from app.sizes import GB, gigabytes
from app.source import DemoModel, HubModel, LocalModel, ModelSource

USUAL_CONTEXT = 8192
_WORKING_SHARE = 0.08
_WORKING_BYTES = 500_000_000
"""KV caches for `USUAL_CONTEXT` and buffers of both models, before their headers are read: a share of the weights, and
what a small model needs too."""
_CLASS_SHARE = 0.85
"""Weights that a memory class holds, where sizes are not known."""
_TIGHT = 0.9
_CPU_WEIGHTS = 9 * GB
"""A processor reads its weights from memory for every token: above this, answers come slower than people read."""
N_PROPOSED = 3
_USUAL_DRAFT = 600_000_000
_DEMO_BYTES = 100_000_000


class Fit(Enum):
    """How a pair fits into the memory there is."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_BIG = "too big"
    UNKNOWN = "size unknown"


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that models can be put into.

    Attributes:
        free_bytes: Of the largest device, or of main memory where there is none.
        device: Its name; "" for main memory.
    """

    free_bytes: int
    device: str = ""

    @property
    def where(self) -> str:
        return f"on {self.device}" if self.device else "in main memory"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pair held against the machine.

    Attributes:
        pair: The pair.
        fit: Whether it fits.
        need_bytes: Estimated memory for both models at `USUAL_CONTEXT`.
        download_bytes: Bytes of both files on the hub; 0 if they are not known or nothing is there.
        reason: Why, as a short clause.
    """

    pair: Pair
    fit: Fit
    need_bytes: int
    download_bytes: int
    reason: str


def weigh(pair: Pair, room: Room) -> Proposal:
    """Hold one pair against the memory there is."""
    weights = _weights(pair)
    if not weights:
        return Proposal(pair, Fit.UNKNOWN, 0, 0, "its files are not here to be measured")
    need = int(weights * (1 + _WORKING_SHARE)) + _WORKING_BYTES
    spare = room.free_bytes - need
    if need > room.free_bytes:
        fit, reason = Fit.TOO_BIG, f"needs {gigabytes(need)} of memory, {gigabytes(room.free_bytes)} are free"
    elif need > _TIGHT * room.free_bytes:
        fit, reason = Fit.TIGHT, f"only {gigabytes(spare)} to spare {room.where}"
    else:
        fit, reason = Fit.FITS, f"{gigabytes(spare)} to spare {room.where}"
    if fit is not Fit.TOO_BIG and not room.device and weights > _CPU_WEIGHTS:
        reason += "; without a graphics card it answers slowly"
    return Proposal(pair, fit, need, _download(pair), reason)


def propose(pairs: Sequence[Pair], room: Room) -> list[Proposal]:
    """The best pair for a machine and two alternatives, the best first.

    The best is the largest that fits with room to spare and, without a graphics card, still answers at reading speed;
    of one size the catalogue's own order counts. Alternatives are the next of that size and the best of smaller ones.
    """
    weighed = [weigh(pair, room) for pair in pairs]
    fits = [p for p in weighed if p.fit is Fit.FITS and (room.device or p.need_bytes <= _CPU_WEIGHTS)]
    fits = fits or [p for p in weighed if p.fit is Fit.TIGHT] or [p for p in weighed if _is_demo(p.pair)]
    real = [p for p in fits if not _is_demo(p.pair)] or fits
    by_class = sorted(real, key=lambda p: -p.pair.memory_gb)
    if not by_class:
        return []
    best = by_class[0]
    same = [p for p in by_class[1:] if p.pair.memory_gb == best.pair.memory_gb]
    smaller = [p for p in by_class[1:] if p.pair.memory_gb < best.pair.memory_gb]
    ordered = [best, *same[:1], *smaller, *same[1:]]
    return ordered[:N_PROPOSED]


def _weights(pair: Pair) -> int:
    """Bytes of both models, guessed where the catalogue does not know."""
    target, draft = _size(pair.target), _size(pair.draft) if pair.draft is not None else 0
    if target is None:
        return max(draft or 0, int(_CLASS_SHARE * pair.memory_gb * GB))
    return target + (draft if draft is not None else _USUAL_DRAFT)


def _download(pair: Pair) -> int:
    """Bytes that would come from the hub; 0 if that is not known before it is asked."""
    total = 0
    for source in pair.sources:
        if isinstance(source, HubModel):
            if source.size is None:
                return 0
            total += source.size
    return total


def _size(source: ModelSource) -> int | None:
    match source:
        case HubModel(size=size):
            return size
        case LocalModel(path):
            try:
                return path.stat().st_size
            except OSError:
                return None
        case DemoModel():
            return _DEMO_BYTES


def _is_demo(pair: Pair) -> bool:
    return isinstance(pair.target, DemoModel)
