"""Checks of a pair for `tandem doctor`: its placement, whether it fits, and what slows it down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.core.fixes import fix
from app.core.units import counted, memory_size
from app.engine.auto.rule import drafter_off
from app.engine.drafting_report import times
from app.engine.sources import Source
from app.hardware.checks import Check
from app.hardware.cpu import Conditions, busy_text
from app.hardware.devices import fast_devices
from app.hardware.measured import Measured
from app.llama.fitting.fit_pair import Fitting
from app.models.memory_estimate import ModelMemory
from app.settings.model_params import ModelParams
from app.settings.placement import ALL_LAYERS, CPU, experts_in_ram

_NOTICEABLE_THROTTLED_SHARE = 0.01
"""Share of throttled periods above which doctor reports it."""
_CAPPED_CLOCK_SHARE = 0.97
"""Clock limit below which the CPU counts as slowed down."""
_GOOD_ACCEPTANCE = 0.8
"""Acceptance of a well-matched pair on code."""
_LOW_ACCEPTANCE = 0.5
_GOOD_DRAFT_COST = 0.1
"""Cost of a drafted token, in tokens of the target, of pairs with a high speedup."""
_NOTICEABLE_FACTOR = 1.05
_WORTH_CHANGING = 1.1


class PlacedModel(NamedTuple):
    """A model of a pair with its placement; as in llama.cpp, the output counts as a layer."""

    role: str
    memory: ModelMemory
    placed: ModelParams

    @property
    def n_layers(self) -> int:
        return self.memory.n_layers + 1

    @property
    def n_offloaded(self) -> int:
        n = 0 if self.placed.on_cpu else self.placed.n_gpu_layers
        return self.n_layers if n == ALL_LAYERS else min(n, self.n_layers)

    @property
    def device(self) -> str:
        return CPU if self.placed.on_cpu else ", ".join(self.placed.devices)

    @property
    def text(self) -> str:
        """Return placement and memory in one line."""
        need, left = self.memory, self.n_layers - self.n_offloaded
        where = f"all {self.n_layers} layers on {self.device if self.n_offloaded else 'the CPU'}"
        if 0 < left < self.n_layers:
            where = f"{self.n_offloaded} of {self.n_layers} layers on {self.device}, {left} on the CPU"
        if self.placed.cpu_experts:
            where += f", {experts_in_ram(self.placed.cpu_experts, need.n_layers)}"
        projector = f", projector {memory_size(need.projector)}" if need.projector else ""
        return (
            f"{need.name}, {where}: weights {memory_size(need.weights)}, KV cache {memory_size(need.context)} "
            f"({need.n_ctx:,} tokens, {need.kv_type}), buffers {memory_size(need.compute + need.always_ram)}"
            f"{projector}"
        )

    def as_json(self) -> dict[str, Any]:
        need = self.memory
        return {
            "role": self.role,
            "name": need.name,
            "device": self.device,
            "layers_offloaded": self.n_offloaded,
            "layers": self.n_layers,
            "weights": need.weights,
            "kv": need.context,
            "compute": need.compute + need.always_ram,
            "projector": need.projector,
            "n_ctx": need.n_ctx,
            "kv_type": need.kv_type,
            "cpu_experts": self.placed.cpu_experts or 0,
        }


@dataclass(frozen=True, slots=True)
class Situation:
    """A pair with its placement, and everything that its speed depends on.

    Attributes:
        source: The target, as `--target` takes it.
        offers: Options if the pair does not fit, one line each.
    """

    found: Fitting
    threads: int
    cores: int
    source: str = "TARGET"
    offers: tuple[str, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)
    measured: Measured | None = None

    @property
    def target(self) -> PlacedModel:
        return PlacedModel("target", self.found.needs.target, self.found.plan.target)

    @property
    def draft(self) -> PlacedModel | None:
        memory, placed = self.found.needs.draft, self.found.plan.draft
        return PlacedModel("draft", memory, placed) if memory is not None and placed is not None else None

    @property
    def models(self) -> tuple[PlacedModel, ...]:
        return (self.target,) if self.draft is None else (self.target, self.draft)

    @property
    def uses_cpu(self) -> bool:
        """Return whether any layer is on the CPU."""
        return any(model.n_offloaded < model.n_layers or model.placed.cpu_experts for model in self.models)

    @property
    def find_command(self) -> str:
        """Return the command that searches for another draft."""
        return f"  {fix('pairs.find', self.source)}"

    def place_checks(self) -> list[Check]:
        """Return the place of each model and the memory of each device."""
        return [*_models(self), *_memory(self)]

    def speed_checks(self) -> list[Check]:
        """Return the measured speed and what slows the pair down, usually the most expensive cause first."""
        return [speed_check(self.measured), *(cause for find in _CAUSE_FUNCTIONS for cause in find(self))]


def _models(s: Situation) -> Iterator[Check]:
    for model in s.models:
        yield Check("ok", model.role, model.text)


def _memory(s: Situation) -> Iterator[Check]:
    source = "by llama.cpp" if s.found.measured else "from the headers"
    for load in s.found.plan.loads:
        label = "RAM" if load.device == CPU else load.device
        needed, room = memory_size(load.need_bytes), memory_size(load.room_bytes)
        text = f"{needed} needed (estimated {source}), {room} free for models"
        problem = f"the pair needs {needed} of {label} ({room} free)"
        hint = ("It does not fit. Choose one:", *s.offers)
        yield Check("problem", label, text, hint, problem) if load.lacking else Check("ok", label, text)


def speed_check(m: Measured | None) -> Check:
    if m is None:
        return Check("ok", "measured", "not measured yet; the first answer measures it, or run:", ("  ⟨tune⟩",))
    parts = [f"{m.speed} without drafts", *filter(None, [m.drafting])]
    if m.draft_ns:
        parts.append(f"a drafted token costs {m.draft_cost:.2f}× a token without draft")
    if m.acceptance is not None and m.draft_ns:
        parts.append(f"acceptance {m.acceptance:.0%}")
    return Check("ok", "measured", ", ".join(parts))


def _cause(label: str, text: str, *hint: str, slowdown: float | None = None) -> Check:
    """Return a warning; a slowdown measured on this machine is part of its text."""
    if slowdown is not None:
        text += f" Without this, answers would be about {times(slowdown)} as fast."
    return Check("warning", label, text, hint, slowdown=slowdown)


# Placement


def _too_little_memory(s: Situation) -> Iterator[Check]:
    for load in [load for load in s.found.plan.loads if load.need_bytes > load.free_bytes][:1]:
        where = "RAM" if load.device == CPU else load.device
        text = (
            f"It needs {memory_size(load.need_bytes)} of {where} ({memory_size(load.free_bytes)} free). The rest "
            "is read again for every token, usually many times slower."
        )
        yield _cause("memory", text, *(s.offers or ("  ⟨setup⟩",)))


def _target_on_cpu(s: Situation) -> Iterator[Check]:
    gpus = fast_devices(s.found.needs.rooms)
    if gpus and not s.target.n_offloaded:
        gpu = gpus[0].name
        text = f"All layers are on the CPU although {gpu} is available, which is usually several times faster."
        yield _cause("target", text, f"  {fix('model.device', gpu)}")


def _target_in_part(s: Situation) -> Iterator[Check]:
    left = s.target.n_layers - s.target.n_offloaded
    if 0 < left < s.target.n_layers:
        text = (
            f"{left} of {s.target.n_layers} layers of the target are on the CPU, and every token waits for them. "
            "Drafting usually gives no speedup then."
        )
        yield _cause("layers", text, "Make all of them fit:", "  ⟨model.gpu_layers=auto⟩ ⟨model.ctx=4096⟩", "  ⟨setup⟩")


def _draft_on_cpu(s: Situation) -> Iterator[Check]:
    target, draft = s.target, s.draft
    # Over a network, a drafted token would take longer than it saves.
    is_here = target.n_offloaded and not target.device.startswith("RPC")
    if is_here and draft is not None and draft.n_offloaded < draft.n_layers:
        where = "partly on the CPU" if draft.n_offloaded else "on the CPU"
        text = f"The draft is {where}, the target on {target.device}. The draft is usually fastest whole on the GPU."
        if s.measured is not None and s.measured.draft_ns:
            text += f" A drafted token takes {s.measured.draft_cost:.2f}× the time of a token without draft here."
        yield _cause("draft", text, f"  {fix('draft.device', target.placed.devices[0])}")


# CPU


def _threads(s: Situation) -> Iterator[Check]:
    quota, usable = s.conditions.quota, s.conditions.usable
    allowed = usable if quota is None else min(usable, max(1, int(quota)))
    most = min(allowed, s.cores)
    if s.uses_cpu and s.threads > most:
        shared = f"{s.cores} cores and {counted(allowed, 'CPU')} that this process may use"
        text = f"{s.threads} threads share {shared}; they usually wait for each other."
        yield _cause("threads", text, f"  {fix('model.threads', most)}")


def _throttled(s: Situation) -> Iterator[Check]:
    share, quota = s.conditions.throttled or 0.0, s.conditions.quota
    if s.uses_cpu and quota is not None and share >= _NOTICEABLE_THROTTLED_SHARE:
        text = f"The container's quota of {quota:g} CPUs ran out in {share:.0%} of its time slices."
        threads = f"  {fix('model.threads', max(1, min(s.threads, int(quota))))}"
        more = "Give the container more CPU time, or use fewer threads:"
        yield _cause("quota", text, more, threads, slowdown=1 / max(0.1, 1 - share))


def _busy(s: Situation) -> Iterator[Check]:
    text = busy_text("Other programs use", s.conditions.others or 0.0, s.conditions.usable)
    if s.uses_cpu and text:
        yield _cause("load", f"{text}.", "Close other programs.")


def _capped(s: Situation) -> Iterator[Check]:
    cap = s.conditions.clock_cap
    if s.uses_cpu and cap is not None and cap <= _CAPPED_CLOCK_SHARE:
        text = f"The CPU clock is limited to {cap:.0%} of its maximum, by power saving or heat."
        yield _cause("clock", text, "Choose the performance power profile; on battery, plug it in.")


# Measurements


def _draft_cost(s: Situation) -> Iterator[Check]:
    m = s.measured
    if m is None or m.drafter is None or not m.draft_ns or len(m.costs.profile.batch_ns) < 2:
        return
    usual = m.best_speedup(_GOOD_ACCEPTANCE, _GOOD_DRAFT_COST * m.plain_ns)
    real = m.best_speedup(_GOOD_ACCEPTANCE, m.draft_ns)
    if m.drafter is Source.MODEL and usual >= _WORTH_CHANGING * real:
        text = (
            f"A drafted token takes {m.draft_cost:.2f}× the time of a token without draft; with a small draft model it "
            f"takes {_GOOD_DRAFT_COST:.2f}×."
        )
        yield _cause("draft size", text, "Look for a smaller draft:", s.find_command, slowdown=usual / real)
    elif drafter_off(m.costs, m.drafter) and not (m.speedup is not None and m.speedup.helps):
        # The measured speed says what drafting would give.
        batch = f"A batch of 2 tokens takes {m.batch_ns(2) / m.plain_ns:.2f}× the time of one"
        text = f"{batch}, and a drafted token {m.draft_cost:.2f}×."
        fix = "N-gram drafting stays on. More cores, a GPU, or a target with more bits (BF16, Q8_0) helps."
        yield _cause("draft off", text, fix)


def _rejected(s: Situation) -> Iterator[Check]:
    m = s.measured
    if m is None or m.acceptance is None or m.acceptance >= _LOW_ACCEPTANCE or len(m.costs.profile.batch_ns) < 2:
        return
    now, usual = m.best_speedup(m.acceptance, m.draft_ns), m.best_speedup(_GOOD_ACCEPTANCE, m.draft_ns)
    # Where the factor is small, a better draft would gain nothing either.
    if usual >= _NOTICEABLE_FACTOR * now:
        measured, usually = f"Measured acceptance is {m.acceptance:.0%}", f"{_GOOD_ACCEPTANCE:.0%} is usual"
        text = f"{measured}; {usually} for code in a well-matched pair."
        fix = "Use a draft of the same family, or a lower temperature:"
        yield _cause("acceptance", text, fix, s.find_command, slowdown=usual / now)


_CAUSE_FUNCTIONS = (
    _too_little_memory,
    _target_on_cpu,
    _target_in_part,
    _draft_on_cpu,
    _threads,
    _throttled,
    _busy,
    _capped,
    _draft_cost,
    _rejected,
)
