"""Pairs, checks and downloads as lines for people."""

from __future__ import annotations

from app.core.printable import printable
from app.core.units import gigabytes, memory_size
from app.models.compatibility import PairCheck
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import ModelFacts
from app.models.progress import FileProgress, Progress, duration, speed
from app.settings.checking import in_one_line

LABEL = 8
"""Columns of a line's label."""


def check_lines(check: PairCheck, *more: str, n_ctx: int = DEFAULT_CONTEXT, problems: bool = True) -> list[str]:
    """Return the result of a check as lines, the verdict last.

    Args:
        check: The result.
        more: Lines to add.
        n_ctx: Context to estimate memory for, in tokens.
        problems: Include the problems.
    """
    lines = [_model_line("target", check.target)]
    if check.draft is not None:
        lines.append(_model_line("draft", check.draft))
    # The recommendations of a draft do not matter: only the target is sampled from.
    if check.target.recommended:
        lines.append(f"makers  recommend {in_one_line(check.target.recommended)}")
    n_ctx = check.context(n_ctx)
    lines.append(f"memory  {memory_size(check.memory_bytes(n_ctx))} with a context of {n_ctx:,} tokens")
    lines += [f"note    {printable(warning)}" for warning in check.warnings]
    if problems:
        lines += [f"problem {printable(problem)}" for problem in check.problems]
    if check.draft is not None and not check.problems:
        lines.append("Compatible: the vocabularies match.")
    return [*lines, *more]


def _model_line(role: str, model: ModelFacts) -> str:
    parts = [model.architecture, parameters(model.n_parameters or 0), model.quant]
    parts += [f"{model.n_layers} layers", gigabytes(model.weight_bytes)]
    if model.n_ctx_train:
        parts.append(f"trained for {model.n_ctx_train:,} tokens")
    parts.append(f"vocabulary {len(model.vocab.tokens):,}")
    if not model.has_chat_template:
        parts.append("no chat template")
    return f"{role:7} {printable(model.name)}: {', '.join(filter(None, parts))}"


def parameters(n: int) -> str:
    """Return a parameter count such as "1.5B parameters"; "" for 0, which means unknown."""
    if not n:
        return ""
    return f"{n / 1e9:.1f}B parameters" if n >= 1e9 else f"{n / 1e6:.0f}M parameters"


def progress_line(progress: Progress) -> str:
    """Return both downloads in one line."""
    parts = [_file_progress(file) for file in progress.files]
    if bytes_per_s := speed(progress.bytes_per_s):
        parts.append(bytes_per_s)
    if progress.left_s is not None and progress.left_s >= 1:
        parts.append(f"{duration(progress.left_s)} left")
    return "  ".join(parts)


def _file_progress(file: FileProgress) -> str:
    if file.waiting:
        seconds = f", again in {file.wait_s:.0f} s" if file.wait_s else ""
        return f"{file.role} {file.waiting.rstrip('.')}{seconds}"
    if file.done >= file.total:
        return f"{file.role} {gigabytes(file.total)} complete"
    return f"{file.role} {gigabytes(file.done)} of {gigabytes(file.total)}"
