"""Pairs, sizes and times, from the catalogue and the hub to what is shown."""

from __future__ import annotations

import re
from pathlib import PurePath

from app.catalog import Pair
from app.events import ModelInfo
from app.registry import ModelOnDisk, SetUp
from app.source import DemoModel, HubModel, ModelSource
from app.ui.names import draft_name, model_name, quantisation

_QUANT = re.compile(r"(?:^|[-._])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|B?F16|F32|MXFP4\w*))(?=[-._]|$)", re.IGNORECASE)
_REPOSITORY = re.compile(r"[-_.]gguf$", re.IGNORECASE)
_DEMO = "SmolLM2-135M-Instruct"
_DEMO_DRAFT = "a smaller copy of it"


def pair_texts(pair: Pair, files: SetUp | None = None) -> tuple[str, str]:
    """The target's name with its quantisation, and what tells the draft from it; "" without a draft.

    Args:
        pair: The pair.
        files: What was set up for it, if anything was.
    """
    if isinstance(pair.target, DemoModel):
        return _DEMO, _DEMO_DRAFT if pair.draft is not None else ""
    target = _info(pair.target, files.target if files is not None else None)
    text = f"{model_name(target)} {quantisation(target)}".strip()
    if pair.draft is None:
        return text, ""
    draft = _info(pair.draft, files.draft if files is not None else None)
    return text, f"{draft_name(target, draft)} {quantisation(draft)}".strip()


def speed(bytes_per_s: float) -> str:
    """A download's speed for people; "" while it has none."""
    if bytes_per_s < 1000:
        return ""
    return f"{bytes_per_s / 1e6:.0f} MB/s" if bytes_per_s >= 1e6 else f"{bytes_per_s / 1e3:.0f} kB/s"


def _info(source: ModelSource, here: ModelOnDisk | None) -> ModelInfo:
    """The source as if it had been loaded, so that it is called the same before and after."""
    match source:
        case _ if here is not None:
            file, quant = here.path.name, ""
        case HubModel(file=str(path)):
            file, quant = PurePath(path).name, source.quant or ""
        case HubModel(repo=repo):
            file, quant = _REPOSITORY.sub("", repo.rpartition("/")[2]), source.quant or ""
        case _:
            file, quant = PurePath(str(source)).name, ""
    return ModelInfo("", file, quant or _quant(file), 0, 0)


def _quant(file: str) -> str:
    stem = PurePath(file).name.removesuffix(".gguf")
    return found[-1].upper() if (found := _QUANT.findall(stem)) else ""
