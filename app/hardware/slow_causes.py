"""Causes of a slow pair, found in facts and measurements, the most expensive first.

A cause that was measured carries its factor; the weight of any other only orders the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.core.shell import quoted
from app.core.units import memory_size
from app.engine.drafting_report import rate, sentence, times
from app.hardware.busy import taking
from app.hardware.checks import Line, Section
from app.hardware.conditions import Conditions
from app.hardware.device_room import MAIN
from app.hardware.measured import Measured
from app.hardware.pair_view import TARGET, PairView


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the causes are found in.

    Attributes:
        pair: Where its layers go.
        threads: Given to llama.cpp.
        cores: Physical ones of the machine.
        conditions: Of the processor at the moment.
        gpu: A GPU that this build can use; "" if there is none.
        software: Names of devices that the processor plays.
        unused_gpu: One that it cannot use, where it uses none; "" if there is none.
        command: Installs a build that could; "" where there is none.
        draft_n_ctx_train: Tokens that the draft was trained for; 0 where not known.
        resident: Share of the target's file that is in memory; None where not known.
        measured: Of earlier answers; None before the first.
    """

    pair: PairView
    threads: int
    cores: int
    conditions: Conditions = field(default_factory=Conditions)
    gpu: str = ""
    software: tuple[str, ...] = ()
    unused_gpu: str = ""
    command: str = ""
    draft_n_ctx_train: int = 0
    resident: float | None = None
    measured: Measured | None = None

    @property
    def uses_cpu(self) -> bool:
        """Any layer is on the CPU."""
        return any(model.layers_offloaded < model.layers for model in self.pair.models)

    @property
    def source(self) -> str:
        """The target for `tandem pairs find`."""
        return self.pair.target_source or "TARGET"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a pair is slow.

    Attributes:
        label: In a word or two.
        text: What is so, as a sentence.
        factor: What it multiplies the time of an answer by; for the order only, unless it was measured.
        measured: Whether the factor was measured on this machine.
        hint: The fix; commands begin with two spaces.
    """

    label: str
    text: str
    factor: float
    measured: bool
    hint: tuple[str, ...]


_WIDE_KV = ("f16", "bf16", "f32")

# Weights for the order of causes that no one measured here, from reports in llama.cpp's own threads.
_WEIGHT_PAGED = 20.0
_WEIGHT_NO_GPU = 8.0
_WEIGHT_SOFTWARE = 60.0  # 3 against 186 t/s, 0.54 against 39, lavapipe
_WEIGHT_IN_PART = 6.0
_WEIGHT_DRAFT_ON_CPU = 2.3  # 45 against 103.9 t/s, llama.cpp#10664
_WEIGHT_KV = 1.8  # 81 against 45 t/s while drafting, llama.cpp#10552
_WEIGHT_SHORT = 1.3


def _paged(s: Situation) -> Cause | None:
    """The pair needs more memory than is free."""
    short = [need for need in s.pair.needs if need.need_bytes > need.free_bytes]
    if not short:
        return None
    need = short[0]
    where = "RAM" if need.device == MAIN else need.device
    text = (
        f"It needs {memory_size(need.need_bytes)} of {where}, and {memory_size(need.free_bytes)} are free. The "
        "rest is read again for every token, usually many times slower."
    )
    return Cause("memory", text, _WEIGHT_PAGED, measured=False, hint=s.pair.offers or ("  tandem setup",))


def _no_gpu(s: Situation) -> Cause | None:
    if not s.unused_gpu or not s.command:
        return None
    slower = "the integrated GPU" if s.gpu else "the CPU"
    text = f"The {s.unused_gpu} is not used: this llama.cpp is built without support for it. A GPU is usually "
    return Cause(
        "build",
        text + f"several times faster than {slower}.",
        _WEIGHT_NO_GPU,
        measured=False,
        hint=(f"  {s.command}",),
    )


def _on_cpu(s: Situation) -> Cause | None:
    """A flag keeps the target off a usable GPU."""
    target = s.pair.target
    if not s.gpu or target is None or not target.on_cpu:
        return None
    text = f"All layers are on the CPU although {s.gpu} is available, which is usually several times faster."
    return Cause("target", text, _WEIGHT_NO_GPU, measured=False, hint=(f"  --device {s.gpu}",))


def _software(s: Situation) -> Cause | None:
    """Layers are on a software renderer."""
    there = [m for m in s.pair.models if not m.on_cpu and set(m.device.split(", ")) & set(s.software)]
    if not there:
        return None
    flag = "--device" if there[0].role == TARGET else "--draft-device"
    text = (
        f"The {there[0].role} is on {there[0].device}, a software renderer on the CPU, usually tens of times slower "
        "than the CPU itself."
    )
    return Cause("software", text, _WEIGHT_SOFTWARE, measured=False, hint=(f"  {flag} cpu",))


def _in_part(s: Situation) -> Cause | None:
    target = s.pair.target
    if target is None or not target.in_part:
        return None
    left = target.layers - target.layers_offloaded
    text = (
        f"{left} of {target.layers} layers of the target are on the CPU, and every token waits for them. Drafting "
        "usually gives no speedup then."
    )
    weight = 1 + _WEIGHT_IN_PART * left / target.layers
    hint = ("Make all of them fit:", "  --gpu-layers auto --ctx 4096", "  tandem setup")
    return Cause("layers", text, weight, measured=False, hint=hint)


def _draft_on_cpu(s: Situation) -> Cause | None:
    target, draft = s.pair.target, s.pair.draft
    if target is None or draft is None or target.on_cpu or draft.layers_offloaded == draft.layers:
        return None
    # Over a network a drafted token would wait for longer than it saves.
    if set(target.device.split(", ")) & set(s.software) or target.device.startswith("RPC"):
        return None
    where = "on the CPU" if draft.on_cpu else "partly on the CPU"
    text = f"The draft is {where}, the target on {target.device}. The draft is usually fastest whole on the GPU."
    hint = (f"  --draft-device {target.device.split(', ')[0]}",)
    if s.measured is None or not s.measured.draft_ns:
        return Cause("draft", text, _WEIGHT_DRAFT_ON_CPU, measured=False, hint=hint)
    ratio = s.measured.draft_ns / s.measured.plain_ns
    text += f" A drafted token takes {ratio:.2f}× the time of a token without draft here."
    return Cause("draft", text, max(_WEIGHT_DRAFT_ON_CPU, 1 + ratio), measured=False, hint=hint)


def _kv(s: Situation) -> Cause | None:
    narrow = [model for model in s.pair.models if model.kv_type not in _WIDE_KV]
    if not narrow:
        return None
    model = narrow[0]
    text = (
        f"The KV cache of the {model.role} is {model.kv_type}. Reading it takes longer with every token; others have "
        "measured 81 tok/s with f16 against 45 with q8_0 while drafting."
    )
    flag = "--kv-type" if model.role == "target" else "--draft-kv-type"
    return Cause("KV cache", text, _WEIGHT_KV, measured=False, hint=(f"  {flag} f16",))


def _short(s: Situation) -> Cause | None:
    target, draft = s.pair.target, s.pair.draft
    if target is None or draft is None:
        return None
    trained = s.draft_n_ctx_train or draft.n_ctx
    reach = min(draft.n_ctx, trained)
    if reach >= target.n_ctx:
        return None
    text = (
        f"The draft has a context of {reach:,} tokens, the target {target.n_ctx:,}. Beyond that, few drafted tokens "
        "are accepted."
    )
    return Cause("context", text, _WEIGHT_SHORT, measured=False, hint=(f"  --ctx {reach}",))


_PLACEMENT = (_paged, _no_gpu, _on_cpu, _software, _in_part, _draft_on_cpu, _kv, _short)


_CUT = 0.01
_CAPPED = 0.97
_COLD = 0.9

# For the order alone, as in `placement`.
_WEIGHT_SIBLINGS = 1.2
_WEIGHT_HEAT = 1.15
_WEIGHT_COLD = 1.1


def _threads(s: Situation) -> Cause | None:
    if not s.uses_cpu:
        return None
    quota = s.conditions.quota
    allowed = min(s.conditions.usable, s.conditions.usable if quota is None else max(1, int(quota)))
    if s.threads > allowed:
        text = (
            f"{s.threads} threads share {allowed} CPU{'s' * (allowed != 1)} that this process may use; they "
            "usually wait for each other in every layer."
        )
        return Cause("threads", text, s.threads / allowed, measured=False, hint=(f"  --threads {allowed}",))
    if s.threads > s.cores:
        text = f"{s.threads} threads on {s.cores} cores: two on one core usually slow each other down."
        return Cause("threads", text, _WEIGHT_SIBLINGS, measured=False, hint=(f"  --threads {s.cores}",))
    return None


def _throttled(s: Situation) -> Cause | None:
    share = s.conditions.throttled
    if not s.uses_cpu or share is None or share < _CUT:
        return None
    quota = s.conditions.quota
    limit = f" of {quota:g} CPUs" if quota is not None else ""
    text = f"The container's quota{limit} ran out in {share:.0%} of its time slices."
    hint = "Give the container more CPU time, or use fewer threads:"
    fewer = max(1, min(s.threads, int(quota)) if quota is not None else s.threads // 2)
    return Cause("quota", text, 1 / max(0.1, 1 - share), measured=True, hint=(hint, f"  --threads {fewer}"))


def _busy(s: Situation) -> Cause | None:
    taken = s.conditions.busy.others if s.conditions.busy is not None else 0.0
    return _shared(s, "load", "Other programs use", taken, "Close other programs.")


def _another_tandem(s: Situation) -> Cause | None:
    taken = s.conditions.busy.tandems if s.conditions.busy is not None else 0.0
    return _shared(s, "tandem", "Another Tandem uses", taken, "Wait until it has answered.")


def _shared(s: Situation, label: str, who: str, taken: float, hint: str) -> Cause | None:
    n = s.conditions.processors
    told = taking(who, taken, n)
    if not s.uses_cpu or not told:
        return None
    return Cause(label, f"{told}.", 1 + taken / n, measured=False, hint=(hint,))


def _capped(s: Situation) -> Cause | None:
    cap = s.conditions.clock_cap
    if not s.uses_cpu or cap is None or cap > _CAPPED:
        return None
    text = f"The CPU clock is limited to {cap:.0%} of its maximum, by power saving or heat."
    hint = ("Choose the performance power profile; on battery, plug it in.",)
    return Cause("clock", text, 1 / cap, measured=False, hint=hint)


def _heat(s: Situation) -> Cause | None:
    events = s.conditions.heat_events
    if not s.uses_cpu or not events:
        return None
    text = f"The CPU throttled because of heat {events:,} times since boot."
    hint = ("Improve cooling, or use fewer threads with --threads.",)
    return Cause("heat", text, _WEIGHT_HEAT, measured=False, hint=hint)


def _cold(s: Situation) -> Cause | None:
    if s.resident is None or s.resident > _COLD:
        return None
    text = f"{1 - s.resident:.0%} of the target's file is not in memory: the first answer waits for the disk."
    return Cause("file", text, _WEIGHT_COLD, measured=False, hint=("It is read once; a second answer is faster.",))


_PROCESSOR = (_threads, _throttled, _busy, _another_tandem, _capped, _heat, _cold)


_GOOD = 0.8
"""Acceptance of a draft model of the same family on code; what a low one is held against."""
_LOW = 0.5
_GROWN = 1.3
"""Costs scatter by a tenth from run to run."""
_NOTICEABLE = 1.05
_USUAL_DRAFT = 0.1
"""Of a plain token's time; what pairs that gain much have."""
_WORTH_CHANGING = 1.1


