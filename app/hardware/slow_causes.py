"""Causes of a slow pair, from placement, CPU and measurements, the most expensive first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.core.shell import quoted
from app.core.units import memory_size
from app.engine.drafting_report import drafter_off, sentence, times
from app.engine.sources import Source
from app.hardware.checks import Check, Section
from app.hardware.cpu import Conditions, busy_text
from app.hardware.fit import MAIN
from app.hardware.pair_view import Measured, PairView

# Slowdowns of causes that were not measured here, for their order only.
_TOO_LITTLE_RAM = 20.0
_TARGET_ON_CPU = 8.0
_TARGET_IN_PART = 6.0
_DRAFT_ON_CPU = 2.3  # 45 against 104 tok/s, llama.cpp#10664
_DRAFT_OFF = 1.05

_NOTICEABLE_THROTTLED_SHARE = 0.01
"""Share of throttled periods that is noticeable."""
_CAPPED_CLOCK_SHARE = 0.97
"""Clock limit below which the CPU counts as slowed down."""
_GOOD_ACCEPTANCE = 0.8
"""Acceptance of a well-matched pair on code."""
_LOW_ACCEPTANCE = 0.5
_GOOD_DRAFT_COST = 0.1
"""Cost of a drafted token, in tokens of the target, of pairs with a high speedup."""
_NOTICEABLE_FACTOR = 1.05
_WORTH_CHANGING = 1.1


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that causes are found in.

    Attributes:
        cores: Physical cores of the machine.
        gpu: A GPU that this build can use; "" without one.
        measured: Of earlier answers; None before the first.
    """

    pair: PairView
    threads: int
    cores: int
    conditions: Conditions = field(default_factory=Conditions)
    gpu: str = ""
    measured: Measured | None = None

    @property
    def uses_cpu(self) -> bool:
        """Any layer is on the CPU."""
        return any(model.layers_offloaded < model.layers or model.cpu_experts for model in self.pair.models)

    @property
    def find_command(self) -> str:
        """Command that looks for another draft."""
        return f"  tandem pairs find {quoted(self.pair.target_source or 'TARGET')}"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a pair is slow.

    Attributes:
        factor: Slowdown; only orders the causes unless it was measured.
        measured: The factor was measured on this machine.
        hint: The fix; commands begin with two spaces.
    """

    label: str
    text: str
    factor: float
    measured: bool
    hint: tuple[str, ...]


def diagnose(s: Situation) -> tuple[Cause, ...]:
    """Return every cause, the most expensive first; () if nothing slows the pair."""
    found = (find(s) for find in _CAUSE_FUNCTIONS)
    return tuple(sorted(filter(None, found), key=lambda cause: -cause.factor))


def speed_section(measured: Measured | None, causes: Sequence[Cause]) -> Section:
    """List the measured speed and the causes."""
    checks = [_speed(measured)]
    for cause in causes:
        gain = f" Without this, answers would be about {times(cause.factor)} as fast."
        text = cause.text + gain * cause.measured
        checks.append(Check("warning", cause.label, text, cause.hint))
    if not causes:
        checks.append(Check("ok", "causes", "none found"))
    return Section("speed and causes", tuple(checks))


def _speed(m: Measured | None) -> Check:
    if m is None:
        return Check("ok", "measured", "not yet; the first answer benchmarks, or now:", ("  tandem tune",))
    parts = [f"{m.speed} without drafts", *filter(None, [m.drafting])]
    if m.draft_ns:
        parts.append(f"a drafted token costs {m.draft_cost:.2f}× a token without draft")
    if m.acceptance is not None and m.draft_ns:
        parts.append(f"acceptance {m.acceptance:.0%}")
    return Check("ok", "measured", ", ".join(parts))


def _unmeasured(label: str, text: str, factor: float, *hint: str) -> Cause:
    return Cause(label, text, factor, measured=False, hint=hint)


# Placement


def _too_little_memory(s: Situation) -> Cause | None:
    need = next((need for need in s.pair.needs if need.need_bytes > need.free_bytes), None)
    if need is None:
        return None
    where = "RAM" if need.device == MAIN else need.device
    text = (
        f"It needs {memory_size(need.need_bytes)} of {where} ({memory_size(need.free_bytes)} free). The rest "
        "is read again for every token, usually many times slower."
    )
    return _unmeasured("memory", text, _TOO_LITTLE_RAM, *(s.pair.offers or ("  tandem setup",)))


def _target_on_cpu(s: Situation) -> Cause | None:
    target = s.pair.target
    if not s.gpu or target is None or not target.on_cpu:
        return None
    text = f"All layers are on the CPU although {s.gpu} is available, which is usually several times faster."
    return _unmeasured("target", text, _TARGET_ON_CPU, f"  --device {s.gpu}")


def _target_in_part(s: Situation) -> Cause | None:
    target = s.pair.target
    if target is None or not target.in_part:
        return None
    left = target.layers - target.layers_offloaded
    text = (
        f"{left} of {target.layers} layers of the target are on the CPU, and every token waits for them. Drafting "
        "usually gives no speedup then."
    )
    factor = 1 + _TARGET_IN_PART * left / target.layers
    return _unmeasured(
        "layers", text, factor, "Make all of them fit:", "  --gpu-layers auto --ctx 4096", "  tandem setup"
    )


def _draft_on_cpu(s: Situation) -> Cause | None:
    target, draft = s.pair.target, s.pair.draft
    if target is None or draft is None or target.on_cpu or draft.layers_offloaded == draft.layers:
        return None
    # Over a network a drafted token would take longer than it saves.
    if target.device.startswith("RPC"):
        return None
    where = "on the CPU" if draft.on_cpu else "partly on the CPU"
    text = f"The draft is {where}, the target on {target.device}. The draft is usually fastest whole on the GPU."
    factor = _DRAFT_ON_CPU
    if s.measured is not None and s.measured.draft_ns:
        text += f" A drafted token takes {s.measured.draft_cost:.2f}× the time of a token without draft here."
        factor = max(factor, 1 + s.measured.draft_cost)
    return _unmeasured("draft", text, factor, f"  --draft-device {target.device.split(', ')[0]}")


# CPU


def _threads(s: Situation) -> Cause | None:
    quota = s.conditions.quota
    allowed = s.conditions.usable if quota is None else min(s.conditions.usable, max(1, int(quota)))
    most = min(allowed, s.cores)
    if not s.uses_cpu or s.threads <= most:
        return None
    text = (
        f"{s.threads} threads share {s.cores} cores and {allowed} CPU{'s' * (allowed != 1)} that this process may "
        "use; they usually wait for each other."
    )
    return _unmeasured("threads", text, s.threads / most, f"  --threads {most}")


def _throttled(s: Situation) -> Cause | None:
    share, quota = s.conditions.throttled, s.conditions.quota
    if not s.uses_cpu or share is None or quota is None or share < _NOTICEABLE_THROTTLED_SHARE:
        return None
    text = f"The container's quota of {quota:g} CPUs ran out in {share:.0%} of its time slices."
    hint = (
        "Give the container more CPU time, or use fewer threads:",
        f"  --threads {max(1, min(s.threads, int(quota)))}",
    )
    return Cause("quota", text, 1 / max(0.1, 1 - share), measured=True, hint=hint)


def _busy(s: Situation) -> Cause | None:
    others, n = s.conditions.others or 0.0, s.conditions.usable
    text = busy_text("Other programs use", others, n)
    if not s.uses_cpu or not text:
        return None
    return _unmeasured("load", f"{text}.", 1 + others / n, "Close other programs.")


def _capped(s: Situation) -> Cause | None:
    cap = s.conditions.clock_cap
    if not s.uses_cpu or cap is None or cap > _CAPPED_CLOCK_SHARE:
        return None
    text = f"The CPU clock is limited to {cap:.0%} of its maximum, by power saving or heat."
    return _unmeasured("clock", text, 1 / cap, "Choose the performance power profile; on battery, plug it in.")


# Measurements


def _draft_cost(s: Situation) -> Cause | None:
    m = s.measured
    if m is None or m.drafter is None or not m.draft_ns or len(m.costs.profile.batch_ns) < 2:
        return None
    usual = m.best_speedup(_GOOD_ACCEPTANCE, _GOOD_DRAFT_COST * m.plain_ns)
    real = m.best_speedup(_GOOD_ACCEPTANCE, m.draft_ns)
    if m.drafter is Source.MODEL and usual >= _WORTH_CHANGING * real:
        text = (
            f"A drafted token takes {m.draft_cost:.2f}× the time of a token without draft; with a small draft model it "
            f"takes {_GOOD_DRAFT_COST:.2f}×."
        )
        hint = ("Look for a smaller draft:", s.find_command)
        return Cause("draft size", text, usual / real, measured=True, hint=hint)
    reason = drafter_off(m.costs, m.drafter)
    if not reason or (m.speedup is not None and m.speedup.helps):
        return None
    text = f"{sentence(reason)} A batch of 2 tokens takes {m.batch_ns(2) / m.plain_ns:.2f}× the time of one."
    fix = "N-gram drafting stays on. More cores, a GPU, or a target with more bits (BF16, Q8_0) helps."
    return _unmeasured("draft off", text, _DRAFT_OFF, fix)


def _rejected(s: Situation) -> Cause | None:
    m = s.measured
    if m is None or m.acceptance is None or m.acceptance >= _LOW_ACCEPTANCE or len(m.costs.profile.batch_ns) < 2:
        return None
    now, usual = m.best_speedup(m.acceptance, m.draft_ns), m.best_speedup(_GOOD_ACCEPTANCE, m.draft_ns)
    if usual < _NOTICEABLE_FACTOR * now:
        # Here a better draft would gain nothing either.
        return None
    text = (
        f"Measured acceptance is {m.acceptance:.0%}; {_GOOD_ACCEPTANCE:.0%} is usual for code in a well-matched pair."
    )
    hint = ("Take a draft of the same family, or a temperature nearer to 0:", s.find_command)
    return Cause("acceptance", text, usual / now, measured=True, hint=hint)


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
