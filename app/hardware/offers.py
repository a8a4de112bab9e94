"""Options for a pair that does not fit: candidate settings, each tried by the planner, with gain and cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from app.core.units import memory_size
from app.hardware.devices import fast_devices
from app.hardware.fit import MAIN, PlacementRequest, Plan, Rooms, plan
from app.hardware.recommend import Proposal
from app.models.memory_estimate import ModelMemory
from app.settings.layers import Layer
from app.settings.placement import ALL_LAYERS, WIDE_KV, experts_in_ram

_MIN_CTX = 1024
"""Tokens; a shorter context holds no conversation."""
_USEFUL_CTX = 2048
_BITS_PER_WEIGHT = {"Q8_0": 8.5, "Q6_K": 6.6, "Q5_K_M": 5.7, "Q4_K_M": 4.85, "Q3_K_M": 3.9}
"""Bits per weight for a model of 8 billion weights, from llama.cpp's quantize tool; Q2_K answers too poorly."""
_NOTICEABLE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Offer:
    """One option: the change and its disadvantage as phrases, and roughly the memory that it frees.

    Attributes:
        settings: The settings to change; empty if another pair or file is needed.
        suffices: The pair fits with this change alone.
        pair: Name of the pair to use instead.
    """

    what: str
    gain_bytes: int
    cost: str
    settings: Layer
    suffices: bool
    pair: str | None = None

    @property
    def gain(self) -> str:
        return f"frees about {memory_size(self.gain_bytes)}{'' if self.suffices else ' (not enough alone)'}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A changed pair that the planner tries, in words and as settings."""

    what: str
    cost: str
    settings: Layer
    target: ModelMemory
    draft: ModelMemory | None
    request: PlacementRequest

    def plan(self, rooms: Rooms) -> Plan:
        return plan(self.target, self.draft, rooms, self.request)


def offers(
    target: ModelMemory,
    draft: ModelMemory | None,
    rooms: Rooms,
    request: PlacementRequest | None = None,
    *,
    smaller: Proposal | None = None,
    flash_attention: str = "auto",
) -> tuple[Offer, ...]:
    """Return the options for a pair that does not fit, those first that cost the answers least; () if it fits.

    For the other arguments see `plan`.

    Args:
        smaller: The largest known pair that fits.
        flash_attention: Its setting; a quantized cache needs it.
    """
    pair = _Candidate("", "", {}, target, draft, request or PlacementRequest())
    now = pair.plan(rooms)
    if now.fits:
        return ()
    found = [
        _first_that_fits(_experts_in_ram(pair, now, rooms), now, rooms),
        _first_that_fits(_shorter_contexts(pair), now, rooms),
        _first_that_fits(_quantized_caches(pair, flash_attention), now, rooms),
        _first_that_fits(_smaller_quantizations(pair), now, rooms),
        _first_that_fits(_other_draft_devices(pair, now, rooms), now, rooms),
        _first_that_fits(_without_draft(pair), now, rooms),
    ]
    if smaller is not None:
        gain = target.total + (draft.total if draft is not None else 0) - smaller.need_bytes
        title, name = f"a smaller pair: {smaller.pair.title}", smaller.pair.name
        found.append(Offer(title, gain, "a smaller model answers", {}, True, name))
    partial = _first_that_fits(_fewer_gpu_layers(pair, now), now, rooms)
    found.append(partial if partial is not None and partial.suffices else None)
    return tuple(offer for offer in found if offer is not None and offer.gain_bytes > 0)


def _first_that_fits(candidates: Iterable[_Candidate], now: Plan, rooms: Rooms) -> Offer | None:
    """Return the first candidate that fits, else the last one; None without any."""
    tried = None
    for candidate in candidates:
        tried = candidate, candidate.plan(rooms)
        if tried[1].fits:
            break
    if tried is None:
        return None
    made, planned = tried
    return Offer(made.what, _freed(now, planned, rooms), made.cost, made.settings, planned.fits)


def _freed(now: Plan, planned: Plan, rooms: Rooms) -> int:
    """Return the bytes that a plan frees where memory is lacking: on GPUs with their own, else in RAM."""
    gpus = {room.name for room in rooms if room.has_own_memory}
    short = {load.device for load in now.loads if load.lacking} & gpus or {MAIN}
    before, after = (sum(load.need_bytes for load in one.loads if load.device in short) for one in (now, planned))
    return before - after


def _experts_in_ram(pair: _Candidate, now: Plan, rooms: Rooms) -> Iterator[_Candidate]:
    """Yield the experts of as many layers in RAM as must be, or of all if the user chose a number that does not fit."""
    n_layers, request = len(pair.target.experts), pair.request
    if now.target.devices == (MAIN,) or request.gpu_layers == 0 or not n_layers:
        return
    free = plan(pair.target, pair.draft, rooms, replace(request, cpu_experts=None))
    n = free.target.cpu_experts if free.fits else n_layers
    what, cost = experts_in_ram(n, n_layers), "the CPU computes these experts, more slowly"
    yield replace(pair, what=what, cost=cost, settings={"model.n_cpu_moe": n}, request=replace(request, cpu_experts=n))


