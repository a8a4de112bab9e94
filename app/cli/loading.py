"""Plan how a pair is loaded on this machine now, and load it.

Measured numbers of threads depend on where the layers are, so they are read last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from app.cli.known_pairs import FILES, known_pairs, local_file
from app.cli.options import Options
from app.core.errors import DamagedFileError, ModelFileError, ModelLoadError, NoMemoryError, PairError, UsageError
from app.core.paths import memory_dir
from app.hardware.builds import rpc_command
from app.hardware.cpu import thread_candidates
from app.hardware.devices import fast_devices
from app.hardware.fit import MAIN, Rooms
from app.hardware.installation import installation
from app.hardware.rpc import RpcServer, query_server
from app.hardware.system import System
from app.llama import stored_measurements
from app.llama.cancel import CancelFlag
from app.llama.fitting.fit_pair import fitted, ran_out
from app.llama.fitting.machine_room import memory_rooms
from app.llama.fitting.tuned_placement import with_tuned_placement
from app.llama.params import ModelParams, PairParams
from app.models.catalog import Pair
from app.models.compatibility import select_draft
from app.models.draft_kinds import head_facts
from app.models.gguf import read_header
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import model_facts
from app.models.pair_summary import setup_command, without_draft
from app.models.source import ModelSource
from app.settings.placement import ALL_LAYERS, DEFAULT_OFFLOAD
from app.worker.engine_worker import Progress
from app.worker.request import LoadedPair

T = TypeVar("T")
_ANYWHERE = ModelParams(split=False)
"""Placement of a draft whose device the settings leave open."""


def load(options: Options, cancel: threading.Event, progress: Progress) -> LoadedPair:
    """Load a pair, on the thread that is to own it; see `app.worker.engine_worker.Loader`."""
    # Loads llama.cpp, which a list of pairs does not need.
    from app.llama.pair import NativePair

    assert isinstance(cancel, CancelFlag)
    servers = servers_of(options)
    asked = asked_here(options, memory_rooms, servers)
    params = _placed(options, asked, servers)
    try:
        return NativePair(params, cancel, progress)
    except NoMemoryError as error:
        if params.n_ctx_auto is None:
            raise ran_out(asked, known_pairs(), error, servers) from error
    # Tandem chose a longer context than the default one.
    asked = replace(asked, n_ctx_auto=DEFAULT_CONTEXT)
    try:
        return NativePair(_placed(options, asked, servers), cancel, progress)
    except NoMemoryError as error:
        raise ran_out(asked, known_pairs(), error, servers) from error


def pair_params(options: Options) -> PairParams:
    """Return what to load and where; create the demo's draft if missing.

    Measurements are made with the default context, so that they can be compared.
    """
    servers = servers_of(options)
    asked = replace(asked_here(options, memory_rooms, servers), n_ctx_auto=DEFAULT_CONTEXT)
    params = _placed(options, asked, servers)
    # A benchmark has no conversation to come back to.
    return replace(params, cache_ram_mib=0, cache_disk_mib=0)


def _placed(options: Options, asked: PairParams, servers: tuple[RpcServer, ...]) -> PairParams:
    # Loads llama.cpp.
    from app.llama.library import use_offload

    requested, notices = asked.op_offload_min_batch, asked.notices
    used = use_offload(requested)
    if requested is not None and used != requested:
        notices += (f"The op offload threshold stays at {used or DEFAULT_OFFLOAD}; restart Tandem to use {requested}.",)
    if asked.tuned:
        notices += (f"Placement by tandem tune: {asked.tuned}.",)
    asked = replace(asked, op_offload_min_batch=used, notices=notices)
    return placed_here(options, asked, lambda params: fitted(params, known_pairs(), servers))


def servers_of(options: Options) -> tuple[RpcServer, ...]:
    """Query the servers of --rpc for their devices."""
    if not options.process.rpc:
        return ()
    from app.llama.devices import build, can_use_rpc

    if not can_use_rpc():
        fix = rpc_command(build().backends, installation(System().name))
        raise UsageError(
            "This llama.cpp is built without RPC and cannot use --rpc.",
            f"Rebuild it (needs a C++ compiler, takes minutes): {fix}",
        )
    return tuple(map(query_server, options.process.rpc))


def asked_here(
    options: Options, local: Callable[[], Rooms], servers: Sequence[RpcServer] = (), *, use_tuned: bool = True
) -> PairParams:
    """Return what the options ask for, before memory is estimated.

    Args:
        local: Lists the memory of this machine.
        use_tuned: Use the placement that `tandem tune --placement` chose, if any.
    """
    pair, files, notices = options.pair, options.files, options.params.notices
    target = files.target.path if files is not None else _file(pair.target, pair)
    draft: Path | None = None
    if pair.draft is not None:
        try:
            known = files.draft if files is not None else None
            draft = known.path if known is not None else _file(pair.draft, pair, draft=True)
        except ModelLoadError as error:
            notices += (without_draft(error),)
    params = replace(options.params, target=target, draft=draft, memory_dir=memory_dir(), notices=notices)
    params = _with_draft_type(params, drafts=options.answers.drafting is not None)
    follows = _draft_follows_target(params)
    if follows:
        params = _beside_target(params)
    if servers:
        params = replace(params, rpc=tuple(server.address for server in servers))
        if not params.draft_model.devices and not follows:
            # A draft that waits for the network at every token gains nothing.
            here = next((room.name for room in fast_devices(local())), MAIN)
            params = replace(params, draft_model=replace(params.draft_model, devices=(here,)))
    return with_tuned_placement(params, options.automatic, local) if use_tuned else params


def _draft_follows_target(params: PairParams) -> bool:
    """Return whether the draft file has layers that must be on their target's devices."""
    try:
        facts = head_facts(read_header(params.draft, tensors=True, vocabulary=False)) if params.draft else None
    except ModelFileError:
        return False
    return facts is not None and facts.follows_target(params.model.overrides)


