"""Pairs with a few settings, and pairs by flags."""

from pathlib import Path
from typing import Any

from app.cli.command_line import parse_args
from app.cli.options import read_pair
from app.engine.types import Threads
from app.llama.params import PairParams
from app.settings.layers import DEFAULTS, Layer
from app.worker.pair_loader import PairLoader


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
    threads = Threads(n_threads, n_threads)
    return PairParams(target, draft, threads, DEFAULTS.over({"model.ctx": n_ctx, **(settings or {})}), **more)


def loader_of(*flags: str) -> PairLoader:
    """Return the loader of the pair that flags of the command line name; the CPU computes with one thread."""
    return read_pair(parse_args(["--threads", "1", *flags]).given)
