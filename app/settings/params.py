"""From settings to what the engine is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.core.errors import UsageError
from app.engine.types import AutoDraft, Drafting, DraftParams, SamplingParams
from app.settings.kinds import Value
from app.settings.layers import Layer, Resolved
from app.settings.placement import needs_flash_attention
from app.settings.thinking import Thinking

_SAMPLING = {"temperature": "temp"}
_DRAFT = ("n_max", "n_min", "p_min")


def sampling(settings: Resolved) -> SamplingParams:
    """The sampler chain.

    Raises:
        UsageError: It cannot be meant.
    """
    fields: dict[str, Any] = {
        field: settings[f"sampling.{_SAMPLING.get(field, field)}"] for field in SamplingParams.__dataclass_fields__
    }
    return SamplingParams(**fields)


def drafting(settings: Resolved) -> Drafting:
    """Automatic, fixed, or none.

    Raises:
        UsageError: The fixed numbers contradict each other.
    """
    mode = settings["draft.mode"]
    # Also where they do not count: a number that is wrong is told when it is given.
    numbers: dict[str, Any] = {field: settings[f"draft.{field}"] for field in _DRAFT}
    fixed = DraftParams(**numbers)
    if mode == "fixed":
        return fixed
    return automatic(settings) if mode == "auto" else None


def automatic(settings: Resolved) -> AutoDraft:
    """How automatic drafting drafts where it takes part, whatever mode is set."""
    source, match = settings["draft.source"], settings["draft.lookup_min_match"]
    assert isinstance(match, int)
    return AutoDraft(source != "lookup", source != "model", match)


def thinking(settings: Resolved) -> Thinking:
    """Whether to think, and how hard; what is left to the model is None."""
    wanted, effort = settings["answer.thinking"], settings["answer.reasoning_effort"]
    return Thinking(None if wanted == "auto" else wanted == "on", None if effort == "auto" else str(effort))


def contradiction(settings: Resolved) -> str:
    """Why these settings cannot be meant together, as a sentence; "" if they can."""
    try:
        drafting(settings)
        sampling(settings)
    except UsageError as error:
        return error.message
    kv_types = (str(settings[name]) for name in ("model.kv_type", "draft.kv_type"))
    if settings["model.flash_attn"] == "off" and any(map(needs_flash_attention, kv_types)):
        return "A quantised KV cache needs flash attention."
    return ""


def of_pair(chain: SamplingParams, fixed: DraftParams | None, kept: Sequence[str] = ()) -> Layer:
    """What a pair says itself.

    Args:
        chain: Its sampling parameters.
        fixed: Its drafting parameters, if it has any.
        kept: Fields of `chain` in which it says the default itself.
    """
    default = SamplingParams()
    layer: dict[str, Value] = {
        f"sampling.{_SAMPLING.get(field, field)}": getattr(chain, field)
        for field in SamplingParams.__dataclass_fields__
        if field in kept or getattr(chain, field) != getattr(default, field)
    }
    if fixed is not None:
        layer |= {f"draft.{field}": getattr(fixed, field) for field in _DRAFT}
    return layer
