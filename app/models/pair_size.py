"""Download size and memory of a pair, without network access."""

from __future__ import annotations

from dataclasses import replace

from app.core.regular_file import is_file
from app.core.units import GB, gigabytes
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.registry import SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource
from app.models.split_model import parts_here

UNKNOWN, OVER, NO_FILE = "?", ">", "no file"
"""In place of a size, or before what is known of it."""
_DEMO_BYTES = {"target": 98_000_000, "draft": 88_000_000}
"""What the demo extra brings, and what is made of it."""
_CLASS_WEIGHTS, _CLASS_NEED = 0.85, 0.95
"""Weights that a memory class holds, and what a pair for it takes, where sizes are not known."""
_USUAL_DRAFT = 600_000_000
_WORKING_MOST, _WORKING_SHARE = 2_000_000_000, 0.08
"""Caches and buffers before a header is read: as much again as the weights, up to so much, and a share of them besides,
for small models have large caches. What the catalogue's pairs take is guessed to be 0.6 to 1.5 times what it is."""


def model_bytes(source: ModelSource) -> int | None:
    """Bytes of all parts; None where a file is gone, or only the hub knows."""
    match source:
        case HubModel(size=size):
            return size
        case DemoModel(part):
            return _DEMO_BYTES.get(part)
        case LocalModel(path):
            try:
                return sum(part.stat().st_size for part in parts_here(path)) or None
            except (OSError, ValueError):
                return None


def weights(pair: Pair) -> int:
    """Bytes of both models, guessed where the catalogue does not know; 0 without grounds for a guess."""
    target, draft = model_bytes(pair.target), model_bytes(pair.draft) if pair.draft is not None else 0
    if target is None:
        return int(_CLASS_WEIGHTS * pair.memory_gb * GB)
    return target + (draft if draft is not None else _USUAL_DRAFT)


def needed(pair: Pair, n_ctx: int, *, on_card: bool = False) -> int:
    """Bytes of memory that both models take with a context of so many tokens; a guess unless `is_known`.

    Args:
        pair: The pair; one that was made for a shorter context has that.
        n_ctx: Tokens.
        on_card: Whether of a card's own memory; what stays in RAM does not count then.
    """
    n_ctx = min(n_ctx, pair.context or n_ctx)
    working = pair.working
    if model_bytes(pair.target) is None:
        longer = working.per_token * (n_ctx - DEFAULT_CONTEXT) if working is not None else 0
        return int(_CLASS_NEED * pair.memory_gb * GB) + longer
    both = weights(pair)
    if working is not None:
        return both + working.at(n_ctx, on_gpu=on_card)
    return both + int((min(both, _WORKING_MOST) + _WORKING_SHARE * both) * n_ctx / DEFAULT_CONTEXT)


def is_known(pair: Pair) -> bool:
    """Return whether what a pair takes is estimated, not guessed; only the size of its draft may be."""
    return model_bytes(pair.target) is not None and pair.working is not None


def pair_bytes(pair: Pair, files: SetUp | None = None) -> int | None:
    """Bytes of both models; None unless both are known.

    Args:
        pair: The pair.
        files: What was set up for it, if that is still here.
    """
    if files is not None and not any(isinstance(source, LocalModel) for source in pair.sources):
        return sum(model.size for model in files.models)
    # A file of the user's own may have been replaced since it was set up: it tells its size itself.
    sizes = [model_bytes(source) for source in with_files(pair, files).sources]
    return sum(size for size in sizes if size is not None) if None not in sizes else None


def size_text(pair: Pair, files: SetUp | None = None) -> str:
    """Bytes of both models for people: ">14.3 GB" where only the target's are known, "?" where not even these are.

    Args:
        pair: The pair.
        files: What was set up for it, if that is still here.
    """
    if (size := pair_bytes(pair, files)) is not None:
        return gigabytes(size)
    if any(isinstance(source, LocalModel) and not is_file(source.path) for source in pair.sources):
        return NO_FILE
    target = model_bytes(pair.target)
    return f"{OVER}{gigabytes(target)}" if target is not None else UNKNOWN


def with_files(pair: Pair, files: SetUp | None) -> Pair:
    """The pair with what the files that were set up for it say, if any were."""
    if files is None:
        return pair
    draft = with_size(pair.draft, files.draft.size) if pair.draft is not None and files.draft is not None else None
    target, working = with_size(pair.target, files.target.size), files.pair.working or pair.working
    return replace(pair, target=target, draft=draft, working=working)


def with_size(source: ModelSource, size: int) -> ModelSource:
    """The source with the bytes that its files have; those of this machine tell it themselves."""
    return replace(source, size=size) if isinstance(source, HubModel) else source
