"""How many bytes a model has, as far as that is known without asking the hub."""

from __future__ import annotations

from dataclasses import replace

from app.catalog import Pair
from app.registry import SetUp
from app.regular_file import is_file
from app.sizes import gigabytes
from app.source import DemoModel, HubModel, LocalModel, ModelSource
from app.split_model import parts_here

UNKNOWN, OVER, NO_FILE = "?", ">", "no file"
"""In place of a size, or before what is known of it."""
_DEMO_BYTES = {"target": 98_000_000, "draft": 88_000_000}
"""What the demo extra brings, and what is made of it."""


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
    """The pair with the sizes of the files that were set up for it, if any were."""
    if files is None:
        return pair
    draft = with_size(pair.draft, files.draft.size) if pair.draft is not None and files.draft is not None else None
    return replace(pair, target=with_size(pair.target, files.target.size), draft=draft)


def with_size(source: ModelSource, size: int) -> ModelSource:
    """The source with the bytes that its files have; those of this machine tell it themselves."""
    return replace(source, size=size) if isinstance(source, HubModel) else source
