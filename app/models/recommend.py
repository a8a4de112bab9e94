"""Recommend pairs by memory and bandwidth, without network access."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from app.core.units import gigabytes
from app.engine.drafting_report import rate
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.pair_size import is_known, model_bytes, needed, weights
from app.models.registry import Registered
from app.models.source import HubModel

USUAL_CONTEXT = DEFAULT_CONTEXT
_TIGHT = 0.9
PLEASANT = 8.0
"""Tokens per second of decoding without drafts: people read five or six, and skim faster."""
_FAST = 30.0
"""From here on no one waits, and the guess is the worse the faster the device."""
_USUAL_BYTES_PER_S = 40e9
"""Of RAM in a desktop, where it cannot be measured; for the order of pairs alone, never shown."""
N_PROPOSED = 3
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
"""Tokens per second that a guess is rounded to: finer ones would pretend to know more."""


class Fit(Enum):
    """Fit of a pair in memory."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_BIG = "too big"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that models can be put into.

    Attributes:
        free_bytes: Of the cards, or of RAM where there is none, after what is left to everybody else.
        device: Its name; "" for RAM.
        bytes_per_s: Weights that are computed with per second, as it was measured here; None where it was not.
        at_least: Whether other programs took the processor meanwhile, so that it may be more.
        on_card: Whether it is a card's own memory, beside RAM.
        n_ctx: Tokens of context that a pair is to have there.
        measured: Tokens per second without drafts of pairs that answered here, by name.
    """

    free_bytes: int
    device: str = ""
    bytes_per_s: float | None = None
    at_least: bool = False
    on_card: bool = False
    n_ctx: int = USUAL_CONTEXT
    measured: Mapping[str, float] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"on {self.device}" if self.device else "in RAM"

    @property
    def doubt(self) -> str:
        """Why pairs may be faster here than is guessed, in sentences; "" without a reason."""
        if not self.at_least:
            return ""
        return (
            "Other programs used the processor while the speed of this machine was measured, so pairs may answer "
            "faster than this says. It is measured again after an hour."
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pair held against the machine.

    Attributes:
        pair: The pair.
        fit: Whether it fits.
        need_bytes: Memory for both models with the context that is meant, a guess where their headers are not known.
        download_bytes: Bytes of both files on the hub; 0 if they are not known or nothing is there.
        reason: Why, as a short clause.
        speed: Expected tokens per second without drafts, measured or estimated; None if unknown.
        is_measured: Whether this pair itself was measured here.
        slow: Whether that is less than people like to read, or must be taken to be.
        is_largest: Of the first that is proposed, whether no other one that would do as well takes more memory.
        larger_have_no_disk: Of the same, whether larger ones only lack room on the disk.
    """

    pair: Pair
    fit: Fit
    need_bytes: int
    download_bytes: int
    reason: str
    speed: float | None = None
    is_measured: bool = False
    slow: bool = False
    is_largest: bool = True
    larger_have_no_disk: bool = False

    @property
    def word(self) -> str:
        """See `in_a_word`."""
        return in_a_word(self.fit, slow=self.slow)

    def pace(self, *, at_least: bool = False) -> str:
        """Return the expected speed as text; "" if unknown, or too fast to matter.

        Args:
            at_least: See `Room.at_least`.
        """
        if self.speed is None or (self.speed >= _FAST and not self.is_measured):
            return ""
        return rate(self.speed) if self.is_measured else about(self.speed, at_least=at_least)


def in_a_word(fit: Fit | None, *, slow: bool) -> str:
    """Return how it stands with a pair, the one word that every list and sentence has for it; "" before it is known.

    A slow pair is called slow however much memory is left: that it stays, while what is free changes by the minute.
    """
    if slow and fit in (Fit.FITS, Fit.TIGHT):
        return "slow"
    return fit.value if fit is not None else ""


def weigh(pair: Pair, room: Room) -> Proposal:
    """Hold one pair against the memory there is."""
    if not weights(pair):
        by_hub = isinstance(pair.target, HubModel)
        reason = "only the hub knows its size" if by_hub else "its files are not here to be measured"
        return Proposal(pair, Fit.UNKNOWN, 0, 0, reason)
    need = needed(pair, room.n_ctx, on_card=room.on_card)
    rough = "" if is_known(pair) else "about "
    if need > room.free_bytes:
        wanted, free = f"{rough}{gigabytes(need)}", gigabytes(room.free_bytes)
        reason = f"needs {wanted}, {free} are free for models"
        if wanted == free:
            reason = f"needs {gigabytes(need - room.free_bytes)} more than the {free} free for models"
        return Proposal(pair, Fit.TOO_BIG, need, _download(pair), reason)
    speed, slow = _speed(pair, room)
    is_measured = pair.name in room.measured
    tight = need > _TIGHT * room.free_bytes
    spare = f"{'only ' if tight else ''}{rough}{gigabytes(room.free_bytes - need)} to spare"
    found = Proposal(pair, Fit.TIGHT if tight else Fit.FITS, need, _download(pair), "", speed, is_measured, slow)
    if pace := found.pace(at_least=room.at_least):
        reason = f"{pace}; {spare}"
    elif slow:
        reason = f"{spare} {room.where}; without a GPU it answers slowly"
    else:
        reason = f"{spare} {room.where}"
    return replace(found, reason=reason)