def _big_draft(s: Situation) -> Cause | None:
    """The draft model is too expensive for a good speedup."""
    m = s.measured
    if m is None or not m.draft_ns or len(m.rows) < 2:
        return None
    usual, real = m.best_speed(_GOOD, _USUAL_DRAFT * m.plain_ns), m.best_speed(_GOOD, m.draft_ns)
    if usual < _WORTH_CHANGING * real:
        return None
    text = (
        f"A drafted token takes {m.draft_ns / m.plain_ns:.2f}× the time of a token without draft. "
        f"At {_GOOD:.0%} acceptance the estimated "
        f"speedup is {real:.2f}×; with a draft model of {_USUAL_DRAFT:.0%} it would be {usual:.2f}×."
    )
    hint = ("Look for a smaller draft:", f"  tandem pairs find {quoted(s.source)}")
    return Cause("draft size", text, usual / real, measured=True, hint=hint)


def _expensive_batches(s: Situation) -> Cause | None:
    """Verifying several tokens costs as much as decoding them one by one."""
    m = s.measured
    if m is None or len(m.rows) < 2 or m.best_speed(_GOOD, 0.0) >= _NOTICEABLE or m.has_helped:
        return None
    width = min(n for n in m.rows if n > 1)
    text = (
        f"A batch of {width} tokens takes {m.rows[width] / m.plain_ns:.2f}× the time of one: this CPU "
        f"is limited by compute, not memory, so drafts give no speedup at {_GOOD:.0%} acceptance."
    )
    if m.cannot_pay:
        text += " N-gram drafting is used where it is nearly always right."
    hint = ("More cores, a GPU, or a target with more bits (BF16, Q8_0) helps.",)
    return Cause("batches", text, _NOTICEABLE, measured=False, hint=hint)


