"""Plan how a pair is loaded on this machine now.

Measured numbers of threads depend on where the layers are, so they are read last.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from app.cli.known_pairs import FILES, demo_file
from app.cli.options import Options
from app.core.errors import DamagedFileError, ModelLoadError, PairError, UsageError
from app.core.paths import memory_dir
from app.core.shell import quoted
from app.hardware.builds import rpc_command
from app.hardware.cpu import thread_candidates
from app.hardware.fit import MAIN, Rooms, fast_devices
from app.hardware.rpc import RpcServer, ask, parse_endpoint
from app.hardware.system import System
from app.llama import stored_measurements
from app.llama.params import PairParams
from app.models.catalog import Pair
from app.models.gguf import read_header
from app.models.pair_summary import setup_command, without_draft
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource

T = TypeVar("T")


def servers_of(options: Options) -> tuple[RpcServer, ...]:
    """Query the servers of --rpc for their devices."""
    if not options.process.rpc:
        return ()
    from app.llama.devices import build, can_use_rpc

    if not can_use_rpc():
        system = System().name
        fix = rpc_command(build().backends, system, installer(system))
        raise UsageError(
            "This llama.cpp is built without RPC and cannot use --rpc.",
            f"Rebuild it (needs a C++ compiler, takes minutes): {fix}",
        )
    return tuple(ask(parse_endpoint(endpoint)) for endpoint in options.process.rpc)


def asked_here(options: Options, local: Callable[[], Rooms], servers: Sequence[RpcServer] = ()) -> PairParams:
    """Return what the options ask for, before memory is estimated.

    Args:
        options: The pair and its placement.
        local: Lists the memory of this machine; may take seconds.
        servers: Servers whose devices are used.
    """
    params = _params(options)
    if servers:
        params = replace(params, rpc=tuple(server.address for server in servers))
        if not params.draft_model.devices:
            # A draft that waits for the network at every token gains nothing.
            here = next((room.name for room in fast_devices(local())), MAIN)
            params = replace(params, draft_model=replace(params.draft_model, devices=(here,)))
    return params


def _params(options: Options) -> PairParams:
    pair, files, placement = options.pair, options.files, options.placement
    target = files.target.path if files is not None else _file(pair.target, pair)
    draft: Path | None = None
    notices = options.notices
    if pair.draft is not None:
        try:
            draft = files.draft.path if files is not None and files.draft is not None else _file(pair.draft, pair)
        except ModelLoadError as error:
            notices += (without_draft(error),)
    return PairParams(
        target=target,
        draft=draft,
        n_threads=options.n_threads,
        yields_cpu=options.tuned_threads,
        n_ctx=options.n_ctx,
        memory_dir=memory_dir(),
        model=placement.model,
        draft_model=placement.draft_model,
        kv_type=placement.kv_type,
        draft_kv_type=placement.draft_kv_type,
        flash_attention=placement.flash_attention,
        cache_ram_mib=placement.cache_ram_mib,
        cache_disk_mib=placement.cache_disk_mib,
        unload_after_min=placement.unload_after_min,
        notices=notices,
    )


def _file(source: ModelSource, pair: Pair) -> Path:
    match source:
        case LocalModel(path):
            return path
        case DemoModel(part):
            return demo_file(part)
        case HubModel():
            fix = setup_command(pair, by_name=pair.name != FILES)
            raise PairError(f"{source} is not on this machine yet.", f"Download it: {fix}")


def placed_here(options: Options, asked: PairParams, plan: Callable[[PairParams], PairParams]) -> PairParams:
    """Return how a pair is loaded: planned, unless that is turned off, and with measured threads.

    Args:
        options: The pair and its placement.
        asked: From `asked_here`.
        plan: Puts every layer on a device.
    """
    params = unless_damaged(asked, plan) if options.placement.fit else asked
    file = stored_measurements.thread_file(params, thread_candidates()) if options.tuned_threads else None
    chosen = stored_measurements.load_threads(file) if file is not None else None
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
            return plan(replace(params, draft=None, notices=(*params.notices, without_draft(error))))
        raise


def installer(system: str) -> str:
    """Return the start of the command that installs a package into this Python.

    Args:
        system: "linux", "darwin" or "windows", whose shell is to read it.
    """
    python = quoted(sys.executable or "python", system)
    if importlib.util.find_spec("pip") is None:
        # Environments that uv makes have no pip of their own.
        return f"uv pip install --python {python}"
    # PowerShell takes a quoted program for a text unless it is told to call it.
    call = "& " if system == "windows" and python.startswith('"') else ""
    return f"{call}{python} -m pip install"
