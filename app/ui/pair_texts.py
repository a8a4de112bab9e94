"""Pairs, sizes and times, from the catalogue and the hub to what is shown."""

from __future__ import annotations

import re
from pathlib import PurePath

from app.catalog import Pair
from app.events import ModelInfo
from app.source import DemoModel, HubModel, LocalModel, ModelSource
from app.ui.names import draft_name, model_name, quantisation

_QUANT = re.compile(r"(?:^|[-._])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|B?F16|F32|MXFP4\w*))(?=[-._]|$)", re.IGNORECASE)
_NOISE = re.compile(r"^[A-Za-z-]+_(?=[A-Za-z])|[-_.](?:gguf|instruct|it)(?=[-_.]|$)", re.IGNORECASE)
"""Who made it, before an underscore, and what every chat model is called."""
_DEMO_TARGET, _DEMO_DRAFT = "SmolLM2-135M", "a smaller copy of it"


def pair_texts(pair: Pair) -> tuple[str, str]:
    """The target's name with its quantisation, and what tells the draft from it; "" without a draft."""
    if isinstance(pair.target, DemoModel):
        return _DEMO_TARGET, _DEMO_DRAFT if pair.draft is not None else ""
    target = _info(pair.target)
    text = f"{model_name(target)} {quantisation(target)}".strip()
    if pair.draft is None:
        return text, ""
    draft = _info(pair.draft)
    return text, f"{draft_name(target, draft)} {quantisation(draft)}".strip()


def speed(bytes_per_s: float) -> str:
    """A download's speed for people; "" while it has none."""
    if bytes_per_s < 1000:
        return ""
    return f"{bytes_per_s / 1e6:.0f} MB/s" if bytes_per_s >= 1e6 else f"{bytes_per_s / 1e3:.0f} kB/s"


def _info(source: ModelSource) -> ModelInfo:
    """The source as if it had been loaded, so that it is called the same before and after."""
    match source:
        case HubModel(repo=repo, quant=quant, file=file):
            stem, quant = repo.rpartition("/")[2], quant or _quant(file or "")
        case LocalModel(path):
            stem, quant = path.stem, _quant(path.stem)
        case _:
            stem, quant = str(source), ""
    name = _NOISE.sub("", stem)
    return ModelInfo(name, f"{name}.gguf", quant, 0, 0)


def _quant(file: str) -> str:
    stem = PurePath(file).name.removesuffix(".gguf")
    return found[-1].upper() if (found := _QUANT.findall(stem)) else ""
