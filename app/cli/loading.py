"""From what was asked for to two loaded models: everything that looks at the machine, imported where that is wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app import thread_store
from app.catalog import Pair
from app.cli.known_pairs import demo_file, known_pairs
from app.cli.options import Options
from app.cli.output import StatusLine
from app.cli.pair_choice import FILES
from app.errors import ModelLoadError, NoMemoryError, PairError
from app.fitting.device_rooms import memory_rooms, with_remote
from app.fitting.fit_pair import fitted
from app.fitting.missing_devices import without_missing
from app.fitting.out_of_memory import ran_out
from app.hardware.cpu import thread_candidates
from app.hardware.device_room import MAIN, DeviceRoom, fast_devices
from app.hardware.rpc import RpcServer
from app.llama.cancel import CancelFlag
from app.llama.identity import thread_file
from app.llama.pair import NativePair, load_pair
from app.llama.pair_params import PairParams
from app.pairing.texts import without_draft
from app.paths import memory_dir
from app.request import LoadedPair
from app.source import DemoModel, HubModel, LocalModel, ModelSource
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
    params, pair = pair_params(options), options.pair
    try:
        return load_pair(params, cancel, progress)
    except NoMemoryError as error:
        wanted = wanted_params(options)
        raise ran_out(wanted, (pair.target, pair.draft), known_pairs(), error) from error


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
    params = wanted_params(options)
    servers: tuple[RpcServer, ...] = ()
    if options.process.rpc:
        from app.cli.remote import reach

        servers = reach(options.process.rpc)
        params = kept_here(replace(params, rpc=tuple(server.address for server in servers)), memory_rooms())
    if options.placement.stored:
        params = without_missing(params, with_remote(memory_rooms(), servers))
    if options.placement.fit:
        params = fitted(params, (options.pair.target, options.pair.draft), known_pairs(), servers)
    return with_threads(params) if options.tuned_threads else params


def kept_here(params: PairParams, rooms: tuple[DeviceRoom, ...]) -> PairParams:
    """The same pair with its draft on this machine, whose rooms these are, unless it was put elsewhere.

    A draft that waits for the network once per token gains nothing.
    """
    if params.draft_model.devices:
        return params
    here = next((room.name for room in fast_devices(rooms)), MAIN)
    return replace(params, draft_model=replace(params.draft_model, devices=(here,)))


def with_threads(params: PairParams) -> PairParams:
    """The same pair with the numbers of threads that `tandem tune` has measured, if it has."""
    file = thread_file(params, thread_candidates())
    chosen = thread_store.load(file) if file is not None else None
    if chosen is None:
        return params
    return replace(params, n_threads=chosen.generation, n_threads_batch=chosen.prompt)


def wanted_params(options: Options) -> PairParams:
    """What was asked for, before it is held against the machine; see `pair_params`.

    Raises:
        PairError: A file has not been downloaded yet.
    """
    pair, files = options.pair, options.files
    target = files.target.path if files is not None else _file(pair.target, pair)
    draft: Path | None = None
    notices = options.notices
    if pair.draft is not None:
        draft, without = _draft(pair.draft, options)
        notices += without
    placement = options.placement
    return PairParams(
        target=target,
        draft=draft,
        n_threads=options.n_threads,
        gives_way=options.tuned_threads,
        n_ctx=options.n_ctx,
        memory_dir=memory_dir(),
        model=placement.model,
        draft_model=placement.draft_model,
        kv_type=placement.kv_type,
        draft_kv_type=placement.draft_kv_type,
        flash_attention=placement.flash_attention,
        notices=notices,
    )


def _draft(source: ModelSource, options: Options) -> tuple[Path | None, tuple[str, ...]]:
    """The draft's file; or none and why, where the one that is made here cannot be written."""
    if options.files is not None and options.files.draft is not None:
        return options.files.draft.path, ()
    try:
        return _file(source, options.pair), ()
    except ModelLoadError as error:
        return None, (without_draft(error),)


def _file(source: ModelSource, pair: Pair) -> Path:
    match source:
        case LocalModel(path):
            return path
        case DemoModel(part):
            return demo_file(part)
        case HubModel():
            how = f"tandem setup {pair.name}" if pair.name != FILES else f"tandem setup {_as_flags(pair)}"
            raise PairError(f"{source} is not on this machine yet.", f"Bring it with: {how}")


def _as_flags(pair: Pair) -> str:
    return f"--target {pair.target}" + (f" --draft {pair.draft}" if pair.draft is not None else "")
