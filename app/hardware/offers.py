"""Options for a pair that does not fit: candidate settings, each tried by the planner, with gain and cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from app.core.units import memory_size
from app.hardware.devices import fast_devices
from app.hardware.fit import PairNeeds, Plan
from app.hardware.recommend import Proposal
from app.models.memory_estimate import ModelMemory
from app.settings.layers import Layer
from app.settings.placement import ALL_LAYERS, CPU, WIDE_KV, experts_in_ram

_MIN_CTX = 1024
"""Shortest useful context in tokens."""
_USEFUL_CTX = 2048
_BITS_PER_WEIGHT = {"Q8_0": 8.5, "Q6_K": 6.6, "Q5_K_M": 5.7, "Q4_K_M": 4.85, "Q3_K_M": 3.9}
"""Bits per weight for a model of 8 billion weights, from llama.cpp's quantize tool; Q2_K answers too poorly."""
_NOTICEABLE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Offer:
    """An option: the change and its disadvantage as phrases, and approximately the freed memory.

    Attributes:
        settings: The settings to change; empty if another pair or file is needed.
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


_Candidate = tuple[str, str, Layer | ModelMemory]
"""A change to try: its words, its cost, and the settings or the other target that it needs."""


def offers(pair: PairNeeds, *, smaller: Proposal | None = None, flash_attention: str = "auto") -> tuple[Offer, ...]:
    """Return the options for a pair that does not fit, least harmful first; () if it fits.

    Args:
        flash_attention: The setting; a quantized cache needs flash attention.
    """
    now = pair.plan()
    if now.fits:
        return ()
    found = [
        _first_that_fits(pair, now, candidates)
        for candidates in (
            _experts_in_ram(pair, now),
            _shorter_contexts(pair),
            _quantized_caches(pair, flash_attention),
            _smaller_quantizations(pair.target),
            _other_draft_devices(pair, now),
            [("no draft", "no speedup", {"draft.mode": "off"})] if pair.draft is not None else (),
        )
    ]
    if smaller is not None:
        gain, title = pair.total - smaller.need_bytes, f"a smaller pair: {smaller.pair.title}"
        found.append(Offer(title, gain, "a smaller model answers", {}, True, smaller.pair.name))
    partial = _first_that_fits(pair, now, _fewer_gpu_layers(pair, now))
    found.append(partial if partial is not None and partial.suffices else None)
    return tuple(offer for offer in found if offer is not None and offer.gain_bytes > 0)


def _first_that_fits(pair: PairNeeds, now: Plan, candidates: Iterable[_Candidate]) -> Offer | None:
    offer = None
    for what, cost, change in candidates:
        settings = {} if isinstance(change, ModelMemory) else change
        changed = replace(pair, target=change) if isinstance(change, ModelMemory) else pair.over(settings)
        planned = changed.plan()
        offer = Offer(what, _freed(pair, now, planned), cost, settings, planned.fits)
        if planned.fits:
            break
    return offer


def _freed(pair: PairNeeds, now: Plan, planned: Plan) -> int:
    """Return the bytes that a plan frees where memory is lacking: on GPUs with their own memory, or in RAM."""
    gpus = {room.name for room in pair.rooms if room.has_own_memory}
    short = {load.device for load in now.loads if load.lacking} & gpus or {CPU}
    before, after = (sum(load.need_bytes for load in one.loads if load.device in short) for one in (now, planned))
    return before - after


def _experts_in_ram(pair: PairNeeds, now: Plan) -> Iterator[_Candidate]:
    """Yield the experts of as many layers in RAM as needed, or of all if the user's number does not fit."""
    n_layers = len(pair.target.experts)
    if n_layers and not now.target.on_cpu:
        free = pair.over({"model.n_cpu_moe": None}).plan()
        n = free.n_in_ram if free.fits else n_layers
        yield experts_in_ram(n, n_layers), "the CPU computes these experts, more slowly", {"model.n_cpu_moe": n}


def _shorter_contexts(pair: PairNeeds) -> Iterator[_Candidate]:
    asked = pair.target.n_ctx
    lengths = [1 << n for n in reversed(range(32)) if _MIN_CTX <= 1 << n < asked]
    useful = [n for n in lengths if n <= _USEFUL_CTX] or lengths
    for n_ctx in [*lengths, *useful[:1]]:
        yield f"a context of {n_ctx:,} tokens", f"{n_ctx / asked:.0%} of the requested context", {"model.ctx": n_ctx}


def _quantized_caches(pair: PairNeeds, flash_attention: str) -> Iterator[_Candidate]:
    settings: Layer = {
        name: "q8_0"
        for name, need in (("model.kv_type", pair.target), ("draft.kv_type", pair.draft))
        if need is not None and need.kv_type in WIDE_KV and need.can_quantize_cache
    }
    if settings and flash_attention == "off":
        settings = {**settings, "model.flash_attn": "auto"}
    yield "8-bit KV caches (q8_0)", "answers may differ slightly; long prompts are read more slowly", settings


def _smaller_quantizations(target: ModelMemory) -> Iterator[_Candidate]:
    for name, bits in _BITS_PER_WEIGHT.items():
        size = int((target.n_parameters or 0) * bits / 8)
        if 0 < size < _NOTICEABLE_SHARE * target.weights:
            yield f"{target.name} as {name}", "another download; slightly lower quality", _requantized(target, size)


def _requantized(need: ModelMemory, weights: int) -> ModelMemory:
    """Scale the memory to another quantization, which shrinks every part of the weights equally."""
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


def _other_draft_devices(pair: PairNeeds, now: Plan) -> Iterator[_Candidate]:
    if pair.draft is None or now.draft is None or pair.draft.follows_target or now.draft.on_cpu:
        return
    for name in [*(room.name for room in fast_devices(pair.rooms) if room.name not in now.draft.devices), CPU]:
        yield f"the draft on {'the CPU' if name == CPU else name}", "slower drafts", {"draft.device": (name,)}


def _fewer_gpu_layers(pair: PairNeeds, now: Plan) -> Iterator[_Candidate]:
    """Yield fewer and fewer layers on the GPU, first with the draft on the GPU, then on the CPU."""
    asked, n_layers = pair.asked, pair.target.n_layers
    if now.target.on_cpu:
        return
    most = n_layers if asked.n_gpu_layers == ALL_LAYERS else asked.n_gpu_layers - 1
    can_move = now.draft is not None and not (pair.draft_asked.devices or now.draft.on_cpu)
    for moves in [False, True] if can_move else [False]:
        settings: Layer = {"draft.device": (CPU,)} if moves else {}
        # Without any layer on the GPU, the draft is on the CPU too.
        for n in range(most, -1 if moves == can_move else 0, -1):
            what = f"{n} of {n_layers} layers on the GPU{', the draft on the CPU' if moves else ''}"
            yield what, "the CPU computes the rest, many times slower", {"model.gpu_layers": n, **settings}
