"""Load a pair: from options through this machine's memory and devices to two models."""

from __future__ import annotations

import threading
from dataclasses import replace

from app.cli.known_pairs import known_pairs
from app.cli.options import Options
from app.cli.output import StatusLine
from app.cli.placing import asked_here, placed_here, servers_of
from app.core.errors import NoMemoryError
from app.hardware.rpc import RpcServer
from app.llama.cancel import CancelFlag
from app.llama.fitting.device_rooms import memory_rooms
from app.llama.fitting.fit_pair import fitted, ran_out
from app.llama.pair import NativePair
from app.llama.params import PairParams
from app.worker.engine_worker import Progress
from app.worker.request import LoadedPair


def load(options: Options, cancel: threading.Event, progress: Progress) -> LoadedPair:
    """Load a pair, on the thread that is to own it; see `app.worker.engine_worker.Loader`."""
    assert isinstance(cancel, CancelFlag)
    servers = servers_of(options)
    asked = asked_here(options, memory_rooms, servers)
    params = _placed(options, asked, servers)
    try:
        return NativePair(params, cancel, progress)
    except NoMemoryError as error:
        raise ran_out(asked, known_pairs(), error, servers) from error


def load_here(params: PairParams, cancel: CancelFlag, status: StatusLine) -> NativePair:
    """Load a pair on this thread; show the progress and the notices."""

    def progress(what: str, share: float) -> bool:
        status.show(f"Loading the models {share:4.0%}")
        return not cancel()

    pair = NativePair(params, cancel, progress)
    for notice in pair.notices:
        status.say(notice)
    return pair


def pair_params(options: Options) -> PairParams:
    """Return what to load and where; create the demo's draft if missing."""
    servers = servers_of(options)
    params = _placed(options, asked_here(options, memory_rooms, servers), servers)
    # A benchmark has no conversation to come back to.
    return replace(params, cache_ram_mib=0, cache_disk_mib=0)


def _placed(options: Options, asked: PairParams, servers: tuple[RpcServer, ...]) -> PairParams:
    def plan(params: PairParams) -> PairParams:
        return fitted(params, known_pairs(), servers, memory_rooms)

    return placed_here(options, asked, plan)
