"""How many bytes a model has, as far as that is known without asking the hub."""

from __future__ import annotations

from app.catalog import Pair
from app.gguf import split_parts
from app.registry import SetUp
from app.source import DemoModel, HubModel, LocalModel, ModelSource

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
                return sum(part.stat().st_size for part in split_parts(path)) or None
            except OSError:
                return None


def pair_bytes(pair: Pair, files: SetUp | None = None) -> int | None:
    """Bytes of both models; None unless both are known.

    Args:
        pair: The pair.
        files: What was set up for it, if that is still here.
    """
    if files is not None:
        return sum(model.size for model in files.models)
    sizes = [model_bytes(source) for source in pair.sources]
    return sum(size for size in sizes if size is not None) if None not in sizes else None
