"""A pair on this machine, as `tandem doctor` shows it: its place, its memory and measurements of earlier answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.core.errors import AppError
from app.core.units import memory_size
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import best_length
from app.engine.drafting_report import Speedup, drafter_off, pair_drafting, rate_range
from app.engine.sources import RETRIED, Source
from app.engine.types import MAX_DRAFT
from app.hardware.checks import Check, Section
from app.hardware.fit import MAIN, Load, Placed
from app.models.memory_estimate import ModelMemory
from app.settings.checking import in_one_line
from app.settings.layers import Layer
from app.settings.placement import ALL_LAYERS, experts_in_ram

TARGET, DRAFT = "target", "draft"


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """One model where it would be loaded; sizes in bytes.

    Attributes:
        role: "target" or "draft".
        device: llama.cpp's names, or `MAIN`.
        layers_offloaded: Layers on the devices; as in llama.cpp, the output counts as one.
        compute: Compute buffers, and what is always in RAM.
        cpu_experts: Layers whose experts are in RAM.
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
    cpu_experts: int = 0

    @property
    def on_cpu(self) -> bool:
        return self.layers_offloaded == 0

    @property
    def in_part(self) -> bool:
        """Some layers are on the CPU, the others on a device."""
        return 0 < self.layers_offloaded < self.layers


@dataclass(frozen=True, slots=True)
class PairView:
    """A pair on this machine.

    Attributes:
        name: As `--pair` takes it.
        why: Why it is this pair, as a clause.
        models: Target and draft; () if they cannot be read.
        measured: llama.cpp estimated the sizes; otherwise they come from the headers.
        trouble: Why it cannot be loaded.
        offers: Alternatives where it does not fit, one line each.
        target_source: As `--target` takes it.
        chosen: The user chose this pair, so that a missing one is a problem.
        recommended: Sampling values that the target's file recommends.
        tuned: Placement that `tandem tune --placement` chose, in words; "" for none.
    """

    name: str
    title: str
    why: str
    models: tuple[ModelPlace, ...] = ()
    needs: tuple[Load, ...] = ()
    measured: bool = False
    trouble: AppError | None = None
    offers: tuple[str, ...] = ()
    target_source: str = ""
    chosen: bool = True
    recommended: Layer = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    tuned: str = ""

    @property
    def target(self) -> ModelPlace | None:
        return next((model for model in self.models if model.role == TARGET), None)

    @property
    def draft(self) -> ModelPlace | None:
        return next((model for model in self.models if model.role == DRAFT), None)


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of earlier answers with a pair on this machine.

    Attributes:
        costs: Costs of batches and drafted tokens.
        drafter: Source of drafts other than n-grams; None for nothing.
        acceptance: Accepted over its drafted tokens; None before enough were judged.
        speedup: Speedup of benchmarks here or else of recent answers; None without enough data.
        has_lost: Automatic drafting turned it off after trying it.
        quiet_ns: Shortest time of a token without drafts, in nanoseconds; 0 if only the present one is known.
    """

    costs: CostModel
    drafter: Source | None = Source.MODEL
    acceptance: float | None = None
    speedup: Speedup | None = None
    has_lost: bool = False
    quiet_ns: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed without drafts while no other program was busy."""
        return 1e9 / (min(self.quiet_ns, self.plain_ns) or self.plain_ns)

    @property
    def recent_tokens_per_second(self) -> float:
        """Speed without drafts in the latest answers."""
        return 1e9 / self.plain_ns

    @property
    def speed(self) -> str:
        """Range from the speed of the latest answers to the quiet one, as text."""
        return rate_range(self.recent_tokens_per_second, self.tokens_per_second)

    @property
    def plain_ns(self) -> float:
        """Nanoseconds of a token without drafts."""
        return self.batch_ns(1)

    @property
    def draft_ns(self) -> float:
        """Nanoseconds of a drafted token; 0 without a drafter."""
        return self.costs.draft_ns(0) if self.drafter is not None else 0.0

    @property
    def draft_cost(self) -> float:
        """Time of a drafted token over that of a token without drafts."""
        return self.draft_ns / self.plain_ns

    @property
    def off(self) -> str:
        """Why the drafter is off; "" if it is on or absent."""
        if self.drafter is None:
            return ""
        return drafter_off(self.costs, self.drafter) or (self.drafter.turned_off(RETRIED) if self.has_lost else "")

    @property
    def drafting(self) -> str:
        """Speedup, or why there is none, as a clause; "" if unknown."""
        return pair_drafting(self.speedup, self.off)

    def batch_ns(self, width: int) -> float:
        """Return the nanoseconds of a batch, interpolated between measured widths."""
        return self.costs.target_ns(width, 0)

    def best_speedup(self, acceptance: float, draft_ns: float) -> float:
        """Return the speedup with the best draft length; 1 where drafting loses."""
        return max(1.0, best_length(self.costs, 0, MAX_DRAFT, draft_ns, acceptance)[0])


