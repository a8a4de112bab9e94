"""A pair and this machine's memory in, a placement that fits out, or a sentence with the ways out.

The plan is `app.hardware.fit`'s, the figures are the headers', and where it is tight llama.cpp's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from app.catalog import Pair
from app.errors import PairError
from app.gguf import read_header, split_parts
from app.hardware.checks import Listed
from app.hardware.fit import KV_BYTES, MAIN, DeviceRoom, Need, Placed, Plan, Wishes, fast_devices, plan
from app.hardware.machine import main_memory
from app.hardware.offers import Offer, Smaller, offers
from app.llama.params import ALL_LAYERS, ModelParams
from app.pairing.facts import model_facts
from app.pairing.graph import round_up
from app.pairing.propose import Fit, Room, weigh
from app.sizes import gigabytes
from app.source import HubModel, ModelSource

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer
    from app.llama.footprint import Part
    from app.llama.pair import PairParams
    from app.llama.params import ContextParams

_CERTAIN = 0.75
"""Below this share of the room the headers' arithmetic settles it; above, llama.cpp is asked, half a second a model."""
_INDENT = "\n        "


class DoesNotFitError(PairError):
    """A pair that does not fit into this machine.

    Args:
        message: What is missing, and where.
        hint: The offers, as flags.
        offers: The same, as values.
    """

    def __init__(self, message: str, hint: str, found: tuple[Offer, ...]) -> None:
        super().__init__(message, hint)
        self.offers = found


@dataclass(frozen=True, slots=True)
class Fitting:
    """A pair held against the memory of this machine.

    Attributes:
        params: What is loaded, with every layer placed.
        plan: Where it goes.
        target: What the target takes.
        draft: What the draft takes, or None.
        rooms: What there is.
        measured: Whether llama.cpp itself reckoned the figures, not the headers' arithmetic.
    """

    params: PairParams
    plan: Plan
    target: Need
    draft: Need | None
    rooms: tuple[DeviceRoom, ...]
    measured: bool

    def offers(self, pairs: Sequence[Pair]) -> tuple[Offer, ...]:
        """The ways out where it does not fit; a smaller pair is one of `pairs`."""
        need_bytes = self.target.total + (self.draft.total if self.draft is not None else 0)
        return offers(
            self.target,
            self.draft,
            self.rooms,
            _wishes(self.params),
            smaller=_smaller(pairs, self.rooms, need_bytes),
            flash_attention=self.params.flash_attention,
        )


def fitted(
    params: PairParams,
    sources: Sequence[ModelSource | None],
    pairs: Sequence[Pair],
    servers: Sequence[RpcServer] = (),
) -> PairParams:
    """The same pair with every layer placed, counted against the memory that is free now.

    Args:
        params: What is to be loaded.
        sources: Where target and draft come from.
        pairs: Known pairs, from which a smaller one is offered.
        servers: Whose devices take part.

    Raises:
        DoesNotFitError: It does not fit; the offers are its hint.
        UsageError: A device that was named is not there.
        ModelFileError: A file is missing or no model.
        ModelLoadError: llama.cpp cannot list its devices.
    """
    local = memory_rooms()
    # A file that llama.cpp has not survived yet is shown to it by a child anyway, which may as well count.
    certain = _CERTAIN if _all_known(params) else 0.0
    found = weighed(params, sources, with_remote(local, servers), certain=certain)
    if not found.plan.fits:
        # The offers stand beside what was asked for, not beside where it was put in vain.
        raise refusal(replace(found, params=params), pairs)
    return found.params


def weighed(
    params: PairParams, sources: Sequence[ModelSource | None], rooms: tuple[DeviceRoom, ...], *, certain: float = 0.0
) -> Fitting:
    """A pair held against these rooms; nothing is loaded.

    Args:
        params: What is to be loaded.
        sources: Where target and draft come from.
        rooms: What there is.
        certain: Up to this share of the room the headers' arithmetic will do; above, llama.cpp is asked.

    Raises:
        UsageError: A device that was named is not there.
        ModelFileError: A file is missing or no model.
    """
    target, draft = _needs(params, sources)
    wishes = _wishes(params)
    planned = plan(target, draft, rooms, wishes)
    placed = _placed(params, planned, rooms)
    by_header = target, draft
    if planned.fullness > certain:
        target, draft = _measured(placed, target, draft)
        planned = plan(target, draft, rooms, wishes)
        placed = _placed(params, planned, rooms)
    measured = (target, draft) != by_header
    return Fitting(placed, planned, target, draft, rooms, measured)


