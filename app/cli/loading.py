"""From what was asked for to two loaded models: everything that looks at the machine, imported where that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from app.cli.known_pairs import known_pairs
from app.cli.options import Options
from app.cli.output import StatusLine
from app.cli.wanted import wanted_params, with_threads
from app.errors import DamagedFileError, NoMemoryError
from app.fitting.device_rooms import memory_rooms, with_remote
from app.fitting.fit_pair import fitted
from app.fitting.missing_devices import without_missing, without_other_split
from app.fitting.out_of_memory import ran_out
from app.gguf import read_header
from app.hardware.device_room import MAIN, DeviceRoom, fast_devices
from app.hardware.rpc import RpcServer
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair, load_pair
from app.llama.pair_params import PairParams
from app.pairing.texts import without_draft
from app.request import LoadedPair
from app.worker import CancelSwitch, Progress

T = TypeVar("T")


def load(options: Options, cancel: CancelSwitch, progress: Progress) -> LoadedPair:
    """Load a pair, on the thread that is to own it; see `app.worker.Loader`.

    Args:
        options: What the pair is, and where it goes.
        cancel: Stops it; llama.cpp's own.
        progress: Told how far it is.

    Raises:
        AppError: A file is missing or wrong, or the pair does not fit.
    """
    assert isinstance(cancel, CancelFlag)
    pair, servers = options.pair, _servers(options)
    params = _placed(options, servers)
    try:
        return load_pair(params, cancel, progress)
    except NoMemoryError as error:
        asked = _asked(options, servers)
        raise ran_out(asked, (pair.target, pair.draft), known_pairs(), error, servers) from error


def load_here(params: PairParams, cancel: CancelFlag, status: StatusLine) -> NativePair:
    """Load a pair for a command that works with it on its own thread; says how far it is, and its notices.

    Raises:
        AppError: A file is missing or wrong, or the pair does not fit.
        Interrupted: `cancel` was set.
    """

    def progress(what: str, share: float) -> bool:
        status.show(f"Loading the {what} model {share:4.0%}")
        return not cancel()

    pair = NativePair(params, cancel, progress)
    for notice in pair.notices:
        status.say(notice)
    return pair


def pair_params(options: Options) -> PairParams:
    """What to load and where to; the demo's draft is made here if it is missing.

    Raises:
        PairError: A file has not been downloaded yet, or the pair does not fit into this machine.
        RemoteError: A server of remote devices cannot be used.
    """
    return _placed(options, _servers(options))


def _servers(options: Options) -> tuple[RpcServer, ...]:
    if not options.process.rpc:
        return ()
    from app.cli.remote import reach

    return reach(options.process.rpc)


def _asked(options: Options, servers: tuple[RpcServer, ...]) -> PairParams:
    """What was asked for, with these servers, before it is held against the machine."""
    params = wanted_params(options)
    if servers:
        params = kept_here(replace(params, rpc=tuple(server.address for server in servers)), memory_rooms())
    if options.placement.stored:
        params = without_missing(params, with_remote(memory_rooms(), servers))
    if options.placement.stored_split:
        params = without_other_split(params, with_remote(memory_rooms(), servers))
    return params


def _placed(options: Options, servers: tuple[RpcServer, ...]) -> PairParams:
    params = _asked(options, servers)
    if options.placement.fit:
        sources = options.pair.target, options.pair.draft
        params = unless_damaged(params, lambda wanted: fitted(wanted, sources, known_pairs(), servers))
    return with_threads(params) if options.tuned_threads else params


def kept_here(params: PairParams, rooms: tuple[DeviceRoom, ...]) -> PairParams:
    """The same pair with its draft on this machine, whose rooms these are, unless it was put elsewhere.

    A draft that waits for the network once per token gains nothing.
    """
    if params.draft_model.devices:
        return params
    here = next((room.name for room in fast_devices(rooms)), MAIN)
    return replace(params, draft_model=replace(params.draft_model, devices=(here,)))


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
