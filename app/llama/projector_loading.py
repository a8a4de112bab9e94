"""Load the projector of a pair, after a child process has tried it: llama.cpp aborts on many faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from app.core.child import ChildError, ask
from app.core.errors import AppError, Interrupted, ModelFileError, ModelLoadError
from app.core.pictures import PictureData, read_picture
from app.engine.pictures import part_end
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.child import SafeFiles, not_survived
from app.llama.context import Context
from app.llama.footprint import COMPUTE_BUFFER_LINE, MIB, no_alloc
from app.llama.library import captured_log, start
from app.llama.loading import devices_of
from app.llama.model import Model
from app.llama.params import PairParams
from app.models.gguf import GgufHeader, read_header
from app.models.projector_file import check_projector
from app.settings.model_params import ContextParams, ModelParams
from app.settings.placement import CPU

if TYPE_CHECKING:
    from app.llama.projector import Projector

_TRIAL_S = 3.0
"""Time for a small picture, and for its rows: faults appear in the graph, before anything is computed."""
_CHILD_S = 180.0
_SMALL_SIDE = 32
_N_BATCH = 512
_BOOKKEEPING_BYTES = 6 << 20
"""RAM that libmtmd takes beside weights and buffers, for graphs of up to 8,192 nodes, for any projector."""
_RAM_SHARE = 0.5
"""Largest share of the available RAM with which the child loads the target's weights, to decode a picture."""


def checked_projector(
    params: PairParams, target: GgufHeader, go_on: Callable[[], bool], notices: list[str]
) -> PairParams:
    """Check the projector of a pair; if Tandem chose it and it is unusable, leave it out with a notice.

    Raises:
        ModelFileError: The file that the settings name is unusable.
        ModelLoadError: It is for another target.
        Interrupted: `go_on` returned False.
    """
    if params.projector is not None:
        try:
            check_projector(params.projector, target)
            projector_bytes(params, go_on)
        except (ModelFileError, ModelLoadError) as error:
            _leave_out(params, error, notices)
            return replace(params, projector=None)
    return params


def load_projector(
    params: PairParams, context: Context, cancel: CancelFlag, on_progress: Callable[[float], bool], notices: list[str]
) -> Projector | None:
    """Load a checked projector, if any, on the first device of its target, and attach it to the context."""
    if params.projector is None:
        return None
    # Most pairs need no second native library.
    from app.llama.projector import Projector, ProjectorParams

    shape = ProjectorParams(
        device=next(iter(devices_of(params.model).values()), None),
        n_threads=params.threads.prompt,
        flash_attention=params.settings["model.flash_attn"],
        n_batch=context.n_batch,
    )
    try:
        found = Projector(params.projector, context.model.handle, context.model.name, shape, cancel, on_progress)
    except ModelLoadError as error:
        _leave_out(params, error, notices)
        return None
    context.encode_picture = found.encoded
    return found


def _leave_out(params: PairParams, error: AppError, notices: list[str]) -> None:
    """Add a notice about an unusable projector; raise the error if the settings name the file."""
    if params.settings["model.mmproj"] != "auto":
        raise error
    notices.append(f"Pictures cannot be read. {error.message}")


def projector_bytes(params: PairParams, go_on: Callable[[], bool] = lambda: True) -> tuple[int, int]:
    """Return the memory of a pair's projector on its device, and in RAM; try it if it is new.

    A projector that ended a child before is tried again only if the settings name it.

    Raises:
        DamagedFileError: llama.cpp does not survive it.
        ModelFileError: It is missing, or is no projector.
        ModelLoadError: It is for another target.
        Interrupted: `go_on` returned False.
    """
    path, safe = params.projector, SafeFiles(params.safe_files)
    assert path is not None
    header = read_header(path, tensors=True, vocabulary=False)
    weights = path.stat().st_size - header.data_start
    match safe.found(path, params):
        case [int(compute), int(host)]:
            return weights + compute, host
        case str(ending) if params.settings["model.mmproj"] == "auto":
            raise not_survived(path, ending)
    question = "llama.projector_loading.measure", path, params
    try:
        compute, host = ask(*question, seconds=_CHILD_S, cancelled=lambda: not go_on())
    except ChildError as error:
        if error.crashed:
            safe.add(path, params, str(error))
            raise not_survived(path, str(error)) from error
        raise ModelLoadError(f"{path.name} could not be tried: the child {error}.", "Try again.") from error
    safe.add(path, params, [compute, host])
    return weights + compute, host


def measure(path: Path, params: PairParams) -> tuple[int, int]:
    """Encode and decode a small picture; return the compute buffers in bytes for a large one, and the RAM beside them.

    Runs in the child of `projector_bytes`.
    """
    # The import fails in builds without libmtmd, which the parent reports.
    from app.llama.picture_chunks import mtmd
    from app.llama.projector import LARGEST_SIDE, Projector, ProjectorParams

    start()
    handle = no_alloc(params.target, ModelParams(devices=(CPU,)))
    if not handle:
        raise ModelLoadError(f"{params.target.name} cannot be loaded, so its projector was not tried.", "Try again.")
    end = 0.0
    # Without a warmup, nothing else would turn flash attention on.
    flash_attention = "off" if params.settings["model.flash_attn"] == "off" else "on"
    n_batch = min(_N_BATCH, params.n_ctx or _N_BATCH)
    shape = ProjectorParams(None, params.threads.generation, flash_attention, n_batch, warmup=False)
    projector = Projector(path, handle, params.target.name, shape, lambda: time.monotonic() > end)
    large, process = _square(LARGEST_SIDE), psutil.Process()
    before = process.memory_info().rss
    projector.preprocess(large)
    pixels = max(0, process.memory_info().rss - before)
    with captured_log(mtmd.mtmd_helper_log_set) as log:
        _encode(projector, large)
        compute = max((float(size) for _, size in COMPUTE_BUFFER_LINE.findall(log())), default=0.0)
    end = time.monotonic() + _TRIAL_S
    ids = _encode(projector, _square(_SMALL_SIDE))
    if params.target.stat().st_size <= _RAM_SHARE * psutil.virtual_memory().available:
        _decode(params, ids, projector)
    return round(compute * MIB), pixels + _BOOKKEEPING_BYTES


def _square(side: int) -> PictureData:
    from PIL import Image

    Image.new("RGB", (side, side)).save(file := BytesIO(), "PNG")
    return read_picture(file.getvalue())


def _encode(projector: Projector, picture: PictureData) -> tuple[int, ...]:
    """Encode the first slice of a picture, as zeros if there is no time to compute it; return its ids."""
    (tokens,) = projector.tokens([picture])
    first = next(at for at, token in enumerate(tokens) if token < 0)
    ids = tokens[first : part_end(tokens, first, 1)]
    try:
        projector.encoded(ids)
    except Interrupted:
        projector.encode_as_zeros(ids)
    return ids


def _decode(params: PairParams, ids: tuple[int, ...], projector: Projector) -> None:
    flag = CancelFlag()
    target = Model(open_model_file(params.target), ModelParams(devices=(CPU,)))
    shape = ContextParams(max(_N_BATCH, len(ids)), params.threads)
    context = Context(target, shape, flag)
    context.encode_picture = projector.encoded
    threading.Timer(_TRIAL_S, flag.set).start()
    with suppress(Interrupted):
        for start in range(0, len(ids), context.n_batch):
            context.decode(ids[start : start + context.n_batch], 1)