def _shorter_contexts(pair: _Candidate) -> Iterator[_Candidate]:
    """Yield powers of two, the longest first, and a useful length at the end in case none fits."""
    lengths = [1 << n for n in reversed(range(32)) if _MIN_CTX <= 1 << n < pair.target.n_ctx]
    useful = [n for n in lengths if n <= _USEFUL_CTX] or lengths
    for n_ctx in [*lengths, *useful[:1]]:
        yield replace(
            pair,
            what=f"a context of {n_ctx:,} tokens",
            cost=f"{n_ctx / pair.target.n_ctx:.0%} of the requested context",
            settings={"model.ctx": n_ctx},
            target=pair.target.with_context(n_ctx),
            draft=pair.draft.with_context(n_ctx) if pair.draft is not None else None,
        )


def _quantized_caches(pair: _Candidate, flash_attention: str) -> Iterator[_Candidate]:
    target, draft = _in_8_bits(pair.target), _in_8_bits(pair.draft)
    settings: Layer = {"model.kv_type": "q8_0"} if target is not None else {}
    if draft is not None:
        settings = {**settings, "draft.kv_type": "q8_0"}
    if settings and flash_attention == "off":
        settings = {**settings, "model.flash_attn": "auto"}
    cost = "answers may differ slightly; long prompts are read more slowly"
    what, target, draft = "8-bit KV caches (q8_0)", target or pair.target, draft or pair.draft
    yield replace(pair, what=what, cost=cost, settings=settings, target=target, draft=draft)


def _in_8_bits(need: ModelMemory | None) -> ModelMemory | None:
    if need is None or need.kv_type not in WIDE_KV or not need.can_quantize_cache:
        return None
    return need.with_kv_type("q8_0")


def _smaller_quantizations(pair: _Candidate) -> Iterator[_Candidate]:
    """Yield the usual quantizations of the target, the largest first."""
    for name, bits in _BITS_PER_WEIGHT.items():
        size = int((pair.target.n_parameters or 0) * bits / 8)
        if 0 < size < _NOTICEABLE_SHARE * pair.target.weights:
            what, cost = f"{pair.target.name} as {name}", "another download; slightly lower quality"
            yield replace(pair, what=what, cost=cost, target=_requantized(pair.target, size))


def _requantized(need: ModelMemory, weights: int) -> ModelMemory:
    """Return the memory with another quantization, in which every part of the weights is smaller alike."""
    share = weights / max(1, need.weights)
    return replace(
        need,
        weights=weights,
        embedding=int(share * need.embedding),
        output=int(share * need.output),
        repeated=int(share * need.repeated),
        expert_copy=int(share * need.expert_copy),
        blocks=tuple(int(share * n) for n in need.blocks),
        experts=tuple(int(share * n) for n in need.experts),
    )


def _other_draft_devices(pair: _Candidate, now: Plan, rooms: Rooms) -> Iterator[_Candidate]:
    if pair.draft is None or now.draft is None or pair.draft.follows_target:
        return
    here = now.draft.devices[0]
    if here == MAIN or now.draft.gpu_layers == 0:
        return
    for name in [*(room.name for room in fast_devices(rooms) if room.name != here), MAIN]:
        what = f"the draft on {'the CPU' if name == MAIN else name}"
        request = replace(pair.request, draft_gpu_layers=ALL_LAYERS, devices=now.target.devices, draft_device=name)
        yield replace(pair, what=what, cost="slower drafts", settings={"draft.device": (name,)}, request=request)


def _without_draft(pair: _Candidate) -> Iterator[_Candidate]:
    if pair.draft is not None:
        # Snapshots of the target's state only serve drafts.
        target = replace(pair.target, snapshots=0)
        yield replace(
            pair, what="no draft", cost="no speedup", settings={"draft.mode": "off"}, target=target, draft=None
        )


def _fewer_gpu_layers(pair: _Candidate, now: Plan) -> Iterator[_Candidate]:
    """Yield fewer and fewer layers on the GPU, first beside the draft and then with the draft on the CPU."""
    request, n_layers = pair.request, pair.target.n_layers
    if now.target.devices == (MAIN,) or request.gpu_layers == 0:
        return
    most = n_layers if request.gpu_layers == ALL_LAYERS else request.gpu_layers - 1
    draft_moves = [False, True] if pair.draft is not None and request.draft_device is None else [False]
    for moves in draft_moves:
        settings: Layer = {"draft.device": (MAIN,)} if moves else {}
        for n in range(most, -1, -1):
            yield replace(
                pair,
                what=f"{n} of {n_layers} layers on the GPU{', the draft on the CPU' if moves else ''}",
                cost="the CPU computes the rest, many times slower",
                settings={"model.gpu_layers": n, **settings},
                request=replace(request, gpu_layers=n, draft_device=MAIN if moves else request.draft_device),
            )
