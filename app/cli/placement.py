"""The flags that say where a pair goes, read into settings that llama.cpp survives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.engine.text import printable
from app.errors import UsageError
from app.hardware.rpc import parse_endpoint
from app.llama.params import ALL_LAYERS, CPU, FLASH_ATTENTION, KV_TYPES, ModelParams, needs_flash_attention

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Placement:
    """What the flags say about placement; the defaults leave it to the plan.

    Attributes:
        model: Of the target.
        draft_model: Of the draft.
        kv_type: Of the target's KV cache.
        draft_kv_type: Of the draft's.
        flash_attention: A key of `FLASH_ATTENTION`.
        fit: Whether to count before loading.
        rpc: Servers whose devices take part, as "host:port".
        stored: Whether the devices come from an earlier run; one that is gone since is then replaced, not refused.
    """

    model: ModelParams = field(default_factory=ModelParams)
    draft_model: ModelParams = field(default_factory=lambda: ModelParams(split=False))
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    flash_attention: str = AUTO
    fit: bool = True
    rpc: tuple[str, ...] = ()
    stored: bool = False


def read_placement(given: dict[str, Any]) -> Placement:
    """The flags' placement.

    Raises:
        UsageError: A value cannot be meant, or two contradict each other.
    """
    draft_devices = _devices(given.get("draft_device", AUTO))
    if len(draft_devices) > 1:
        raise UsageError(
            "--draft-device takes one device: a draft that is split over several is slower than one that waits.",
            f"For example: --draft-device {draft_devices[0]}",
        )
    kv_type, draft_kv_type = _kv_type(given, "kv_type"), _kv_type(given, "draft_kv_type")
    flash_attention = given.get("flash_attn", AUTO)
    if flash_attention not in FLASH_ATTENTION:
        raise UsageError(f'--flash-attn is "{flash_attention}"; it must be one of {", ".join(FLASH_ATTENTION)}.')
    for flag, chosen in (("--kv-type", kv_type), ("--draft-kv-type", draft_kv_type)):
        if flash_attention == "off" and needs_flash_attention(chosen):
            raise UsageError(
                f"{flag} {chosen} needs flash attention, which --flash-attn off turns off.",
                "Leave --flash-attn out, or take the KV type f16.",
            )
    fit = given.get("fit", AUTO)
    if fit not in (AUTO, "off"):
        raise UsageError(f'--fit is "{fit}"; it must be auto or off.')
    return Placement(
        model=ModelParams(
            n_gpu_layers=_layers(given, "gpu_layers"),
            devices=_devices(given.get("device", AUTO)),
            tensor_split=_shares(given.get("tensor_split", AUTO)),
        ),
        draft_model=ModelParams(n_gpu_layers=_layers(given, "draft_gpu_layers"), devices=draft_devices, split=False),
        kv_type=kv_type,
        draft_kv_type=draft_kv_type,
        flash_attention=flash_attention,
        fit=fit == AUTO,
        rpc=_servers(given.get("rpc", [])),
    )


def _devices(text: str) -> tuple[str, ...]:
    if text.lower() == AUTO:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    return tuple(CPU if name.lower() == CPU else name for name in names)


def _servers(texts: Sequence[str]) -> tuple[str, ...]:
    found = tuple(str(parse_endpoint(text)) for text in texts)
    if len(set(found)) != len(found):
        raise UsageError("--rpc names a server twice.", "Name each once; all devices of a server take part.")
    return found


def _layers(given: dict[str, Any], flag: str) -> int:
    text = str(given.get(flag, AUTO)).lower()
    if text in (AUTO, "all"):
        return ALL_LAYERS
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise UsageError(f'--{flag.replace("_", "-")} is "{printable(text)}"; it must be a number of layers, or auto.')
    return int(text)


def _shares(text: str) -> tuple[float, ...]:
    if text.lower() == AUTO:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f'--tensor-split is "{printable(text)}"; it must be a share for each device, or auto.',
            "For example: --tensor-split 3,1",
        ) from None


def _kv_type(given: dict[str, Any], flag: str) -> str:
    text: str = given.get(flag, AUTO)
    if text not in (AUTO, *KV_TYPES):
        raise UsageError(
            f'--{flag.replace("_", "-")} is "{printable(text)}"; it must be auto or one of {", ".join(KV_TYPES)}.'
        )
    return "f16" if text == AUTO else text
