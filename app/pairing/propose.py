"""Which pair for this machine? From its memory and how fast that is read, before anything is asked of the hub."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from app.catalog import Pair
from app.pairing.weight import model_bytes
from app.sizes import GB, gigabytes
from app.source import DemoModel, HubModel

USUAL_CONTEXT = 8192
_WORKING_SHARE = 0.08
_WORKING_BYTES = 500_000_000
"""KV caches for `USUAL_CONTEXT` and buffers of both models, before their headers are read: a share of the weights, and
what a small model needs too."""
_CLASS_SHARE = 0.85
"""Weights that a memory class holds, where sizes are not known."""
_TIGHT = 0.9
PLEASANT = 8.0
"""Tokens per second of plain decoding: people read five or six, and skim faster."""
_FAST = 30.0
"""From here on nobody waits, and the guess is the worse the faster the device."""
_USUAL_BYTES_PER_S = 40e9
"""Of main memory in a desktop, where it cannot be measured; for the order of pairs alone, never shown."""
N_PROPOSED = 3
_USUAL_DRAFT = 600_000_000
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
"""Tokens per second that a guess is rounded to: finer ones would pretend to know more."""


class Fit(Enum):
    """How a pair fits into the memory there is."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_BIG = "too big"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that models can be put into.

    Attributes:
        free_bytes: Of the cards, or of main memory where there is none, after what is left to everybody else.
        device: Its name; "" for main memory.
        bytes_per_s: Weights that are computed with per second, as it was measured here; None where it was not.
        at_least: Whether other programs took the processor meanwhile, so that it may be more.
    """

    free_bytes: int
    device: str = ""
    bytes_per_s: float | None = None
    at_least: bool = False

    @property
    def where(self) -> str:
        return f"on {self.device}" if self.device else "in main memory"

    @property
    def doubt(self) -> str:
        """Why pairs may be faster here than is guessed, in sentences; "" without a reason."""
        if not self.at_least:
            return ""
        return (
            "Other programs took the processor while the speed of this machine was measured, so pairs may answer "
            "faster than this says. It is measured again after an hour."
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pair held against the machine.

    Attributes:
        pair: The pair.
        fit: Whether it fits.
        need_bytes: Estimated memory for both models at `USUAL_CONTEXT`.
        download_bytes: Bytes of both files on the hub; 0 if they are not known or nothing is there.
        reason: Why, as a short clause.
        speed: Tokens per second to expect of plain decoding, a guess; None without grounds for one.
        slow: Whether that is less than people like to read, or must be taken to be.
    """

    pair: Pair
    fit: Fit
    need_bytes: int
    download_bytes: int
    reason: str
    speed: float | None = None
    slow: bool = False

    @property
    def word(self) -> str:
        """See `in_a_word`."""
        return in_a_word(self.fit, slow=self.slow)


def in_a_word(fit: Fit | None, *, slow: bool) -> str:
    """How it stands with a pair, the one word that every list and sentence has for it; "" before it is known.

    A slow pair is called slow however much memory is left: that it stays, while what is free changes by the minute.
    """
    if slow and fit in (Fit.FITS, Fit.TIGHT):
        return "slow"
    return fit.value if fit is not None else ""


def weigh(pair: Pair, room: Room) -> Proposal:
    """Hold one pair against the memory there is."""
    weights = _weights(pair)
    if not weights:
        by_hub = isinstance(pair.target, HubModel)
        reason = "only the hub knows its size" if by_hub else "its files are not here to be measured"
        return Proposal(pair, Fit.UNKNOWN, 0, 0, reason)
    need = int(weights * (1 + _WORKING_SHARE)) + _WORKING_BYTES
    rough = "" if model_bytes(pair.target) is not None else "about "
    if need > room.free_bytes:
        wanted, free = f"{rough}{gigabytes(need)}", gigabytes(room.free_bytes)
        reason = f"needs {wanted}, {free} are free for models"
        if wanted == free:
            reason = f"needs {gigabytes(need - room.free_bytes)} more than the {free} free for models"
        return Proposal(pair, Fit.TOO_BIG, need, _download(pair), reason)
    speed, slow = _speed(pair, room)
    tight = need > _TIGHT * room.free_bytes
    spare = f"{'only ' if tight else ''}{rough}{gigabytes(room.free_bytes - need)} to spare"
    if speed is not None and speed < _FAST:
        reason = f"{about(speed, at_least=room.at_least)}; {spare}"
    elif slow:
        reason = f"{spare} {room.where}; without a graphics card it answers slowly"
    else:
        reason = f"{spare} {room.where}"
    return Proposal(pair, Fit.TIGHT if tight else Fit.FITS, need, _download(pair), reason, speed, slow)


