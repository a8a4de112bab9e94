"""Plan how a pair is loaded on this machine, and load it.

Measured numbers of threads depend on the placement of the layers, so they are read last.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from app.conversations.message import Message, Role
from app.core.errors import DamagedFileError, ModelFileError, ModelLoadError, NoMemoryError, PairError, UsageError
from app.core.fixes import fix
from app.core.paths import memory_dir
from app.core.regular_file import home_expanded
from app.engine.interfaces import Controls
from app.engine.types import SamplingParams
from app.hardware.builds import rpc_command
from app.hardware.cpu import thread_candidates
from app.hardware.devices import fast_devices
from app.hardware.fit import Rooms
from app.hardware.installation import installation
from app.hardware.rpc import RpcServer, query_server
from app.hardware.system import System
from app.llama import stored_measurements
from app.llama.cancel import CancelFlag
from app.llama.fitting.fit_pair import fitted, ran_out
from app.llama.fitting.machine_room import memory_rooms
from app.llama.fitting.tuned_placement import in_fixes, with_tuned_placement
from app.llama.params import PairParams
from app.models.catalog import Pair
from app.models.compatibility import select_draft
from app.models.gguf import read_header
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import read_facts
from app.models.pair_summary import setup_models, without_draft
from app.models.projector_file import projector_beside
from app.models.registry import SetUp
from app.models.source import ModelSource
from app.settings.layers import drafting
from app.settings.placement import CPU, DEFAULT_OFFLOAD
from app.worker.engine_worker import Progress
from app.worker.events import Finished, Notice
from app.worker.jobs import measure, needs_measuring
from app.worker.known_pairs import FILES, ChosenPair, about_catalog, known_pairs, local_file
from app.worker.request import AnswerRequest, LoadedPair

T = TypeVar("T")
_TRIAL_PROMPT = "Say in one sentence what you can help with."
_TRIAL_TOKENS = 48


def load(chosen: ChosenPair, cancel: threading.Event, progress: Progress) -> LoadedPair:
    """Load a pair on the thread that will own it; see `app.worker.engine_worker.Loader`."""
    # This import loads llama.cpp, which a list of pairs does not need.
    from app.llama.pair import NativePair

    assert isinstance(cancel, CancelFlag)
    asked = asked_here(chosen, memory_rooms)
    while True:
        params = _placed(asked)
        try:
            return NativePair(params, cancel, progress)
        except NoMemoryError as error:
            if params.n_ctx_auto in (None, DEFAULT_CONTEXT):
                raise ran_out(asked, known_pairs(), error) from error
        # Tandem chose a longer context than the default.
        asked = replace(asked, n_ctx_auto=DEFAULT_CONTEXT)


def measured_params(chosen: ChosenPair, *, load_mtp: bool = False) -> PairParams:
    """Return how a pair is loaded for a measurement; create the demo's draft if missing.

    Measurements use the default context, so that they can be compared, no stored caches, and no pictures. `load_mtp`
    also loads the target's MTP layer if the pair has another draft.
    """
    asked = replace(asked_here(chosen, memory_rooms), n_ctx_auto=DEFAULT_CONTEXT)
    asked = replace(asked, model=replace(asked.model, load_mtp=load_mtp or asked.model.load_mtp), projector=None)
    return _placed(asked).over({"model.cache_ram": 0, "model.cache_disk": 0})


def _placed(asked: PairParams) -> PairParams:
    # This import loads llama.cpp.
    from app.llama.library import use_offload

    requested, notices = asked.settings["model.offload_min_batch"], asked.notices
    used = use_offload(requested)
    if requested is not None and used != requested:
        notices += (f"The op offload threshold stays at {used or DEFAULT_OFFLOAD}; restart Tandem to use {requested}.",)
    if asked.tuned:
        notices += (f"Placement by ⟨tune⟩: {in_fixes(asked.tuned)}.",)
    asked = replace(asked.over({"model.offload_min_batch": used}), notices=notices)
    return placed_here(asked, lambda params: fitted(params, known_pairs()))


def query_servers(addresses: Sequence[str]) -> tuple[RpcServer, ...]:
    """Query servers of remote devices for their memory."""
    if not addresses:
        return ()
    from app.llama.devices import build

    if "RPC" not in (backends := build().backends):
        fix = rpc_command(backends, installation(System().name))
        raise UsageError(
            "This llama.cpp is built without RPC and cannot use ⟨rpc⟩.",
            f"Rebuild it (needs a C++ compiler, takes minutes): {fix}",
        )
    return tuple(map(query_server, addresses))


def asked_here(chosen: ChosenPair, local: Callable[[], Rooms], *, use_tuned: bool = True) -> PairParams:
    """Return what the settings request, before memory is estimated; query the servers of remote devices.

    Args:
        local: Lists the memory of this machine.
        use_tuned: Use the placement that was measured to be the fastest, if any.
    """
    servers = query_servers(chosen.process.rpc)
    pair, files, notices = chosen.pair, chosen.files, about_catalog(chosen.pair)
    target = files.target.path if files is not None else _file(pair.target, pair)
    draft: Path | None = None
    if pair.draft is not None:
        try:
            known = files.draft if files is not None else None
            draft = known.path if known is not None else _file(pair.draft, pair, draft=True)
        except ModelLoadError as error:
            notices += (without_draft(error),)
    params = PairParams.of(chosen.settings, target, draft)
    params = replace(params, memory_dir=memory_dir(), notices=notices, preferred_ctx=chosen.preferred_ctx)
    params = _with_draft_type(params, drafts=drafting(chosen.settings) is not None)
    params = replace(params, projector=_projector(params, files), rpc=servers)
    if servers and not params.draft_model.devices:
        # A draft that waits for the network at every token gains nothing.
        here = next((room.name for room in fast_devices(local())), CPU)
        params = replace(params, draft_model=replace(params.draft_model, devices=(here,)))
    return with_tuned_placement(params, local) if use_tuned else params


def _projector(params: PairParams, files: SetUp | None) -> Path | None:
    """Return the projector from the settings, from the setup, or beside the target."""
    wanted = str(params.settings["model.mmproj"])
    if wanted != "auto":
        return home_expanded(wanted) if wanted != "none" else None
    if files is not None and files.projector is not None:
        return files.projector.path
    try:
        header = read_header(params.target, vocabulary=False)
    except ModelFileError:
        # The load reports a missing file.
        return None
    return projector_beside(params.target, header)


def _with_draft_type(params: PairParams, *, drafts: bool) -> PairParams:
    """Apply the setting `draft.type`: load the draft's file, the MTP layers of the target, or neither."""
    wanted = str(params.settings["draft.type"]) if drafts else "none"
    if params.draft is not None and wanted == "auto":
        return params
    try:
        target = read_facts(params.target, vocabulary=False)
        draft = read_facts(params.draft, vocabulary=False) if params.draft is not None else None
    except ModelFileError:
        # The load says what is wrong with the file.
        return params
    uses_file, uses_mtp, notice = select_draft(wanted, target, draft)
    return replace(
        params,
        draft=params.draft if uses_file else None,
        model=replace(params.model, load_mtp=uses_mtp),
        notices=(*params.notices, *filter(None, (notice,))),
    )


