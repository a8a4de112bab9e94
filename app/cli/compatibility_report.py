"""The result of a compatibility check as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.errors import FileChangedError
from app.core.fixes import command
from app.core.printable import printable
from app.core.units import gigabytes, memory_size
from app.engine.sources import Source
from app.models.compatibility import PairCheck
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import ModelFacts
from app.settings.checking import in_one_line

if TYPE_CHECKING:
    from app.models.resolve import ResolvedModel

LABEL = 8
"""Width of a line's label."""


def check_lines(check: PairCheck, *more: str, n_ctx: int = DEFAULT_CONTEXT, problems: bool = True) -> list[str]:
    """Return the result of a check as lines with a memory estimate for a context; append `more`."""
    lines = [_model_line("target", check.target)]
    if check.draft is not None:
        lines.append(_model_line("draft", check.draft))
        if check.draft.head is not None and check.draft.head.follows_target():
            lines.append("device  the target's: these draft layers share tensors with it")
    elif check.draft_name:
        lines.append(f"draft   {check.draft_name}")
    # Tandem samples only from the target, so the draft's recommended sampling is not shown.
    if check.target.recommended:
        lines.append(f"makers  recommend {in_one_line(check.target.recommended)}")
    n_ctx = check.context(n_ctx)
    lines.append(f"memory  {memory_size(check.memory_bytes(n_ctx))} with a context of {n_ctx:,} tokens")
    lines += [f"note    {printable(warning)}" for warning in check.warnings]
    if problems:
        lines += [f"problem {printable(problem)}" for problem in check.problems]
    if check.draft is not None and check.draft_kind is not None:
        match = f"the draft is {check.draft_kind.with_article} for this target"
        lines.append(f"Compatible: {'the vocabularies match' if check.draft_kind is Source.MODEL else match}.")
    return [*lines, *more]


def projector_lines(projector: ResolvedModel | None) -> list[str]:
    """Return the line about the projector, if any."""
    if projector is None:
        return []
    return [f"vision  {printable(projector.files[0].path)}, {gigabytes(projector.size)}"]


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
    """Return a parameter count such as "1.5B parameters", if it is known."""
    if not n:
        return ""
    return f"{n / 1e9:.1f}B parameters" if n >= 1e9 else f"{n / 1e6:.0f}M parameters"


def current_file_offered(error: FileChangedError, name: str) -> FileChangedError:
    """Return the error for a pair, with the command that uses the repository's current file."""
    fix = command(["tandem", "setup", name, "--latest"])
    return FileChangedError(error.message, f"To use the current file, without a checksum: {fix}")