def propose(pairs: Sequence[Pair], room: Room) -> list[Proposal]:
    """The best pair for a machine and two alternatives, the best first.

    The best is the largest that fits with room to spare and should answer at a pleasant speed; where none does, the
    fastest that fits. Of one size the catalogue's own order counts. Alternatives are the next of that size, the best of
    smaller ones, and the smallest of those that fit but are slower than is pleasant.
    """
    weighed = [found for found in (weigh(pair, room) for pair in pairs) if not _is_demo(found.pair)]
    fits = [p for p in weighed if p.fit is Fit.FITS] or [p for p in weighed if p.fit is Fit.TIGHT]
    pleasant = sorted((p for p in fits if not p.slow), key=lambda p: -p.pair.memory_gb)
    slow = sorted((p for p in fits if p.slow), key=lambda p: bytes_per_token(p.pair))
    if not pleasant:
        return slow[:N_PROPOSED] or [weigh(pair, room) for pair in pairs if _is_demo(pair)]
    best = pleasant[0]
    same = [p for p in pleasant[1:] if p.pair.memory_gb == best.pair.memory_gb]
    smaller = [p for p in pleasant if p.pair.memory_gb < best.pair.memory_gb]
    slower = sorted(slow, key=lambda p: p.pair.memory_gb <= best.pair.memory_gb)
    ordered = [best, *same[:1], *smaller, *same[1:]]
    return [*ordered[: N_PROPOSED - len(slower[:1])], *slower][:N_PROPOSED]


def why(proposals: Sequence[Proposal]) -> str:
    """Why the first of the proposals is the first, in a sentence; "" without any."""
    if not proposals:
        return ""
    best = proposals[0]
    name, at = best.pair.name, f", {about(best.speed)}" if best.speed is not None and best.speed < _FAST else ""
    if _is_demo(best.pair):
        return f"{name} is all that fits into this memory."
    if best.slow:
        return f"Nothing that fits should answer as fast as people read; {name} comes nearest{at}."
    if any(p.slow and p.pair.memory_gb > best.pair.memory_gb for p in proposals):
        return f"{name} is the largest that should answer as fast as people read{at}; larger ones are slower."
    how = ", though only just" if best.fit is Fit.TIGHT else " with room to spare"
    return f"{name} is the largest that fits{how}{at}."


def about(speed: float, *, at_least: bool = False) -> str:
    """A guessed speed in words that say so; see `Room.at_least`."""
    if speed < 0.5:
        return "under 1 token/s"
    guess = f"about {speed:.0f} tokens/s" if speed >= 1.5 else "about a token a second"
    return f"{guess} or more" if at_least else guess


def _speed(pair: Pair, room: Room) -> tuple[float | None, bool]:
    """Tokens per second to expect, where that was measured, and whether they come slowly."""
    if room.bytes_per_s is not None:
        speed = _guess(room.bytes_per_s / bytes_per_token(pair))
        return speed, speed < PLEASANT
    return None, not room.device and _USUAL_BYTES_PER_S / bytes_per_token(pair) < PLEASANT


def _guess(speed: float) -> float:
    """A speed as roughly as it is known; whatever is said of it is said of this."""
    if not 0.5 <= speed < _FAST:
        return speed
    return float(min(_STEPS, key=lambda step: abs(math.log(speed / step))))


def bytes_per_token(pair: Pair) -> int:
    """What the target reads for one token: all of its weights, or what the pair says."""
    return pair.bytes_per_token or model_bytes(pair.target) or _weights(pair)


def _weights(pair: Pair) -> int:
    """Bytes of both models, guessed where the catalogue does not know."""
    target, draft = model_bytes(pair.target), model_bytes(pair.draft) if pair.draft is not None else 0
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


def _is_demo(pair: Pair) -> bool:
    return isinstance(pair.target, DemoModel)
