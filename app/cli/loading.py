"""Load a pair: from options through this machine's memory and devices to two models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from app.cli.known_pairs import known_pairs
from app.cli.options import Options
from app.cli.output import StatusLine
from app.cli.placing import Rooms, asked_here, placed_here, servers_of
from app.core.errors import NoMemoryError
from app.hardware.rpc import RpcServer
from app.llama.cancel import CancelFlag
from app.llama.fitting.device_rooms import memory_rooms
from app.llama.fitting.fit_pair import fitted
from app.llama.fitting.out_of_memory import ran_out
from app.llama.pair import NativePair, load_pair
from app.llama.pair_params import PairParams
from app.models.source import ModelSource
from app.worker.commands import CancelSwitch, Progress
from app.worker.request import LoadedPair


def load(options: Options, cancel: CancelSwitch, progress: Progress) -> LoadedPair:
    """Load a pair, on the thread that is to own it; see `app.worker.engine_worker.Loader`.

    Args:
        options: What the pair is, and where it goes.
        cancel: Stops it; llama.cpp's own.
        progress: Told how far it is.

    Raises:
        AppError: A file is missing or wrong, or the pair does not fit.
    """
    assert isinstance(cancel, CancelFlag)
    servers = servers_of(options)
    # A child lists the devices, which takes a second or more with the drivers of cards.
    rooms = cache(memory_rooms)
    asked = asked_here(options, rooms, servers)
    params = _placed(options, asked, servers, rooms)
    try:
        return load_pair(params, cancel, progress)
    except NoMemoryError as error:
        raise ran_out(asked, _sources(options), known_pairs(), error, servers) from error


def load_here(params: PairParams, cancel: CancelFlag, status: StatusLine) -> NativePair:
    """Load a pair for a command that works with it on its own thread; says how far it is, and its notices.

    Raises:
        AppError: A file is missing or wrong, or the pair does not fit.
        Interrupted: `cancel` was set.
    """

    def progress(what: str, share: float) -> bool:
        status.show(f"Loading the models {share:4.0%}")
        return not cancel()

    pair = NativePair(params, cancel, progress)
    for notice in pair.notices:
        status.say(notice)
    return pair


def pair_params(options: Options) -> PairParams:
    """Return what to load and where; create the demo's draft if missing.

    Raises:
        PairError: A file has not been downloaded yet, or the pair does not fit into this machine.
        RemoteError: A server of remote devices cannot be used.
    """
    servers, rooms = servers_of(options), cache(memory_rooms)
    return _placed(options, asked_here(options, rooms, servers), servers, rooms)


def _placed(
    options: Options, asked: PairParams, servers: tuple[RpcServer, ...], rooms: Callable[[], Rooms]
) -> PairParams:
    def plan(params: PairParams) -> PairParams:
        return fitted(params, _sources(options), known_pairs(), servers, rooms)

    return placed_here(options, asked, plan)


def _sources(options: Options) -> tuple[ModelSource, ModelSource | None]:
    return options.pair.target, options.pair.draft