def memory_rooms(devices: Sequence[Listed] | None = None) -> tuple[DeviceRoom, ...]:
    """Main memory, and every graphics processor that this build can use; only where there is one is a child asked.

    Args:
        devices: From `app.llama.devices.probe`, if that was asked already.

    Raises:
        ModelLoadError: llama.cpp cannot list its devices.
    """
    _, available = main_memory()
    cards = []
    if devices is None:
        from app.llama import library
        from app.llama.devices import probe

        devices = probe(available)[1] if library.supports_offload() else ()
    for device in devices:
        if device.kind in ("gpu", "igpu", "software"):
            kind = cast('Literal["gpu", "igpu", "software"]', device.kind)
            cards.append(DeviceRoom(device.name, kind, device.backend, device.free_bytes))
    return (*cards, DeviceRoom(MAIN, "cpu", "CPU", available))


def kept_here(params: PairParams) -> PairParams:
    """The same pair with its draft on this machine, unless it was put elsewhere.

    A draft that waits for the network once per token gains nothing.
    """
    if params.draft_model.devices:
        return params
    here = next((room.name for room in fast_devices(memory_rooms())), MAIN)
    return replace(params, draft_model=replace(params.draft_model, devices=(here,)))


def with_remote(rooms: tuple[DeviceRoom, ...], servers: Sequence[RpcServer]) -> tuple[DeviceRoom, ...]:
    """The rooms with those of other machines behind the cards that are here; llama.cpp counts them through."""
    local = fast_devices(rooms)
    # With local cards they are one group: what one card cannot hold may be split over all of them.
    backend = local[0].backend if local and local[0].kind == "gpu" else "RPC"
    devices = [device for server in servers for device in server.devices]
    remote = tuple(DeviceRoom(f"RPC{i}", "gpu", backend, device.free_bytes) for i, device in enumerate(devices))
    return (*rooms[:-1], *remote, rooms[-1])


def _wishes(params: PairParams) -> Wishes:
    model, draft = params.model, params.draft_model
    return Wishes(
        devices=(MAIN,) if model.on_cpu else model.devices,
        draft_device=MAIN if draft.on_cpu else "".join(draft.devices),
        gpu_layers=model.n_gpu_layers,
        draft_gpu_layers=draft.n_gpu_layers,
        tensor_split=model.tensor_split,
    )


def _needs(params: PairParams, sources: Sequence[ModelSource | None]) -> tuple[Need, Need | None]:
    target, context = _need(params, params.target, sources[0], None)
    if params.draft is None:
        return target, None
    return target, _need(params, params.draft, sources[1], context)[0]


def _need(params: PairParams, path: Path, source: ModelSource | None, n_ctx: int | None) -> tuple[Need, int]:
    """What a model takes, by its header; the context is the target's where that is known."""
    parts = split_parts(path)
    header = read_header(path, tensors=len(parts) == 1)
    size = sum(part.stat().st_size for part in parts)
    facts = model_facts(header, file=path.name, size=size, quant="", whole=len(parts) == 1)
    context = params.target_context(facts.n_ctx_train) if n_ctx is None else params.draft_context(n_ctx)
    kv = facts.kv_bytes_per_token * round_up(context.n_ctx) * KV_BYTES[context.kv_type] / KV_BYTES["f16"]
    need = Need(
        name=facts.name,
        # The vocabulary in front of the tensors is read into other places, a few megabytes.
        weights=size - header.n_bytes,
        kv=int(kv),
        compute=facts.graph.compute_bytes(
            context.n_ctx, context.n_outputs, n_batch=context.n_batch, flash_attention=context.flash_attention != "off"
        ),
        host=facts.graph.rows_bytes(context.n_outputs),
        n_layers=facts.n_layers,
        n_ctx=context.n_ctx,
        kv_type=context.kv_type,
        n_parameters=facts.n_parameters,
        repo=source.repo if isinstance(source, HubModel) else "",
        source=str(source or path),
        n_ctx_train=facts.n_ctx_train,
    )
    return need, context.n_ctx


