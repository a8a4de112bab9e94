"""Placements that `tandem tune --placement` compares, and the chosen placement of a pair.

llama.cpp reads the op offload threshold once per process, so each placement is measured in a child.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.core import atomic
from app.core.fixes import fix
from app.engine.auto.cost_profile import CostProfile
from app.engine.sources import Source
from app.hardware.cpu import processor_kind
from app.hardware.devices import fast_devices
from app.hardware.fit import Rooms
from app.llama.fitting.fit_pair import Fitting
from app.llama.installed import build_identity
from app.llama.params import PairParams
from app.llama.stored_measurements import fingerprint
from app.models.draft_kinds import kind_of_file
from app.settings.layers import Layer, Origin
from app.settings.placement import ALL_LAYERS, CPU, TUNED, WIDE_KV
from app.settings.table import BY_NAME

FORMAT = 1
_OFFLOAD_THRESHOLDS = (128, 16, 8, 4)
"""Op offload thresholds to try beside llama.cpp's 32. No draft needs a batch of 128, so only prompts use 128."""


def in_fixes(placement: Layer) -> str:
    """Return the settings of a placement for a sentence."""
    return " ".join(fix(name, BY_NAME[name].kind.show(value)) for name, value in placement.items())


def _automatic(params: PairParams) -> frozenset[str]:
    return frozenset(name for name in TUNED if params.settings.origin(name) is Origin.DEFAULT)


def candidate_placements(found: Fitting) -> list[Layer]:
    """Return the placements to compare; the first is the automatic placement.

    If a placement does not fit, as many layers as possible go to the GPU. A mixture whose experts are partly in RAM is
    also compared with whole layers in RAM.
    """
    params, pair, draft = found.params, found.needs, found.plan.draft
    target = pair.target
    placements: list[Layer] = [{}]
    if target.can_quantize_cache and target.kv_type in WIDE_KV and params.settings["model.flash_attn"] != "off":
        placements.append({"model.kv_type": "q8_0"})
    draft_on_gpu = draft is not None and not draft.on_cpu
    if draft_on_gpu and params.draft is not None and kind_of_file(params.draft) == Source.MODEL:
        placements.append({"draft.device": (CPU,)})
    layers = range(target.n_layers, 0, -1)
    for placement in placements[:]:
        if not pair.over(placement).plan().fits or (not placement and found.plan.n_in_ram):
            partly = ({**placement, "model.gpu_layers": n} for n in layers)
            fitting = next((one for one in partly if pair.over(one).plan().fits), None)
            placements += [fitting] if fitting is not None else []
    return [placement for placement in placements if placement.keys() <= _automatic(params)]


def offload_candidates(placement: Layer, found: Fitting) -> list[Layer]:
    """Return a placement with other op offload thresholds; [] if the GPU has all weights."""
    target, model = found.plan.target, found.params.model
    in_ram = target.cpu_experts or target.n_gpu_layers != ALL_LAYERS or model.overrides
    if not in_ram or model.on_cpu or "model.offload_min_batch" not in _automatic(found.params):
        return []
    return [{**placement, "model.offload_min_batch": n} for n in _OFFLOAD_THRESHOLDS]


def measure(params: PairParams, budget_ns: int, passes: int) -> tuple[CostProfile, bool]:
    """Load a pair and measure its costs, in the child of `tandem tune --placement`.

    Returns:
        The costs, and whether a draft model or draft layers are loaded.
    """
    from app.llama.cancel import CancelFlag
    from app.llama.library import use_offload
    from app.llama.pair import NativePair

    use_offload(params.settings["model.offload_min_batch"])
    pair = NativePair(params, CancelFlag(), lambda share: True)
    for _ in pair.remeasure_costs(lambda: False, budget_ns=budget_ns, passes=passes):
        pass
    assert pair.memory is not None
    return pair.memory.costs.profile, pair.drafter is not None


# The chosen placement


def with_tuned_placement(params: PairParams, local: Callable[[], Rooms]) -> PairParams:
    """Return a pair in the placement chosen for it on this machine, if any; `local` lists the devices."""
    file = placement_file(params)
    # Listing devices takes a child process.
    placement = load_placement(file, local()) if file is not None and file.is_file() else None
    return replace(params.over(placement), tuned=placement) if placement else params


def placement_file(params: PairParams) -> Path | None:
    """Return the file of the placement chosen for a pair with its settings; None if nothing can be stored."""
    if params.memory_dir is None:
        return None
    try:
        models = [fingerprint(path) for path in (params.target, params.draft) if path is not None]
    except OSError:
        return None
    caches = params.kv_type, params.draft_kv_type, params.settings["model.flash_attn"]
    requested, automatic = (params.model, params.draft_model, *caches), sorted(_automatic(params))
    parts = (models, requested, params.n_ctx, params.addresses, automatic, build_identity(), processor_kind())
    return params.memory_dir / "placements" / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}.json"


def save_placement(file: Path | None, placement: Layer, rooms: Rooms) -> None:
    """Store the placement chosen for these devices; the automatic placement removes the file. Raises OSError."""
    if file is not None and placement:
        atomic.write_json(file, {"format": FORMAT, "devices": _devices(rooms), "settings": placement})
    elif file is not None:
        file.unlink(missing_ok=True)


def load_placement(file: Path, rooms: Rooms) -> Layer | None:
    """Read a placement chosen for these devices, if there is a usable one."""

    def checked(raw: Any) -> Layer:
        chosen = raw["settings"] if raw["devices"] == _devices(rooms) else {}
        found = {name: BY_NAME[name].kind.read(chosen[name]) for name in TUNED if name in chosen}
        return {name: value for name, value in found.items() if value != BY_NAME[name].default}

    return atomic.read_json(file, FORMAT, checked)


def _devices(rooms: Rooms) -> list[str]:
    return [f"{room.name} {room.description} {room.total_bytes}" for room in fast_devices(rooms)]
