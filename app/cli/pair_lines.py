"""Pairs, checks and downloads as lines for people."""

from __future__ import annotations

from app.core.printable import printable
from app.core.units import gigabytes
from app.models.compatibility import PairCheck
from app.models.model_facts import ModelFacts
from app.models.progress import FileProgress, Progress, duration, speed
from app.models.recommend import USUAL_CONTEXT

PROBLEM = "problem"
LABEL = 8
"""Columns of a line's label."""


def model_line(role: str, model: ModelFacts) -> str:
    """Return a model's facts in one line."""
    parts = [model.architecture]
    if model.n_parameters:
        parts.append(parameters(model.n_parameters))
    if model.quant:
        parts.append(model.quant)
    parts += [f"{model.n_layers} layers", gigabytes(model.weight_bytes)]
    if model.n_ctx_train:
        parts.append(f"trained for {model.n_ctx_train:,} tokens")
    parts.append(f"vocabulary {len(model.vocab.tokens):,}")
    if not model.has_chat_template:
        parts.append("no chat template")
    return f"{role:7} {printable(model.name)}: {', '.join(parts)}"


def check_lines(check: PairCheck, *more: str, n_ctx: int = USUAL_CONTEXT) -> list[str]:
    """Return the result of a check as lines, the verdict last."""
    lines = [model_line("target", check.target)]
    if check.draft is not None:
        lines.append(model_line("draft", check.draft))
    # A draft is not sampled from, so its recommendations do not matter.
    if check.target.recommended.line:
        lines.append(f"makers  recommend {check.target.recommended.line}")
    n_ctx = check.context(n_ctx)
    lines.append(f"memory  {gigabytes(check.memory_bytes(n_ctx))} with a context of {n_ctx:,} tokens")
    notices = [check.target.recommended.notice] if check.target.recommended.notice else []
    lines += [f"note    {printable(notice)}" for notice in (*check.warnings, *notices)]
    lines += [f"{PROBLEM} {printable(problem)}" for problem in check.problems]
    if check.draft is not None and not check.problems:
        lines.append("Compatible: the vocabularies match.")
    return lines + list(more)


def progress_line(progress: Progress) -> str:
    """Both downloads in one line that overwrites itself."""
    parts = [_file(one) for one in progress.files]
    if at := speed(progress.bytes_per_s):
        parts.append(at)
    if progress.left_s is not None and progress.left_s >= 1:
        parts.append(f"{duration(progress.left_s)} left")
    return "  ".join(parts)


def _file(one: FileProgress) -> str:
    if one.waiting:
        seconds = f", again in {one.wait_s:.0f} s" if one.wait_s else ""
        return f"{one.role} {one.waiting.rstrip('.')}{seconds}"
    if one.done >= one.total:
        return f"{one.role} {gigabytes(one.total)} complete"
    return f"{one.role} {gigabytes(one.done)} of {gigabytes(one.total)}"


def parameters(n: int) -> str:
    """Return a parameter count such as "1.5B parameters"."""
    return f"{n / 1e9:.1f}B parameters" if n >= 1e9 else f"{n / 1e6:.0f}M parameters"
