"""The settings that say where a pair goes, made into parameters that llama.cpp survives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from app.core.errors import UsageError
from app.llama.params import ModelParams
from app.settings.kinds import Value
from app.settings.layers import Origin, Resolved
from app.settings.placement import ALL_LAYERS, needs_flash_attention

AUTO = "auto"
_DEVICES = ("model.device", "draft.device")


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement settings; the defaults leave it to the plan.

    Attributes:
        model: Of the target.
        draft_model: Of the draft.
        kv_type: Of the target's KV cache.
        draft_kv_type: Of the draft's.
        flash_attention: A key of `FLASH_ATTENTION`.
        fit: Whether to count before loading.
        stored: Whether the devices come from an earlier run; one that is gone since is then replaced, not refused.
        stored_split: Whether the shares of devices that no one names do; where there are more or fewer since, they do
            not count.
    """

    model: ModelParams = field(default_factory=ModelParams)
    draft_model: ModelParams = field(default_factory=lambda: ModelParams(split=False))
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    flash_attention: str = AUTO
    fit: bool = True
    stored: bool = False
    stored_split: bool = False


def read_placement(settings: Resolved) -> Placement:
    """Return where the settings put a pair.

    Raises:
        UsageError: Two of them contradict each other.
    """
    kv_type, draft_kv_type = (_kv_type(settings[name]) for name in ("model.kv_type", "draft.kv_type"))
    flash_attention = str(settings["model.flash_attn"])
    for flag, chosen in (("--kv-type", kv_type), ("--draft-kv-type", draft_kv_type)):
        if flash_attention == "off" and needs_flash_attention(chosen):
            raise UsageError(
                f"{flag} {chosen} needs flash attention, which --flash-attn off turns off.",
                "Leave --flash-attn out, or take the KV type f16.",
            )
    return Placement(
        model=ModelParams(
            n_gpu_layers=_layers(settings["model.gpu_layers"]),
            devices=cast("tuple[str, ...]", settings["model.device"] or ()),
            tensor_split=cast("tuple[float, ...]", settings["model.tensor_split"] or ()),
        ),
        draft_model=ModelParams(
            n_gpu_layers=_layers(settings["draft.gpu_layers"]),
            devices=cast("tuple[str, ...]", settings["draft.device"] or ()),
            split=False,
        ),
        kv_type=kv_type,
        draft_kv_type=draft_kv_type,
        flash_attention=flash_attention,
        stored=any(_is_stored(settings, name) for name in _DEVICES),
        stored_split=_is_stored(settings, "model.tensor_split") and not settings["model.device"],
        fit=settings["model.fit"] == AUTO,
    )


def _is_stored(settings: Resolved, name: str) -> bool:
    return bool(settings[name]) and settings.origin(name) is not Origin.FLAG


def _layers(value: Value) -> int:
    return value if isinstance(value, int) else ALL_LAYERS


def _kv_type(value: Value) -> str:
    return "f16" if value == AUTO else str(value)
