"""Words for people that the command line and the screens share."""

from __future__ import annotations

import re

from app.source import HubModel, LocalModel, ModelSource


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


def duration(seconds: float) -> str:
    """A time for people."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
