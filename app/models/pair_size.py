"""Download size and memory of a pair, without network access."""

from __future__ import annotations

from dataclasses import replace

from app.core.regular_file import is_file
from app.core.units import GB, gigabytes
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_names import parts_here
from app.models.registry import SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource

UNKNOWN, OVER, NO_FILE = "?", ">", "no file"
"""Text in place of a size, or before a lower bound."""
_DEMO_BYTES = {"target": 98_000_000, "draft": 88_000_000}
_CLASS_WEIGHTS, _CLASS_NEED = 0.85, 0.95
"""Shares of a memory class that the weights and the pair take, if sizes are unknown."""
_USUAL_DRAFT = 600_000_000
_MAX_CACHES, _BUFFER_SHARE = 2_000_000_000, 0.08
"""Caches and buffers before a header is read: as large as the weights up to a maximum, and a share of the weights. For
the catalog's pairs the guess is 0.6 to 1.5 times the true size."""
_KEEP_FREE = 200_000_000
"""Bytes of the disk that downloads leave free."""


def has_room(download_bytes: int, free_bytes: int) -> bool:
    """Return whether a disk with so many free bytes has room for a download."""
    return not download_bytes or download_bytes + _KEEP_FREE <= free_bytes


def model_bytes(source: ModelSource) -> int | None:
    """Return the bytes of all parts; None if the file is gone or only Hugging Face knows."""
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
    """Return the bytes of both models, guessed if the catalog does not know; 0 without a basis for a guess."""
    target, draft = model_bytes(pair.target), model_bytes(pair.draft) if pair.draft is not None else 0
    if target is None:
        return int(_CLASS_WEIGHTS * pair.memory_gb * GB)
    return target + (draft if draft is not None else _USUAL_DRAFT)


def needed(pair: Pair, n_ctx: int, *, on_card: bool = False) -> int:
    """Return the memory of both models with a context of `n_ctx` tokens, in bytes; a guess unless `is_known`.

    Args:
        pair: The pair; its context may be shorter.
        n_ctx: Tokens.
        on_card: Count GPU memory; what stays in RAM does not count then.
    """
    n_ctx = min(n_ctx, pair.context or n_ctx)
    working = pair.working
    if model_bytes(pair.target) is None:
        longer = working.per_token * (n_ctx - DEFAULT_CONTEXT) if working is not None else 0
        return int(_CLASS_NEED * pair.memory_gb * GB) + longer
    both = weights(pair)
    if working is not None:
        return both + working.at(n_ctx, on_gpu=on_card)
    return both + int((min(both, _MAX_CACHES) + _BUFFER_SHARE * both) * n_ctx / DEFAULT_CONTEXT)


def is_known(pair: Pair) -> bool:
    """Return whether the memory of a pair is estimated, not guessed."""
    return model_bytes(pair.target) is not None and pair.working is not None


def pair_bytes(pair: Pair, files: SetUp | None = None) -> int | None:
    """Return the bytes of both models; None unless both are known.

    Args:
        pair: The pair.
        files: Its files, if they are here.
    """
    # A file of the user may have been replaced since its setup, so local sources are measured again.
    sizes = [model_bytes(source) for source in with_files(pair, files).sources]
    return sum(size for size in sizes if size is not None) if None not in sizes else None


def size_text(pair: Pair, files: SetUp | None = None) -> str:
    """Format the size of both models: ">14.3 GB" if only the target's is known, "?" if none is."""
    if (size := pair_bytes(pair, files)) is not None:
        return gigabytes(size)
    if any(isinstance(source, LocalModel) and not is_file(source.path) for source in pair.sources):
        return NO_FILE
    target = model_bytes(pair.target)
    return f"{OVER}{gigabytes(target)}" if target is not None else UNKNOWN


def with_files(pair: Pair, files: SetUp | None) -> Pair:
    """Return the pair with the sizes of its files, if they are here."""
    if files is None:
        return pair
    draft = with_size(pair.draft, files.draft.size) if pair.draft is not None and files.draft is not None else None
    target, working = with_size(pair.target, files.target.size), files.pair.working or pair.working
    return replace(pair, target=target, draft=draft, working=working)


def with_size(source: ModelSource, size: int) -> ModelSource:
    """Return the source with the size of its files; local ones know it themselves."""
    return replace(source, size=size) if isinstance(source, HubModel) else source