def _idle_draft(s: Situation) -> Cause | None:
    """Automatic drafting keeps the draft model off, for no cause above."""
    m = s.measured
    if m is None or not m.draft_ns or len(m.rows) < 2 or _big_draft(s) or _expensive_batches(s):
        return None
    if not m.cannot_pay:
        return None
    text = (
        f"{sentence(m.off)} A batch of 2 tokens takes {m.batch_ns(2) / m.plain_ns:.2f}× the time of one, and a "
        f"drafted token {m.draft_ns / m.plain_ns:.2f}×."
    )
    hint = ("A smaller draft, more cores, a GPU, or a target with more bits (BF16, Q8_0) helps.",)
    return Cause("draft off", text, _NOTICEABLE, measured=False, hint=hint)


def _rejected(s: Situation) -> Cause | None:
    m = s.measured
    if m is None or m.acceptance is None or m.acceptance >= _LOW or len(m.rows) < 2:
        return None
    now, usual = m.best_speed(m.acceptance, m.draft_ns), m.best_speed(_GOOD, m.draft_ns)
    if usual < _NOTICEABLE * now:
        # A better one would gain nothing either; what does is said above.
        return None
    text = f"Measured acceptance is {m.acceptance:.0%}; {_GOOD:.0%} is usual for code in a well-matched pair."
    hint = ("Take a draft of the same family, or a temperature nearer to 0:", f"  tandem pairs find {quoted(s.source)}")
    return Cause("acceptance", text, usual / now, measured=True, hint=hint)