def _file(source: ModelSource, pair: Pair, *, draft: bool = False) -> Path:
    if (path := local_file(source, draft=draft)) is None:
        setup = fix("setup", pair.name) if pair.name != FILES else setup_models(*map(str, pair.sources))
        raise PairError(f"{source} is not on this machine yet.", f"Download it: {setup}")
    return path


def placed_here(asked: PairParams, plan: Callable[[PairParams], PairParams]) -> PairParams:
    """Return how a pair is loaded: every layer on a device, unless that is turned off, and with measured threads."""
    params = unless_damaged(asked, plan) if asked.settings["model.fit"] != "off" else asked
    file = stored_measurements.thread_file(params, thread_candidates()) if params.yields_cpu else None
    chosen = stored_measurements.load_threads(file)
    return replace(params, threads=chosen) if chosen is not None else params


def unless_damaged(params: PairParams, plan: Callable[[PairParams], T]) -> T:
    """Plan a pair; leave out a damaged draft with a notice."""
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


def trial(chosen: ChosenPair, cancelled: Callable[[], bool]) -> str:
    """Load and measure a pair as the chat would, and let it answer once; return its speed and notices."""
    # Only a trial answers, and these imports take long.
    from app.worker.responder import answer

    mode = drafting(chosen.settings)
    messages = (Message(Role.USER, _TRIAL_PROMPT),)
    request = AnswerRequest(messages, SamplingParams(temperature=0), mode, max_tokens=_TRIAL_TOKENS)
    loaded = load(chosen, CancelFlag(), lambda share: not cancelled())
    notices = list(loaded.notices)
    try:
        measured = measure(loaded, 0, cancelled) if needs_measuring(loaded, mode) else ()
        for event in chain(measured, answer(loaded, 0, request, Controls(cancelled))):
            if isinstance(event, Notice):
                notices.append(event.text)
            if isinstance(event, Finished):
                if not (event.text.strip() or event.reasoning.strip()) and not cancelled():
                    fix = "Choose another quantization or another model."
                    raise PairError("The pair loads but its answer is empty.", fix)
                return ". ".join(part.rstrip(".") for part in (event.stats.pace, *notices))
    finally:
        loaded.close()
    raise AssertionError
