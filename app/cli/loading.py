"""From what was asked for to two loaded models: everything that looks at the machine, imported where that is wanted."""

from __future__ import annotations

from app.cli.known_pairs import known_pairs
from app.cli.options import Options
from app.cli.output import StatusLine
from app.cli.placing import asked_here, placed_here, servers_of
from app.errors import NoMemoryError
from app.fitting.device_rooms import memory_rooms
from app.fitting.fit_pair import fitted
from app.fitting.out_of_memory import ran_out
from app.hardware.rpc import RpcServer
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair, load_pair
from app.llama.pair_params import PairParams
from app.request import LoadedPair
from app.source import ModelSource
from app.worker import CancelSwitch, Progress


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
    servers = servers_of(options)
    asked = asked_here(options, memory_rooms, servers)
    params = _placed(options, asked, servers)
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
    servers = servers_of(options)
    return _placed(options, asked_here(options, memory_rooms, servers), servers)


def _placed(options: Options, asked: PairParams, servers: tuple[RpcServer, ...]) -> PairParams:
    return placed_here(options, asked, lambda params: fitted(params, _sources(options), known_pairs(), servers))


def _sources(options: Options) -> tuple[ModelSource, ModelSource | None]:
    return options.pair.target, options.pair.draft
