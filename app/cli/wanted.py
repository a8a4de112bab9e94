"""From what was asked for to files and numbers; llama.cpp is not loaded for that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.cli.known_pairs import FILES, demo_file
from app.cli.options import Options
from app.core.errors import ModelLoadError, PairError
from app.core.paths import memory_dir
from app.hardware.cpu import thread_candidates
from app.llama import stored_measurements
from app.llama.pair_params import PairParams
from app.llama.stored_measurements import thread_file
from app.models.catalog import Pair
from app.models.pair_names import setup_command, without_draft
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource


def with_threads(params: PairParams) -> PairParams:
    """The same pair with the numbers of threads that `tandem tune` has measured, if it has."""
    file = thread_file(params, thread_candidates())
    chosen = stored_measurements.load_threads(file) if file is not None else None
    if chosen is None:
        return params
    return replace(params, n_threads=chosen.generation, n_threads_batch=chosen.prompt)


def wanted_params(options: Options) -> PairParams:
    """Return what was asked for, before it is held against the machine; see `app.cli.placing`.

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
            how = setup_command(pair, by_name=pair.name != FILES)
            raise PairError(f"{source} is not on this machine yet.", f"Bring it with: {how}")
