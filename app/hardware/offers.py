"""Options for a pair that does not fit, with the gain and the cost of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.core.units import memory_size
from app.hardware.devices import fast_devices
from app.hardware.fit import MAIN, PlacementRequest, Rooms, offloaded, plan
from app.models.memory_estimate import ModelMemory
from app.models.recommend import Proposal
from app.settings.kinds import Value
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
class _Problem:
    target: ModelMemory
    draft: ModelMemory | None
    rooms: Rooms
    request: PlacementRequest

    def fits(self, **changes: ModelMemory | PlacementRequest | None) -> bool:
        """Return whether the pair fits with these fields changed."""
        changed = replace(self, **changes)  # type: ignore[arg-type]
        return plan(changed.target, changed.draft, changed.rooms, changed.request).fits


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
    problem = _Problem(target, draft, rooms, request or PlacementRequest())
    if problem.fits():
        return ()
    found = (
        _experts_in_ram(problem),
        _shorter_context(problem),
        _quantized_cache(problem, flash_attention),
        _smaller_quantization(problem),
        *_draft_offers(problem),
        _smaller_pair(problem, smaller) if smaller is not None else None,
        _partial_offload(problem),
    )
    return tuple(offer for offer in found if offer is not None and offer.gain_bytes > 0)


def _experts_in_ram(problem: _Problem) -> Offer | None:
    """Offer to keep the experts of all layers in RAM, or of fewer if the user chose a number that does not fit."""
    target, request = problem.target, problem.request
    now = plan(target, problem.draft, problem.rooms, request).target
    if now.devices == (MAIN,) or request.gpu_layers == 0 or not target.experts:
        return None
    fewer = plan(target, problem.draft, problem.rooms, replace(request, cpu_experts=None))
    n = fewer.target.cpu_experts if fewer.fits else len(target.experts)
    return Offer(
        experts_in_ram(n, len(target.experts)),
        offloaded(target, request.gpu_layers, now.cpu_experts) - offloaded(target, request.gpu_layers, n),
        "the CPU computes these experts, more slowly",
        {"model.n_cpu_moe": n},
        problem.fits(request=replace(request, cpu_experts=n)),
    )


def _shorter_context(problem: _Problem) -> Offer | None:
    """Offer the longest power of two that fits; if none does, a useful one."""
    target, draft = problem.target, problem.draft

    def at(n_ctx: int) -> tuple[ModelMemory, ModelMemory | None]:
        return target.with_context(n_ctx), draft.with_context(n_ctx) if draft is not None else None

    lengths = [1 << n for n in reversed(range(32)) if _MIN_CTX <= 1 << n < target.n_ctx]
    if not lengths:
        return None
    shorter = {n: at(n) for n in lengths}
    fitting = next((n for n, (big, small) in shorter.items() if problem.fits(target=big, draft=small)), None)
    n_ctx = fitting or next((n for n in lengths if n <= _USEFUL_CTX), lengths[-1])
    big, small = shorter[n_ctx]
    return Offer(
        f"a context of {n_ctx:,} tokens",
        target.kv - big.kv + (draft.kv - small.kv if draft is not None and small is not None else 0),
        f"{n_ctx / target.n_ctx:.0%} of the requested context",
        {"model.ctx": n_ctx},
        fitting is not None,
    )


def _quantized_cache(problem: _Problem, flash_attention: str) -> Offer | None:
    """Offer 8-bit KV caches for both models."""
    target, draft = _in_8_bits(problem.target), _in_8_bits(problem.draft)
    gain = 0
    settings: dict[str, Value] = {}
    for small, large, name in ((target, problem.target, "model.kv_type"), (draft, problem.draft, "draft.kv_type")):
        if small is not None and large is not None and small is not large:
            gain += large.kv - small.kv
            settings[name] = "q8_0"
    if flash_attention == "off":
        settings["model.flash_attn"] = "auto"
    cost = "answers may differ slightly; long prompts are read more slowly"
    return Offer("8-bit KV caches (q8_0)", gain, cost, settings, problem.fits(target=target, draft=draft))


def _in_8_bits(need: ModelMemory | None) -> ModelMemory | None:
    if need is None or need.kv_type not in WIDE_KV or not need.can_quantize_cache:
        return need
    return need.with_kv_type("q8_0")


def _smaller_quantization(problem: _Problem) -> Offer | None:
    """Offer the largest usual quantization of the target that fits."""
    target = problem.target
    sizes = {name: int((target.n_parameters or 0) * bits / 8) for name, bits in _BITS_PER_WEIGHT.items()}
    sizes = {name: size for name, size in sizes.items() if 0 < size < _NOTICEABLE_SHARE * target.weights}
    if not sizes:
        return None
    fitting = [name for name, size in sizes.items() if problem.fits(target=replace(target, weights=size))]
    name = fitting[0] if fitting else list(sizes)[-1]
    cost = "another download; slightly lower quality"
    return Offer(f"{target.name} as {name}", target.weights - sizes[name], cost, {}, bool(fitting))


def _draft_offers(problem: _Problem) -> Iterator[Offer]:
    """Offer the draft on another device, and no draft."""
    draft, now = problem.draft, plan(problem.target, problem.draft, problem.rooms, problem.request)
    if draft is None or now.draft is None:
        return
    here = now.draft.devices[0]
    on_cpu = here == MAIN or now.draft.gpu_layers == 0
    gain = draft.total if on_cpu else draft.total - draft.always_ram
    if not on_cpu and not draft.follows_target:
        others = [room.name for room in fast_devices(problem.rooms) if room.name != here] + [MAIN]
        moved = replace(problem.request, draft_gpu_layers=ALL_LAYERS, devices=now.target.devices)
        fitting = [name for name in others if problem.fits(request=replace(moved, draft_device=name))]
        name = fitting[0] if fitting else MAIN
        where = "the CPU" if name == MAIN else name
        yield Offer(f"the draft on {where}", gain, "slower drafts", {"draft.device": (name,)}, bool(fitting))
    # Snapshots of the target's state only serve drafts.
    alone = problem.fits(target=replace(problem.target, snapshots=0), draft=None)
    yield Offer("no draft", gain + problem.target.snapshots, "no speedup", {"draft.mode": "off"}, alone)


def _smaller_pair(problem: _Problem, smaller: Proposal) -> Offer:
    total = problem.target.total + (problem.draft.total if problem.draft is not None else 0)
    return Offer(
        f"a smaller pair: {smaller.pair.title}",
        total - smaller.need_bytes,
        "a smaller model answers",
        {},
        True,
        smaller.pair.name,
    )


def _partial_offload(problem: _Problem) -> Offer | None:
    """Offer as many layers on the GPU as fit; the draft moves to the CPU if it must."""
    target, draft, request = problem.target, problem.draft, problem.request
    if plan(target, draft, problem.rooms, request).target.devices == (MAIN,) or request.gpu_layers == 0:
        return None
    most = target.n_layers if request.gpu_layers == ALL_LAYERS else request.gpu_layers - 1
    tries: list[tuple[PlacementRequest, Layer]] = [(request, {})]
    if draft is not None and not request.draft_device:
        tries.append((replace(request, draft_device=MAIN), {"draft.device": (MAIN,)}))
    for changed, settings in tries:
        for n in range(most, -1, -1):
            if problem.fits(request=replace(changed, gpu_layers=n)):
                return Offer(
                    f"{n} of {target.n_layers} layers on the GPU{', the draft on the CPU' if settings else ''}",
                    offloaded(target, ALL_LAYERS)
                    - offloaded(target, n)
                    + (draft.total if draft is not None and settings else 0),
                    "the CPU computes the rest, many times slower",
                    {"model.gpu_layers": n, **settings},
                    True,
                )
    return None
