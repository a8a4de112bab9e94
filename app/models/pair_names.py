"""Words for people that the command line and the screens share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from app.core.errors import AppError
from app.core.shell import command
from app.models.catalog import Pair
from app.models.model_names import apart, known_as
from app.models.registry import SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource

_QUANT = re.compile(r"(?:^|[-._])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|B?F16|F32|MXFP4\w*))(?=[-._]|$)", re.IGNORECASE)
_REPOSITORY = re.compile(r"[-_.]gguf$", re.IGNORECASE)
_DEMO = "SmolLM2-135M-Instruct"
_DEMO_DRAFT = "a smaller copy of it"
SAME_FILE = "the same file"


def pair_texts(pair: Pair, files: SetUp | None = None) -> tuple[str, str]:
    """The target's name with its quantization, and what tells the draft from it; "" without a draft.

    Args:
        pair: The pair.
        files: What was set up for it, if anything was.
    """
    if files is None:
        return source_texts(pair.target, pair.draft)
    draft = files.draft.path.name if pair.draft is not None and files.draft is not None else ""
    return source_texts(pair.target, pair.draft, files.target.path.name, draft)


def source_texts(
    target: ModelSource, draft: ModelSource | None, target_file: str = "", draft_file: str = ""
) -> tuple[str, str]:
    """The same for two models, by where they come from and, where these are known, by the files' names."""
    if isinstance(target, DemoModel):
        return _DEMO, _DEMO_DRAFT if draft is not None else ""
    name, quant, file = _named(target, target_file)
    text = f"{name} {quant}".strip()
    if draft is None:
        return text, ""
    draft_name, draft_quant, other = _named(draft, draft_file)
    if (name, quant) == (draft_name, draft_quant):
        return text, other if other != file else SAME_FILE
    return text, f"{apart(name, draft_name)} {draft_quant}".strip()


def quantization(source: ModelSource) -> str:
    """Return how a source's weights are quantized, by what was asked for or the file's name; "" where neither tells."""
    return _named(source, "")[1].upper()


def title_of(target: ModelSource, draft: ModelSource | None) -> str:
    """Both models in one line, called what they are called everywhere, before either has been looked at."""
    return " + ".join(text for text in source_texts(target, draft) if text)


def _named(source: ModelSource, file: str) -> tuple[str, str, str]:
    """Name, quantization and file of a source, as if it had been loaded: it is called the same before and after."""
    quant = (source.quant or "") if isinstance(source, HubModel) and not file else ""
    match source:
        case _ if file:
            pass
        case HubModel(file=str(path)):
            file = PurePath(path).name
        case HubModel(repo=repo):
            file = _REPOSITORY.sub("", repo.rpartition("/")[2])
        case _:
            file = PurePath(str(source)).name
    return known_as(file, ""), quant or _quant(file), file


def _quant(file: str) -> str:
    stem = PurePath(file).name.removesuffix(".gguf")
    return found[-1].upper() if (found := _QUANT.findall(stem)) else ""


def pair_name(target: ModelSource) -> str:
    """A name for a pair that was put together from its models."""
    match target:
        case HubModel(repo=repo, quant=quant):
            text = f"{repo.rpartition('/')[2]}-{quant}" if quant else repo.rpartition("/")[2]
        case LocalModel(path):
            text = path.stem
        case _:
            text = str(target)
    text = re.sub(r"[-_.]?gguf", "", text.lower())
    return re.sub(r"[^a-z0-9.]+", "-", text).strip("-.") or "pair"


def free_name(pair: Pair, taken: Mapping[str, Pair | None]) -> str:
    """The pair's own name, unless other models have it: then with a number behind it.

    Args:
        pair: The pair.
        taken: The pairs that there are, by name; None for one that nothing is known of.
    """
    number, name = 2, pair.name
    while name in taken and ((other := taken[name]) is None or other.sources != pair.sources):
        name, number = f"{pair.name}-{number}", number + 1
    return name


def setup_command(pair: Pair, *, by_name: bool) -> str:
    """Return what to type to set a pair up: by its name where it has one, otherwise by its models."""
    how = [pair.name] if by_name else model_flags(*map(str, pair.sources))
    return command(["tandem", "setup", *how])


def model_flags(target: str, draft: str = "") -> list[str]:
    """The words of a command that name a pair by its models; without a draft where that is ""."""
    return ["--target", target, *(["--draft", draft] if draft else [])]


def without_draft(error: AppError) -> str:
    """Return what to say where a draft cannot be made or loaded here; its target answers without."""
    return f"Running without a draft. {error.sentences}"
