"""Convert settings to the parameters of the engine."""

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
    """Return the sampler chain.

    Raises:
        UsageError: A value is out of range.
    """
    fields: dict[str, Any] = {
        field: settings[f"sampling.{_SAMPLING.get(field, field)}"] for field in SamplingParams.__dataclass_fields__
    }
    return SamplingParams(**fields)


def drafting(settings: Resolved) -> Drafting:
    """Return automatic or fixed drafting, or None; n_min is cut to n_max."""
    match settings["draft.mode"]:
        case "fixed":
            numbers = _numbers(settings)
            return DraftParams(**{**numbers, "n_min": min(numbers["n_min"], numbers["n_max"])})
        case "auto":
            return automatic(settings)
    return None


def automatic(settings: Resolved) -> AutoDraft:
    """Return the parameters of automatic drafting in any mode."""
    source, match = settings["draft.source"], settings["draft.lookup_min_match"]
    assert isinstance(match, int)
    return AutoDraft(source != "lookup", source != "model", match)


def thinking(settings: Resolved) -> Thinking:
    """Return whether to think, and how hard; None leaves it to the model."""
    mode, effort = settings["answer.thinking"], settings["answer.reasoning_effort"]
    return Thinking(None if mode == "auto" else mode == "on", None if effort == "auto" else str(effort))


def check_lengths(settings: Resolved) -> None:
    """Raise UsageError for fixed draft lengths that contradict each other, in any mode."""
    DraftParams(**_numbers(settings))


def contradiction(settings: Resolved) -> str:
    """Return why these settings contradict each other, as a sentence; "" if they do not."""
    try:
        check_lengths(settings)
        sampling(settings)
    except UsageError as error:
        return error.message
    kv_types = (str(settings[name]) for name in ("model.kv_type", "draft.kv_type"))
    if settings["model.flash_attn"] == "off" and any(map(needs_flash_attention, kv_types)):
        return "A quantized KV cache needs flash attention."
    return ""


def pair_layer(chain: SamplingParams, fixed: DraftParams | None, kept: Sequence[str] = ()) -> Layer:
    """Return the settings of a pair's entry.

    Args:
        chain: Its sampling parameters.
        fixed: Its drafting parameters, if it has any.
        kept: Fields of `chain` to include although they equal the default.
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


def _numbers(settings: Resolved) -> dict[str, Any]:
    return {field: settings[f"draft.{field}"] for field in _DRAFT}
