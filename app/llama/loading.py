"""From a model's file to its weights in memory; what llama.cpp logs on the way says why they are not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from app.core.errors import Interrupted, ModelLoadError
from app.llama import library
from app.llama.library import native
from app.llama.out_of_memory import no_memory, scarce_device
from app.llama.params import CPU_LABEL, ModelParams
from app.llama.placement import label, place
from app.llama.plain import plain
from app.llama.read_ahead import read_ahead

_MMAP, _READ = 1, 0
_REASONS = 8
_READ_SHARE, _READ_SHARE_BESIDE_DEVICE = 0.9, 0.5
"""Share of the progress that stands for reading the file; the rest stands for placing it in memory or on a device."""


def _part(told: Callable[[float], bool], start: float, end: float) -> Callable[[float], bool]:
    """Report a part of the work as a part of the whole."""
    return lambda share: told(start + (end - start) * share)


class _Progress:
    """Tells how far a load is, and stops it.

    Args:
        told: Told the share loaded, 0 to 1; False cancels.
    """

    def __init__(self, told: Callable[[float], bool] | None) -> None:
        self._told = told
        self.cancelled = False
        self.failure: BaseException | None = None

    def __call__(self, share: float, _: object) -> bool:
        try:
            self.cancelled = self._told is not None and not self._told(share)
        except BaseException as error:
            # It would vanish in C; the load is given up, and it is raised behind that.
            self.cancelled, self.failure = True, error
        return not self.cancelled


class Loaded(NamedTuple):
    """A native model, and what it holds bare pointers to: that must live until it is freed."""

    handle: Any
    placement: tuple[Any, ...]
    callback: Any


def load(path: Path, params: ModelParams, on_progress: Callable[[float], bool] | None) -> Loaded:
    """Load weights; for `app.llama.model.Model`, which says what is told and what may be raised."""
    raw = native.llama_model_default_params()
    placement = place(raw, params)
    raw.load_mode = _MMAP if params.use_mmap and native.llama_supports_mmap() else _READ
    read = 0.0
    if on_progress is not None and raw.load_mode == _MMAP:
        read = _READ_SHARE if label(params) == CPU_LABEL else _READ_SHARE_BESIDE_DEVICE
        if not read_ahead(path, _part(on_progress, 0.0, read)):
            raise Interrupted
    progress = _Progress(_part(on_progress, read, 1.0) if on_progress is not None else None)
    callback = native.llama_progress_callback(progress)
    raw.progress_callback = callback
    library.clear_errors()
    handle = native.llama_model_load_from_file(os.fsencode(path), raw)
    if progress.failure is not None:
        if handle:
            # At the last call everything is there already.
            native.llama_model_free(handle)
        raise progress.failure
    if not handle:
        if progress.cancelled:
            raise Interrupted
        raise _refusal(path)
    return Loaded(handle, placement, callback)


def _refusal(path: Path) -> ModelLoadError:
    """Why llama.cpp did not load a file, as far as it said so."""
    if (device := scarce_device(library.last_errors(_REASONS))) is not None:
        return no_memory(device, path.name)
    reason = plain(library.last_errors()) or "no reason was given"
    return ModelLoadError(
        f"llama.cpp could not load {path}: {reason}.",
        "The file may be cut short (download it again), or newer than this llama.cpp.",
    )
