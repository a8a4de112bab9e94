"""Parameters of llama-server that a careful user would set.

`--spec-type` is a list: n-grams are tried before the draft model, and the first proposal is verified.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

DRAFT = ((3, 0.0), (7, 0.6), (15, 0.8))
"""n_max and p_min of the draft model."""
NGRAM = ((12, 48), (4, 7))
"""Tokens that must match, and tokens proposed after a match: the defaults, and the best sizes for the recorded answers
on the cost curves of two CPU cores."""

Flags = list[object]


def rivals(draft: Path | None) -> dict[str, Flags]:
    """Return flags by name: no draft, each source alone, and n-grams before the draft model, if there is one."""
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