def model_place(role: str, need: ModelMemory, placed: Placed) -> ModelPlace:
    """Return a model of a plan."""
    layers = need.n_layers + 1
    on_cpu = placed.devices == (MAIN,) or placed.gpu_layers == 0
    offloaded = layers if placed.gpu_layers == ALL_LAYERS else min(placed.gpu_layers, layers)
    return ModelPlace(
        role=role,
        name=need.name,
        device=MAIN if on_cpu else ", ".join(placed.devices),
        layers_offloaded=0 if on_cpu else offloaded,
        layers=layers,
        weights=need.weights,
        kv=need.kv + need.states + need.snapshots,
        compute=need.compute + need.always_ram,
        n_ctx=need.n_ctx,
        kv_type=need.kv_type,
        cpu_experts=placed.cpu_experts,
    )


def pair_section(view: PairView) -> Section:
    """Check whether a pair can be loaded, and list its place and memory."""
    title = f"{view.name}: {view.title}" if view.title != view.name else view.name
    checks = [Check("ok", "pair", f"{title} ({view.why})")]
    if view.trouble is not None:
        hint = (view.trouble.hint,) if view.trouble.hint else ()
        checks.append(Check("problem" if view.chosen else "warning", "trouble", view.trouble.message, hint))
    checks += [Check("ok", model.role, _model_text(model)) for model in view.models]
    if view.tuned:
        checks.append(Check("ok", "placement", f"{view.tuned}, by tandem tune"))
    checks += [Check("warning", "note", notice) for notice in view.notices]
    if view.recommended:
        checks.append(Check("ok", "sampling", f"{in_one_line(view.recommended)}, recommended by the model file"))
    return Section("the pair", (*checks, *(_room(need, view) for need in view.needs)))


def _model_text(model: ModelPlace) -> str:
    where = f"all {model.layers} layers on {'the CPU' if model.on_cpu else model.device}"
    if model.in_part:
        left = model.layers - model.layers_offloaded
        where = f"{model.layers_offloaded} of {model.layers} layers on {model.device}, {left} on the CPU"
    if model.cpu_experts:
        where += f", {experts_in_ram(model.cpu_experts, model.layers - 1)}"
    return (
        f"{model.name}, {where}: weights {memory_size(model.weights)}, KV cache {memory_size(model.kv)} "
        f"({model.n_ctx:,} tokens, {model.kv_type}), buffers {memory_size(model.compute)}"
    )


def _room(need: Load, view: PairView) -> Check:
    label = "RAM" if need.device == MAIN else need.device
    source = "by llama.cpp" if view.measured else "from the headers"
    needed = memory_size(need.need_bytes)
    text = f"{needed} needed (estimated {source}), {memory_size(need.room_bytes)} free for models"
    if need.need_bytes <= need.room_bytes:
        return Check("ok", label, text)
    problem = f"the pair needs {needed} of {label} ({memory_size(need.room_bytes)} free)"
    return Check("problem", label, text, ("It does not fit. Choose one:", *view.offers), problem)
