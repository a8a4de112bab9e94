"""Names of pairs, and commands that name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from app.core.errors import AppError
from app.core.shell import command
from app.models.catalog import Pair
from app.models.model_names import apart, known_as, quantization
from app.models.registry import SetUp
from app.models.source import HubModel, LocalModel, ModelSource

_REPOSITORY = re.compile(r"[-_.]gguf$", re.IGNORECASE)
_DEMO = "SmolLM2-135M-Instruct"
_DEMO_DRAFT = "a smaller copy of it"
SAME_FILE = "the same file"


def pair_texts(pair: Pair, files: SetUp | None = None) -> tuple[str, str]:
    """Return the target's name with its quantization, and how the draft's name differs; "" without a draft.

    Args:
        pair: The pair.
        files: Its files, if they are here.
    """
    if pair.is_demo:
        return _DEMO, _DEMO_DRAFT if pair.draft is not None else ""
    name, quant, file = _named(pair.target, files.target.path.name if files is not None else "")
    text = f"{name} {quant}".strip()
    if pair.draft is None:
        return text, ""
    draft_file = files.draft.path.name if files is not None and files.draft is not None else ""
    draft_name, draft_quant, draft_file = _named(pair.draft, draft_file)
    if (name, quant) == (draft_name, draft_quant):
        return text, draft_file if draft_file != file else SAME_FILE
    return text, f"{apart(name, draft_name)} {draft_quant}".strip()


def title_of(target: ModelSource, draft: ModelSource | None) -> str:
    """Return both models in one line, before their files are known."""
    return " + ".join(text for text in pair_texts(Pair("", "", target, draft)) if text)


def _named(source: ModelSource, file: str) -> tuple[str, str, str]:
    """Return name, quantization and file of a source as they will be after loading."""
    quant = ""
    if not file:
        file = PurePath(str(source)).name
        if isinstance(source, HubModel):
            quant = source.quant or ""
            file = PurePath(source.file).name if source.file else _REPOSITORY.sub("", source.repo.rpartition("/")[2])
    return known_as(file, ""), quant or quantization(file), file


def pair_name(target: ModelSource) -> str:
    """Return a name for a pair that the user put together."""
    match target:
        case HubModel(repo=repo, quant=quant):
            text = f"{repo.rpartition('/')[2]}-{quant}" if quant else repo.rpartition("/")[2]
        case LocalModel(path):
            text = path.stem
        case _:
            text = str(target)
    text = re.sub(r"[-_.]?gguf", "", text.lower())
    return re.sub(r"[^a-z0-9.]+", "-", text).strip("-.") or "pair"


def free_name(pair: Pair, taken: Mapping[str, Pair]) -> str:
    """Return the pair's name, with a number if other models have it.

    Args:
        pair: The pair.
        taken: All pairs by name.
    """
    number, name = 2, pair.name
    while name in taken and taken[name].sources != pair.sources:
        name, number = f"{pair.name}-{number}", number + 1
    return name


def setup_command(pair: Pair, *, by_name: bool) -> str:
    """Return the command that sets a pair up, by its name or by its models."""
    how = [pair.name] if by_name else model_flags(*map(str, pair.sources))
    return command(["tandem", "setup", *how])


def model_flags(target: str, draft: str = "") -> list[str]:
    """Return the flags that name a pair by its models."""
    return ["--target", target, *(["--draft", draft] if draft else [])]


def without_draft(error: AppError) -> str:
    """Return the notice for a draft that cannot be made or loaded."""
    return f"Running without a draft. {error.sentences}"