def _all_known(params: PairParams) -> bool:
    """Whether llama.cpp has survived these files before."""
    from app.llama.canary import Survivors

    survivors = Survivors(params.survivors_file)
    return all(path in survivors for path in (params.target, params.draft) if path is not None)


def _measured(params: PairParams, target: Need, draft: Need | None) -> tuple[Need, Need | None]:
    """The needs by llama.cpp's own reckoning, where that can be had."""
    from app.llama.canary import Survivors
    from app.llama.footprint import measure

    survivors = Survivors(params.survivors_file)

    def of(need: Need, path: Path, model: ModelParams, context: ContextParams) -> Need:
        # Of a model in two places the figures do not tell what moves with a layer.
        in_part = ALL_LAYERS < model.n_gpu_layers <= need.n_layers and not model.on_cpu
        parts = None if in_part else measure(path, model, context)
        if parts is None:
            return need
        survivors.add(path)
        return by_parts(need, parts)

    measured = of(target, params.target, params.model, params.target_context(target.n_ctx))
    if draft is None or params.draft is None:
        return measured, None
    return measured, of(draft, params.draft, params.draft_model, params.draft_context(draft.n_ctx))


def by_parts(need: Need, parts: Sequence[Part]) -> Need:
    """A need with llama.cpp's figures; where layers are on devices, what is in main memory stays there."""
    on_devices = [part for part in parts if part.device.lower() != MAIN]
    main = [part for part in parts if part.device.lower() == MAIN]
    holding = on_devices or main
    return replace(
        need,
        weights=sum(part.weights for part in holding),
        kv=sum(part.kv for part in parts),
        compute=max(part.compute for part in holding),
        host=sum(part.weights + part.compute for part in main) if on_devices else 0,
    )


def _placed(params: PairParams, planned: Plan, rooms: Sequence[DeviceRoom]) -> PairParams:
    if len(rooms) == 1:
        return params
    draft = params.draft_model
    if planned.draft is not None:
        draft = _model(draft, planned.draft)
    return replace(params, model=_model(params.model, planned.target), draft_model=draft)


def _model(model: ModelParams, placed: Placed) -> ModelParams:
    return replace(model, devices=placed.devices, tensor_split=placed.tensor_split, n_gpu_layers=placed.gpu_layers)


def refusal(found: Fitting, pairs: Sequence[Pair], message: str = "") -> DoesNotFitError:
    """The sentence with the offers.

    Args:
        found: What does not fit.
        pairs: Known pairs, from which a smaller one is offered.
        message: What happened; "" says what is missing where.
    """
    target, draft = found.target, found.draft
    names = f"{target.name} with {draft.name}" if draft is not None else target.name
    where = "; ".join(
        f"{gigabytes(load.need_bytes)} {'in main memory' if load.device == MAIN else f'on {load.device}'}, where "
        f"{gigabytes(load.room_bytes)} are free for it"
        for load in found.plan.loads
        if load.lacking
    )
    ways = found.offers(pairs)
    return DoesNotFitError(
        message or f"{names} does not fit: it takes {where}.",
        _INDENT.join(["Take one of these, or load it all the same with --fit off:", *map(offer_line, ways)]),
        ways,
    )


def offer_line(offer: Offer) -> str:
    """An offer in one line."""
    flags = " ".join(offer.flags)
    alone = "" if offer.suffices else "; not enough alone"
    what = f"{flags}: {offer.what}" if flags else offer.what
    return f"{what}, frees about {gigabytes(offer.gain_bytes)}{alone} ({offer.cost})"


def _smaller(pairs: Sequence[Pair], rooms: Sequence[DeviceRoom], need_bytes: int) -> Smaller | None:
    """The largest known pair that fits where this one does not."""
    room = max((room.room_bytes for room in rooms if room.kind == "gpu"), default=rooms[-1].room_bytes)
    weighed = [weigh(pair, Room(room)) for pair in pairs]
    fits = [found for found in weighed if found.fit is Fit.FITS and found.need_bytes < need_bytes]
    best = max(fits, key=lambda found: found.need_bytes, default=None)
    return Smaller(best.pair.name, best.pair.title, best.need_bytes) if best is not None else None
