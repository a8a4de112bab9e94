"""Parameters of pairs with a few settings."""

from pathlib import Path
from typing import Any

from app.llama.params import PairParams
from app.settings.layers import DEFAULTS, Layer


def pair_params(
    target: Path,
    draft: Path | None,
    n_threads: int = 1,
    n_ctx: int | None = None,
    *,
    settings: Layer | None = None,
    **more: Any,
) -> PairParams:
    """Return a pair with this context, these settings and other parameters."""
    return PairParams(target, draft, n_threads, DEFAULTS.over({"model.ctx": n_ctx, **(settings or {})}), **more)
