"""Options for a pair that does not fit, with the gain and the cost of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.hardware.device_room import MAIN, DeviceRoom, fast_devices
from app.hardware.fit import Plan, Wishes, offloaded, plan
from app.models.memory_estimate import ModelMemory
from app.settings.placement import ALL_LAYERS

_SHORTEST = 1024
"""Tokens; below, a conversation ends before it began."""
_USEFUL = 2048
_BITS = {"Q8_0": 8.5, "Q6_K": 6.6, "Q5_K_M": 5.7, "Q4_K_M": 4.85, "Q3_K_M": 3.9}
"""Bits of a weight in llama.cpp's quantizations, from its quantize tool's table for a model of 8 billion weights;
Q2_K is not offered: what it saves it takes from the answers."""
_NOTICEABLE = 0.95
_WIDE_KV = ("f32", "f16", "bf16")


@dataclass(frozen=True, slots=True)
class Offer:
    """One way out.

    Attributes:
        what: What would be done, as a phrase.
        gain_bytes: Memory that it frees where it is short, roughly.
        cost: What it costs, in words.
        flags: The flags that take it; () where another file is needed first.
        suffices: Whether the pair fits with this alone.
    """

    what: str
    gain_bytes: int
    cost: str
    flags: tuple[str, ...]
    suffices: bool


@dataclass(frozen=True, slots=True)
class Smaller:
    """A pair that might be taken instead: its name, a title for people, and the bytes that it needs."""

    name: str
    title: str
    need_bytes: int


def offers(
    target: ModelMemory,
    draft: ModelMemory | None,
    rooms: tuple[DeviceRoom, ...],
    wishes: Wishes | None = None,
    *,
    smaller: Smaller | None = None,
    flash_attention: str = "auto",
) -> tuple[Offer, ...]:
    """The ways out of a plan that does not fit, those first that cost the answers least; () if it fits.

    Args:
        target: As for `plan`.
        draft: As for `plan`.
        rooms: As for `plan`.
        wishes: As for `plan`.
        smaller: The largest known pair that fits.
        flash_attention: What was asked for; a quantized cache needs it.
    """
    wishes = wishes or Wishes()
    now = plan(target, draft, rooms, wishes)
    if now.fits:
        return ()
    finder = _Finder(target, draft, rooms, wishes, now)
    return tuple(
        offer
        for offer in (
            finder.context(),
            finder.kv_type(flash_attention),
            finder.quantization(),
            *finder.draft_elsewhere(),
            finder.pair(smaller),
            finder.partial(),
        )
        if offer is not None and offer.gain_bytes > 0
    )


@dataclass(frozen=True, slots=True)
class _Finder:
    target: ModelMemory
    draft: ModelMemory | None
    rooms: tuple[DeviceRoom, ...]
    wishes: Wishes
    now: Plan

    def _fits(
        self, target: ModelMemory | None = None, draft: ModelMemory | None = None, wishes: Wishes | None = None
    ) -> bool:
        return plan(target or self.target, draft or self.draft, self.rooms, wishes or self.wishes).fits

    def context(self) -> Offer | None:
        """The longest power of two that fits; if none does, one that a conversation can still be held in."""
        lengths = [n for n in _halves(self.target.n_ctx) if n >= _SHORTEST]
        if not lengths:
            return None
        fitting = next((n for n in lengths if self._fits(*self._at(n))), None)
        n_ctx = fitting or next((n for n in lengths if n <= _USEFUL), lengths[-1])
        target, draft = self._at(n_ctx)
        return Offer(
            f"a context of {n_ctx:,} tokens",
            self.target.kv - target.kv + (self.draft.kv - draft.kv if self.draft and draft else 0),
            f"conversations of {n_ctx / self.target.n_ctx:.0%} of the length",
            ("--ctx", str(n_ctx)),
            fitting is not None,
        )

    def _at(self, n_ctx: int) -> tuple[ModelMemory, ModelMemory | None]:
        return self.target.with_context(n_ctx), self.draft.with_context(n_ctx) if self.draft is not None else None

    def kv_type(self, flash_attention: str) -> Offer | None:
        """Caches of 8 bits: the draft's alone, which changes no answer, or the target's, or both; the first that fits,
        and where none does all that can be had."""
        target = _in_8_bits(self.target)
        draft = _in_8_bits(self.draft) if self.draft is not None else None
        choices = [choice for choice in ((None, draft), (target, None), (target, draft)) if any(choice)]
        if not choices:
            return None
        fitting = next((choice for choice in choices if self._fits(*choice)), None)
        target, draft = fitting or choices[-1]
        gain = self.target.kv - target.kv if target is not None else 0
        gain += self.draft.kv - draft.kv if self.draft is not None and draft is not None else 0
        flags = [
            *(("--kv-type", "q8_0") if target is not None else ()),
            *(("--draft-kv-type", "q8_0") if draft is not None else ()),
            *(("--flash-attn", "auto") if flash_attention == "off" else ()),
        ]
        return Offer(_caches(target, draft), gain, _cost_of(target), tuple(flags), fitting is not None)

    def quantization(self) -> Offer | None:
        """The largest usual one that fits, of the target."""
        if not self.target.n_parameters:
            return None
        sizes = {
            name: int(self.target.n_parameters * bits / 8)
            for name, bits in _BITS.items()
            if self.target.n_parameters * bits / 8 < _NOTICEABLE * self.target.weights
        }
        if not sizes:
            return None
        fitting = next((name for name, size in sizes.items() if self._fits(replace(self.target, weights=size))), None)
        name = fitting or list(sizes)[-1]
        return Offer(
            f"{name} of {self.target.name}",
            self.target.weights - sizes[name],
            "another download, and answers of somewhat lower quality",
            self._other_target(f"{self.target.repo}:{name}") if self.target.repo else (),
            fitting is not None,
        )

    def _other_target(self, target: str) -> tuple[str, ...]:
        """Both models by name: naming the target alone would mean to go without a draft."""
        if self.draft is None or not self.draft.source:
            return ("--target", target)
        return ("--target", target, "--draft", self.draft.source)

    def draft_elsewhere(self) -> Iterator[Offer]:
        """The draft on the next device, or without one."""
        if self.draft is None or self.now.draft is None:
            return
        here = self.now.draft.devices[0]
        on_main = here == MAIN or self.now.draft.gpu_layers == 0
        gain = self.draft.total if on_main else self.draft.total - self.draft.always_ram
        if not on_main:
            others = [room.name for room in fast_devices(self.rooms) if room.name != here] + [MAIN]
            wishes = [
                replace(self.wishes, draft_device=name, draft_gpu_layers=ALL_LAYERS, devices=self.now.target.devices)
                for name in others
            ]
            fitting = next((wish for wish in wishes if self._fits(wishes=wish)), None)
            name = fitting.draft_device if fitting is not None else MAIN
            where = "the CPU" if name == MAIN else name
            yield Offer(f"the draft on {where}", gain, "slower drafts", ("--draft-device", name), fitting is not None)
        # Earlier states are kept for the draft model's sake.
        alone = plan(replace(self.target, snapshots=0), None, self.rooms, self.wishes).fits
        yield Offer(
            "no draft",
            gain + self.target.snapshots,
            "decoding without drafts, without the gain of drafts",
            ("--no-draft",),
            alone,
        )

    def pair(self, smaller: Smaller | None) -> Offer | None:
        if smaller is None:
            return None
        total = self.target.total + (self.draft.total if self.draft is not None else 0)
        return Offer(
            f"a smaller pair: {smaller.title}",
            total - smaller.need_bytes,
            "another, smaller model answers",
            ("--pair", smaller.name),
            True,
        )

    def partial(self) -> Offer | None:
        """As many layers as there is room for, the rest on the processor; the draft too, if it must."""
        if self.now.target.devices == (MAIN,) or self.wishes.gpu_layers == 0:
            return None
        most = self.target.n_layers if self.wishes.gpu_layers == ALL_LAYERS else self.wishes.gpu_layers - 1
        tries: list[tuple[Wishes, tuple[str, ...]]] = [(self.wishes, ())]
        if self.draft is not None and not self.wishes.draft_device:
            tries.append((replace(self.wishes, draft_device=MAIN), ("--draft-device", MAIN)))
        for wishes, flags in tries:
            for n in range(most, -1, -1):
                if self._fits(wishes=replace(wishes, gpu_layers=n)):
                    return self._in_part(n, flags)
        return None

    def _in_part(self, n: int, flags: tuple[str, ...]) -> Offer:
        left = self.target.layers - offloaded(self.target, n)
        draft = self.draft.total if self.draft is not None and flags else 0
        return Offer(
            f"{n} of {self.target.n_layers} layers on the GPU{', the draft on the CPU' if flags else ''}",
            left + draft,
            "the CPU computes the rest, many times slower",
            ("--gpu-layers", str(n), *flags),
            True,
        )


def _in_8_bits(need: ModelMemory) -> ModelMemory | None:
    """The need with a cache of 8 bits; None where it has one already, or cannot."""
    return need.with_kv_type("q8_0") if need.kv_type in _WIDE_KV and need.can_quantize_cache else None


def _caches(target: ModelMemory | None, draft: ModelMemory | None) -> str:
    if target is None:
        return "the draft's KV cache in 8 bits (q8_0)"
    return f"{'both KV caches in' if draft is not None else 'a KV cache of'} 8 bits (q8_0)"


def _cost_of(target: ModelMemory | None) -> str:
    if target is None:
        return "drafts may be a little worse; long contexts are read more slowly"
    return "answers may differ in a word here and there; long contexts are read more slowly"


def _halves(n_ctx: int) -> Iterator[int]:
    """Powers of two below a length, the longest first."""
    n = 1 << max(0, (n_ctx - 1).bit_length() - 1)
    while n:
        if n < n_ctx:
            yield n
        n //= 2
