"""A pair and where it goes on this machine, as `tandem doctor` shows it: values in, lines out."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.core.errors import AppError
from app.core.units import memory_size
from app.hardware.checks import Line, Section, State
from app.hardware.device_room import MAIN, DeviceRoom
from app.hardware.fit import Placed, Plan
from app.models.memory_estimate import ModelMemory
from app.settings.model_file import Recommended
from app.settings.placement import ALL_LAYERS

TARGET, DRAFT = "target", "draft"


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """One model where it would be loaded.

    Attributes:
        role: "target" or "draft".
        name: Its own name.
        device: llama.cpp's names, or `MAIN`.
        layers_offloaded: Layers on the devices, the output counted as one, as llama.cpp counts them.
        layers: All of them.
        weights: Bytes.
        kv: Bytes of the KV cache.
        compute: Bytes of the buffers of the graph, and of what is in RAM wherever the layers are.
        n_ctx: Tokens that the KV cache holds.
        kv_type: Its type.
    """

    role: str
    name: str
    device: str
    layers_offloaded: int
    layers: int
    weights: int
    kv: int
    compute: int
    n_ctx: int
    kv_type: str

    @property
    def on_cpu(self) -> bool:
        return self.layers_offloaded == 0

    @property
    def in_part(self) -> bool:
        """Some layers are on the CPU, the others on a device."""
        return 0 < self.layers_offloaded < self.layers


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """Bytes that the pair needs of a device, that models may use, and that are free."""

    device: str
    need_bytes: int
    room_bytes: int
    free_bytes: int

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.room_bytes


@dataclass(frozen=True, slots=True)
class PairView:
    """A pair held against this machine.

    Attributes:
        name: What `--pair` takes.
        title: For people.
        why: Why it is this one, as a clause.
        models: Target and, if there is one, draft; () where they cannot be looked at.
        needs: Of each device that is used.
        measured: Whether llama.cpp itself estimated the figures; the headers' arithmetic otherwise.
        trouble: Why it cannot be loaded, or None.
        offers: What to do where it does not fit, a line each.
        target_source: What `--target` takes for its target.
        chosen: Whether somebody chose it; nothing is broken where a stand-in is not installed.
        recommended: The sampling values that the makers of its target recommend.
        notices: What else is to be known of that.
    """

    name: str
    title: str
    why: str
    models: tuple[ModelPlace, ...] = ()
    needs: tuple[DeviceNeed, ...] = ()
    measured: bool = False
    trouble: AppError | None = None
    offers: tuple[str, ...] = ()
    target_source: str = ""
    chosen: bool = True
    recommended: Recommended = field(default_factory=Recommended)
    notices: tuple[str, ...] = ()

    @property
    def target(self) -> ModelPlace | None:
        return next((model for model in self.models if model.role == TARGET), None)

    @property
    def draft(self) -> ModelPlace | None:
        return next((model for model in self.models if model.role == DRAFT), None)


def model_place(role: str, need: ModelMemory, placed: Placed) -> ModelPlace:
    """A model of a plan."""
    layers = need.n_layers + 1
    on_cpu = placed.devices == (MAIN,) or placed.gpu_layers == 0
    wanted = layers if placed.gpu_layers == ALL_LAYERS else min(placed.gpu_layers, layers)
    return ModelPlace(
        role=role,
        name=need.name,
        device=MAIN if on_cpu else ", ".join(placed.devices),
        layers_offloaded=0 if on_cpu else wanted,
        layers=layers,
        weights=need.weights,
        kv=need.kv + need.states + need.snapshots,
        compute=need.compute + need.always_ram,
        n_ctx=need.n_ctx,
        kv_type=need.kv_type,
    )


def device_needs(plan: Plan, rooms: tuple[DeviceRoom, ...]) -> tuple[DeviceNeed, ...]:
    """Return the needs of a plan by device, GPUs first."""
    free = {room.name.lower(): room.free_bytes for room in rooms}
    needs = [DeviceNeed(x.device, x.need_bytes, x.room_bytes, free[x.device.lower()]) for x in plan.loads]
    return tuple(sorted(needs, key=lambda need: need.device == MAIN))


def pair_section(view: PairView) -> Section:
    """Return where the layers of a pair go, and what they take there."""
    lines = [Line("ok", "pair", f"{view.name}: {view.title}" if view.title != view.name else view.name, view.why)]
    if view.trouble is not None:
        state: State = "problem" if view.chosen else "warning"
        lines.append(Line(state, "trouble", view.trouble.message, hint=_hints(view.trouble)))
    lines += [Line("ok", model.role, f"{model.name}, {_where(model)}", _takes(model)) for model in view.models]
    lines += [Line("warning", "note", notice) for notice in view.notices]
    lines += _recommended(view.recommended)
    lines += [_room(need, view) for need in view.needs]
    return Section("the pair", tuple(lines), other="what it takes")


def _hints(error: AppError) -> tuple[str, ...]:
    return (error.hint,) if error.hint else ()


def _where(model: ModelPlace) -> str:
    if model.on_cpu:
        return f"all {model.layers} layers on the CPU"
    if model.in_part:
        left = model.layers - model.layers_offloaded
        return f"{model.layers_offloaded} of {model.layers} layers on {model.device}, {left} on the CPU"
    return f"all {model.layers} layers on {model.device}"


def _takes(model: ModelPlace) -> str:
    return (
        f"weights {memory_size(model.weights)}, KV cache {memory_size(model.kv)} ({model.n_ctx:,} tokens, "
        f"{model.kv_type}), buffers {memory_size(model.compute)}"
    )


def _recommended(found: Recommended) -> list[Line]:
    lines = [Line("ok", "sampling", found.line, "recommended by the model file")] if found.line else []
    return [*lines, Line("warning", "sampling", found.notice)] if found.notice else lines


def _room(need: DeviceNeed, view: PairView) -> Line:
    label = "RAM" if need.device == MAIN else need.device
    free, room = memory_size(need.free_bytes), memory_size(need.room_bytes)
    text = f"{memory_size(need.need_bytes)} needed, {free} free, {room} of it for models"
    how = "estimated by llama.cpp" if view.measured else "estimated from the headers, within a few percent"
    if need.fits:
        return Line("ok", label, text, how)
    return Line("problem", label, text, how, ("It does not fit. Choose one:", *view.offers))
