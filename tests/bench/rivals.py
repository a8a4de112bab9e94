"""What a careful person would set by hand on a llama-server, to be raced.

Its `--spec-type` is a list: n-grams are tried before the draft model, whatever their order there, and the first that
proposes anything is what is checked.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

DRAFT = ((3, 0.0), (7, 0.6), (15, 0.8))
"""Longest draft of the model and the least probability of a token in it."""
NGRAM = ((12, 48), (4, 7))
"""Tokens that must match and tokens that are then proposed: the defaults, and sizes that did best, or within a
hundredth of it, with and without the draft model, over the recorded traces on the curves of two processor cores."""

Flags = list[object]


def rivals(draft: Path | None) -> dict[str, Flags]:
    """Flags by name: no draft, each source alone, and n-grams with the draft model behind them.

    Args:
        draft: Draft model; without one only n-gram drafts are left.
    """
    ngrams: dict[str, Flags] = {}
    for n, m in NGRAM:
        name = "ngram-simple" if (n, m) == NGRAM[0] else f"ngram-simple n{n} m{m}"
        ngrams[name] = ["--spec-ngram-simple-size-n", n, "--spec-ngram-simple-size-m", m]
    models: dict[str, Flags] = {}
    for n_max, p_min in DRAFT if draft else ():
        name = f"draft n{n_max} p{p_min:g}"
        models[name] = ["-md", draft, "--spec-draft-n-max", n_max, "--spec-draft-p-min", p_min]
    every: dict[str, Flags] = {"plain": [], "ngram-mod": ["--spec-type", "ngram-mod"]}
    every |= {name: ["--spec-type", "ngram-simple", *flags] for name, flags in ngrams.items()}
    every |= {name: ["--spec-type", "draft-simple", *flags] for name, flags in models.items()}
    for (ngram, sizes), (model, limits) in product(ngrams.items(), models.items()):
        every[f"{ngram}+{model}"] = ["--spec-type", "ngram-simple,draft-simple", *sizes, *limits]
    return {f"server {name}": flags for name, flags in every.items()}