def _grown(s: Situation) -> Cause | None:
    m = s.measured
    if m is None or not m.least_ns or m.plain_ns < _GROWN * m.least_ns:
        return None
    factor = m.plain_ns / m.least_ns
    text = (
        f"A token took {m.plain_ns / 1e6:.1f} ms in the last answer, and {m.least_ns / 1e6:.1f} ms in the fastest one "
        "here: something else uses the machine now."
    )
    hint = ("Close other programs, then benchmark again:", "  tandem tune")
    return Cause("slower now", text, factor, measured=True, hint=hint)


_COSTS = (_big_draft, _expensive_batches, _idle_draft, _rejected, _grown)


_LOOKS = (*_PLACEMENT, *_PROCESSOR, *_COSTS)


def diagnose(s: Situation) -> tuple[Cause, ...]:
    """Every cause that is found, the most expensive first; () if nothing slows the pair."""
    found = (look(s) for look in _LOOKS)
    return tuple(sorted(filter(None, found), key=lambda cause: -cause.factor))


def slow_section(situation: Situation, causes: Sequence[Cause]) -> Section:
    """List the measurements, then every cause with its fix."""
    lines = [_speed(situation.measured)]
    lines += [Line("warning", cause.label, _text(cause), hint=cause.hint) for cause in causes]
    if not causes:
        lines.append(Line("ok", "causes", "none found"))
    return Section("speed and causes", tuple(lines))


def _text(cause: Cause) -> str:
    return f"{cause.text} Measured cost: {times(cause.factor)}." if cause.measured else cause.text


def _speed(measured: Measured | None) -> Line:
    if measured is None:
        hint = ("  tandem tune",)
        return Line("ok", "measured", "not yet; the first answer benchmarks, or now:", hint=hint)
    parts = [f"{rate(measured.tokens_per_second)} without drafts", *filter(None, [measured.drafting])]
    if measured.draft_ns:
        parts.append(f"a drafted token costs {measured.draft_ns / measured.plain_ns:.2f}× a token without draft")
    if measured.acceptance is not None and measured.draft_ns:
        parts.append(f"acceptance {measured.acceptance:.0%}")
    return Line("ok", "measured", ", ".join(parts))