def _beside_target(params: PairParams) -> PairParams:
    """Return the parameters without a place of the draft's own; add a notice if the settings name another one."""
    model, draft = params.model, params.draft_model
    is_whole = draft.n_gpu_layers == ALL_LAYERS
    is_same = is_whole and {*map(str.lower, model.devices)} == {*map(str.lower, draft.devices)}
    notices = params.notices
    if draft != _ANYWHERE and not is_same and not (model.on_cpu and draft.on_cpu):
        assert params.draft is not None
        notices += (f"{params.draft.name} shares tensors with its target, so it runs on the target's devices.",)
    return replace(params, draft_model=_ANYWHERE, notices=notices)


def _with_draft_type(params: PairParams, *, drafts: bool) -> PairParams:
    """Apply the setting `draft.type`: load the draft's file, the MTP layers of the target, or neither."""
    wanted = params.draft_type if drafts else "none"
    if params.draft is not None and wanted == "auto":
        return params
    try:
        target, draft = (
            model_facts(read_header(path, tensors=True, vocabulary=False), file=path.name, size=0) if path else None
            for path in (params.target, params.draft)
        )
    except ModelFileError:
        # The load says what is wrong with the file.
        return params
    assert target is not None
    uses_file, uses_mtp, notice = select_draft(wanted, target, draft)
    return replace(
        params,
        draft=params.draft if uses_file else None,
        model=replace(params.model, load_mtp=uses_mtp),
        notices=(*params.notices, *filter(None, (notice,))),
    )


def _file(source: ModelSource, pair: Pair, *, draft: bool = False) -> Path:
    if (path := local_file(source, draft=draft)) is None:
        fix = setup_command(pair, by_name=pair.name != FILES)
        raise PairError(f"{source} is not on this machine yet.", f"Download it: {fix}")
    return path


def placed_here(options: Options, asked: PairParams, plan: Callable[[PairParams], PairParams]) -> PairParams:
    """Return how a pair is loaded: every layer on a device, unless that is turned off, and with measured threads."""
    params = unless_damaged(asked, plan) if options.fit else asked
    file = stored_measurements.thread_file(params, thread_candidates()) if params.yields_cpu else None
    chosen = stored_measurements.load_threads(file)
    if chosen is None:
        return params
    return replace(params, n_threads=chosen.generation, n_threads_batch=chosen.prompt)


def unless_damaged(params: PairParams, plan: Callable[[PairParams], T]) -> T:
    """Plan a pair; a damaged draft is left out with a notice."""
    try:
        return plan(params)
    except DamagedFileError:
        if params.draft is None:
            raise
        try:
            read_header(params.draft, tensors=True, vocabulary=False)
        except DamagedFileError as error:
            notices = (*params.notices, without_draft(error))
            return plan(_with_draft_type(replace(params, draft=None, notices=notices), drafts=True))
        raise
