"""Plan how a pair is loaded on this machine now.

The steps have an order. What was measured of threads is named by where the layers are, so it is looked up last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from app.cli.options import Options
from app.cli.wanted import wanted_params, with_threads
from app.core.errors import DamagedFileError
from app.hardware.device_room import MAIN, DeviceRoom, fast_devices
from app.hardware.rpc import RpcServer
from app.llama.fitting.device_rooms import with_remote
from app.llama.fitting.missing_devices import without_missing, without_other_split
from app.llama.pair_params import PairParams
from app.models.gguf import read_header
from app.models.pair_names import without_draft

T = TypeVar("T")
Rooms = tuple[DeviceRoom, ...]


def servers_of(options: Options) -> tuple[RpcServer, ...]:
    """The servers whose devices take part.

    Raises:
        UsageError: The installed llama.cpp has no RPC.
        RemoteError: A server cannot be used.
    """
    if not options.process.rpc:
        return ()
    from app.cli.remote import reach

    return reach(options.process.rpc)


def asked_here(options: Options, local: Callable[[], Rooms], servers: Sequence[RpcServer] = ()) -> PairParams:
    """What was asked for, with these servers and without devices and shares that have gone, before memory is counted.

    Args:
        options: What the pair is, and where it goes.
        local: The rooms of this machine; asked only where they matter, for that may take seconds.
        servers: Whose devices take part.

    Raises:
        PairError: A file has not been downloaded yet.
        ModelLoadError: llama.cpp cannot list its devices.
    """
    params, placement = wanted_params(options), options.placement
    if not servers and not placement.stored and not placement.stored_split:
        return params
    rooms = local()
    if servers:
        params = _kept_here(replace(params, rpc=tuple(server.address for server in servers)), rooms)
    if placement.stored:
        params = without_missing(params, with_remote(rooms, servers))
    return without_other_split(params, with_remote(rooms, servers)) if placement.stored_split else params


def placed_here(options: Options, asked: PairParams, plan: Callable[[PairParams], PairParams]) -> PairParams:
    """How it is loaded: every layer where the plan puts it, unless nothing is to be counted, with measured threads.

    Args:
        options: What the pair is, and where it goes.
        asked: From `asked_here`.
        plan: Puts every layer somewhere.
    """
    params = unless_damaged(asked, plan) if options.placement.fit else asked
    return with_threads(params) if options.tuned_threads else params


def unless_damaged(params: PairParams, weigh: Callable[[PairParams], T]) -> T:
    """Hold a pair against the machine; without its draft, which a notice says, where that file is damaged."""
    try:
        return weigh(params)
    except DamagedFileError:
        if params.draft is None:
            raise
        try:
            read_header(params.draft, tensors=True, vocabulary=False)
        except DamagedFileError as error:
            return weigh(replace(params, draft=None, notices=(*params.notices, without_draft(error))))
        raise


def _kept_here(params: PairParams, rooms: Rooms) -> PairParams:
    """The same pair with its draft on this machine, whose rooms these are, unless it was put elsewhere.

    A draft that waits for the network once per token gains nothing.
    """
    if params.draft_model.devices:
        return params
    here = next((room.name for room in fast_devices(rooms)), MAIN)
    return replace(params, draft_model=replace(params.draft_model, devices=(here,)))