def longest_context(pair: Pair, room: Room) -> int:
    """The longest context that a pair was made for and that memory has room for, tokens; 0 where that is not known."""
    if pair.working is None or not is_known(pair):
        return 0
    return min(pair.context, pair.working.longest(room.free_bytes - weights(pair), on_gpu=room.on_card))


def propose(pairs: Sequence[Pair], room: Room, has_disk: Callable[[Pair], bool] = lambda _: True) -> list[Proposal]:
    """The best pair for a machine and two alternatives, the best first.

    The best is the largest that fits with room to spare and should answer at a pleasant speed; where none does, the
    fastest that fits. Of one size the catalogue's own order counts. Alternatives are the next of that size, the best of
    smaller ones, and the smallest of those that fit but are slower than is pleasant.

    Args:
        pairs: All there are.
        room: What they are held against.
        has_disk: Whether the disk has room for what is still to come of a pair. Those that lack it are proposed only
            where all do.
    """
    weighed = [found for found in (weigh(pair, room) for pair in pairs) if not found.pair.is_demo]
    fits = [p for p in weighed if p.fit is Fit.FITS] or [p for p in weighed if p.fit is Fit.TIGHT]
    on_disk = [p for p in fits if has_disk(p.pair)]
    if not on_disk and (tight := [p for p in weighed if p.fit is Fit.TIGHT and has_disk(p.pair)]):
        on_disk = tight
    found = _in_order(on_disk or fits, [pair for pair in pairs if pair.is_demo], room)
    if not found:
        return []
    need = found[0].need_bytes
    others = [p for p in on_disk or fits if p.slow == found[0].slow and p.need_bytes > need]
    beyond = [p for p in fits if p not in on_disk and not p.slow and p.need_bytes > need] if on_disk else []
    return [replace(found[0], is_largest=not others, larger_have_no_disk=bool(beyond)), *found[1:]]


def _in_order(fits: Sequence[Proposal], demos: Sequence[Pair], room: Room) -> list[Proposal]:
    """Return what `propose` does with those that fit."""
    pleasant = sorted((p for p in fits if not p.slow), key=lambda p: -p.pair.memory_gb)
    slow = sorted((p for p in fits if p.slow), key=lambda p: bytes_per_token(p.pair))
    if not pleasant:
        return slow[:N_PROPOSED] or [weigh(pair, room) for pair in demos]
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
    name, at = best.pair.name, f", {pace}" if (pace := best.pace()) else ""
    if best.pair.is_demo:
        return f"{name} is all that fits into this memory."
    if best.slow:
        return f"Nothing that fits should answer as fast as people read; {name} comes nearest{at}."
    rank = "the largest that" if best.is_largest else "the first choice among the largest that"
    disk = "; the disk has no room for larger ones" if best.larger_have_no_disk else ""
    if any(p.slow and p.pair.memory_gb > best.pair.memory_gb for p in proposals):
        larger = disk or "; larger ones are slower"
        return f"{name} is {rank} should answer as fast as people read{at}{larger}."
    fits = "fits" if best.is_largest else "fit"
    how = ", though only just" if best.fit is Fit.TIGHT else " with room to spare"
    return f"{name} is {rank} {fits}{how}{at}{disk}."


def about(speed: float, *, at_least: bool = False) -> str:
    """A guessed speed in words that say so; see `Room.at_least`."""
    if speed < 0.5:
        return "under 1 tok/s"
    guess = f"about {max(1.0, speed):.0f} tok/s"
    return f"{guess} or more" if at_least else guess


def _speed(pair: Pair, room: Room) -> tuple[float | None, bool]:
    """Return the expected tokens per second, if known, and whether the pair is slow."""
    if (measured := room.measured.get(pair.name)) is not None:
        return measured, measured < PLEASANT
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
    """Return what the target reads for one token: all of its weights, or what the pair says."""
    return pair.bytes_per_token or model_bytes(pair.target) or weights(pair)


def _download(pair: Pair) -> int:
    """Bytes that would come from the hub; 0 if that is not known before it is asked."""
    total = 0
    for source in pair.sources:
        if isinstance(source, HubModel):
            if source.size is None:
                return 0
            total += source.size
    return total


@dataclass(frozen=True, slots=True)
class Standing:
    """Status of a pair.

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
