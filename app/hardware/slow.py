"""Why a pair is slow: every cause that shows in facts and measurements, the dearest first.

Pure: a frozen view in, causes out. A cause that was measured carries the factor; what is only known to be so on other
machines is said so, and its weight serves for the order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.engine.tuning.curve import MAX_ROWS, expand
from app.hardware.conditions import Conditions
from app.hardware.pair_view import TARGET, PairView
from app.sizes import gigabytes

_GOOD = 0.8
"""Acceptance of a draft model of the same family on code; what a low one is held against."""
_LOW = 0.5
_SEEN = 64
"""Drafted tokens below which an acceptance is chance."""
_GROWN = 1.3
"""Costs scatter by a tenth from run to run."""
_NOTICEABLE = 1.05
_USUAL_DRAFT = 0.1
"""Of a plain token's time; what pairs that gain much have."""
_WORTH_CHANGING = 1.1
_BUSY = 0.3
"""Runnable threads for each processor, from other programs; the doctor itself is a few hundredths."""
_CUT = 0.01
_CAPPED = 0.97
_COLD = 0.9
_WIDE_KV = ("f16", "bf16", "f32")

# Weights for the order of causes that nobody measured here, from reports in llama.cpp's own threads.
_WEIGHT_PAGED = 20.0
_WEIGHT_NO_GPU = 8.0
_WEIGHT_SOFTWARE = 60.0  # 3 against 186 t/s, 0.54 against 39, lavapipe
_WEIGHT_IN_PART = 6.0
_WEIGHT_DRAFT_ON_CPU = 2.3  # 45 against 103.9 t/s, llama.cpp#10664
_WEIGHT_KV = 1.8  # 81 against 45 t/s while drafting, llama.cpp#10552
_WEIGHT_SHORT = 1.3
_WEIGHT_SIBLINGS = 1.2
_WEIGHT_HEAT = 1.15
_WEIGHT_COLD = 1.1


@dataclass(frozen=True, slots=True)
class Measured:
    """What earlier answers have measured of the pair on this machine.

    Attributes:
        rows: Nanoseconds of a batch by its width; width 1 is a plain step.
        draft_ns: Nanoseconds of a drafted token; 0 without a draft model.
        least_ns: The least that a plain step ever took here.
        accepted: Of the tokens that the draft model proposed and the target judged; fading, so no whole number.
        judged: How many those were.
    """

    rows: Mapping[int, float]
    draft_ns: float = 0.0
    least_ns: float = 0.0
    accepted: float = 0.0
    judged: float = 0.0

    @property
    def plain_ns(self) -> float:
        return self.rows[1]

    @property
    def acceptance(self) -> float | None:
        """Share of drafted tokens that were accepted; None before enough were judged."""
        return self.accepted / self.judged if self.judged >= _SEEN else None

    def best_speed(self, acceptance: float, draft_ns: float) -> float:
        """Speed against plain decoding with the best draft length, each token accepted with the same probability.

        (1 + a + ... + a^n) * T(1) / (T(n + 1) + n * draft), at its highest over n; 1 where drafting loses.
        """
        costs = expand(self.rows, MAX_ROWS)
        best = tokens = 1.0
        for n in range(1, max(self.rows)):
            tokens += acceptance**n
            best = max(best, tokens * self.plain_ns / (costs[n + 1] + n * draft_ns))
        return best


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the causes are found in.

    Attributes:
        pair: Where its layers go.
        threads: Given to llama.cpp.
        cores: Physical ones of the machine.
        conditions: Of the processor at the moment.
        card: A graphics processor that this build can use; "" if there is none.
        software: Names of devices that the processor plays.
        unused_card: One that it cannot use; "" if there is none.
        command: Installs a build that could; "" where there is none.
        draft_n_ctx_train: Tokens that the draft was trained for; 0 where not known.
        resident: Share of the target's file that is in memory; None where not known.
        measured: Of earlier answers; None before the first.
    """

    pair: PairView
    threads: int
    cores: int
    conditions: Conditions = field(default_factory=Conditions)
    card: str = ""
    software: tuple[str, ...] = ()
    unused_card: str = ""
    command: str = ""
    draft_n_ctx_train: int = 0
    resident: float | None = None
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a pair is slow.

    Attributes:
        label: In a word or two.
        text: What is so, as a sentence.
        factor: What it multiplies the time of an answer by; for the order only, unless it was measured.
        measured: Whether the factor was measured on this machine.
        hint: What mends it; commands begin with two spaces.
    """

    label: str
    text: str
    factor: float
    measured: bool
    hint: tuple[str, ...]


def diagnose(s: Situation) -> tuple[Cause, ...]:
    """Every cause that is found, the dearest first; () if nothing slows the pair."""
    found = (look(s) for look in _LOOKS)
    return tuple(sorted(filter(None, found), key=lambda cause: -cause.factor))


def _paged(s: Situation) -> Cause | None:
    """Whether the pair needs more main memory than is free."""
    short = [need for need in s.pair.needs if need.need_bytes > need.free_bytes]
    if not short:
        return None
    need = short[0]
    where = "main memory" if need.device == "cpu" else need.device
    text = (
        f"It needs {gigabytes(need.need_bytes)} of {where}, and {gigabytes(need.free_bytes)} are free: what does not "
        "fit is fetched again for every token, as a rule many times slower."
    )
    return Cause("memory", text, _WEIGHT_PAGED, measured=False, hint=s.pair.offers or ("  tandem setup",))


def _no_gpu(s: Situation) -> Cause | None:
    if not s.unused_card or not s.command:
        return None
    text = f"The {s.unused_card} is not used: this llama.cpp is built without support for it. As a rule, a card is "
    return Cause(
        "build",
        text + "several times faster than the processor.",
        _WEIGHT_NO_GPU,
        measured=False,
        hint=(f"  {s.command}",),
    )


def _on_cpu(s: Situation) -> Cause | None:
    """Whether a card that could be used is not, by a flag."""
    target = s.pair.target
    if not s.card or target is None or not target.on_cpu:
        return None
    text = f"All layers are on the processor, and {s.card} is there. As a rule, a card is several times faster."
    return Cause("target", text, _WEIGHT_NO_GPU, measured=False, hint=(f"  --device {s.card}",))


def _software(s: Situation) -> Cause | None:
    """Whether layers are on a card that the processor plays."""
    there = [m for m in s.pair.models if not m.on_cpu and set(m.device.split(", ")) & set(s.software)]
    if not there:
        return None
    flag = "--device" if there[0].role == TARGET else "--draft-device"
    text = (
        f"The {there[0].role} is on {there[0].device}, which is no card: the processor plays one there, as a rule tens "
        "of times slower than it computes otherwise."
    )
    return Cause("software", text, _WEIGHT_SOFTWARE, measured=False, hint=(f"  {flag} cpu",))


def _in_part(s: Situation) -> Cause | None:
    target = s.pair.target
    if target is None or not target.in_part:
        return None
    left = target.layers - target.layers_offloaded
    text = (
        f"{left} of {target.layers} layers of the target are on the processor, and every token waits for them. As a "
        "rule, drafting gains nothing then."
    )
    weight = 1 + _WEIGHT_IN_PART * left / target.layers
    hint = ("Make all of them fit:", "  --gpu-layers auto --ctx 4096", "  tandem setup")
    return Cause("layers", text, weight, measured=False, hint=hint)


def _draft_on_cpu(s: Situation) -> Cause | None:
    target, draft = s.pair.target, s.pair.draft
    if target is None or draft is None or target.on_cpu or draft.layers_offloaded == draft.layers:
        return None
    if set(target.device.split(", ")) & set(s.software):
        return None
    where = "on the processor" if draft.on_cpu else "partly on the processor"
    text = f"The draft is {where}, the target on {target.device}. As a rule, the draft belongs on the card, whole."
    hint = (f"  --draft-device {target.device.split(', ')[0]}",)
    if s.measured is None or not s.measured.draft_ns:
        return Cause("draft", text, _WEIGHT_DRAFT_ON_CPU, measured=False, hint=hint)
    ratio = s.measured.draft_ns / s.measured.plain_ns
    text += f" A drafted token takes {ratio:.2f}x the time of a plain one here."
    return Cause("draft", text, max(_WEIGHT_DRAFT_ON_CPU, 1 + ratio), measured=False, hint=hint)


def _kv(s: Situation) -> Cause | None:
    narrow = [model for model in s.pair.models if model.kv_type not in _WIDE_KV]
    if not narrow:
        return None
    model = narrow[0]
    text = (
        f"The KV cache of the {model.role} is {model.kv_type}. Reading it takes longer with every token; others have "
        "measured 81 t/s with f16 against 45 with q8_0 while drafting."
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
        f"The draft reaches {reach:,} tokens back, the target {target.n_ctx:,}. Beyond that the draft's guesses are "
        "worth little, as a rule."
    )
    return Cause("context", text, _WEIGHT_SHORT, measured=False, hint=(f"  --ctx {reach}",))


def _threads(s: Situation) -> Cause | None:
    if not _uses_processor(s):
        return None
    quota = s.conditions.quota
    allowed = min(s.conditions.usable, s.conditions.usable if quota is None else max(1, int(quota)))
    if s.threads > allowed:
        text = (
            f"{s.threads} threads share {allowed} processor{'s' * (allowed != 1)} that this process may use; as a rule "
            "they wait for each other in every layer."
        )
        return Cause("threads", text, s.threads / allowed, measured=False, hint=(f"  --threads {allowed}",))
    if s.threads > s.cores:
        text = f"{s.threads} threads on {s.cores} cores: two on one core slow each other down, as a rule."
        return Cause("threads", text, _WEIGHT_SIBLINGS, measured=False, hint=(f"  --threads {s.cores}",))
    return None


def _throttled(s: Situation) -> Cause | None:
    share = s.conditions.throttled
    if not _uses_processor(s) or share is None or share < _CUT:
        return None
    quota = s.conditions.quota
    limit = f" of {quota:g} processors" if quota is not None else ""
    text = f"The container's quota{limit} ran out in {share:.0%} of its time slices."
    hint = "Give the container more processor time, or take fewer threads:"
    fewer = max(1, min(s.threads, int(quota)) if quota is not None else s.threads // 2)
    return Cause("quota", text, 1 / max(0.1, 1 - share), measured=True, hint=(hint, f"  --threads {fewer}"))


def _busy(s: Situation) -> Cause | None:
    c = s.conditions
    if not _uses_processor(s) or c.load is None or c.load < _BUSY * c.processors:
        return None
    text = (
        f"The load of the last minute is {c.load:.1f} on {c.processors} processor{'s' * (c.processors != 1)}: what "
        "other programs take is missing here."
    )
    return Cause("load", text, 1 + c.load / c.processors, measured=False, hint=("End what runs beside it.",))


def _capped(s: Situation) -> Cause | None:
    cap = s.conditions.clock_cap
    if not _uses_processor(s) or cap is None or cap > _CAPPED:
        return None
    text = f"The processor's clock is limited to {cap:.0%} of its highest, by a power-saving mode or by heat."
    hint = ("Choose the performance power profile; on battery, plug it in.",)
    return Cause("clock", text, 1 / cap, measured=False, hint=hint)


def _heat(s: Situation) -> Cause | None:
    events = s.conditions.heat_events
    if not _uses_processor(s) or not events:
        return None
    text = f"The processor slowed itself down because of heat {events:,} times since the system began."
    hint = ("Let it cool: free the vents, or take fewer threads with --threads.",)
    return Cause("heat", text, _WEIGHT_HEAT, measured=False, hint=hint)


def _cold(s: Situation) -> Cause | None:
    if s.resident is None or s.resident > _COLD:
        return None
    text = f"{1 - s.resident:.0%} of the target's file is not in memory: the first answer waits for the disk."
    return Cause("file", text, _WEIGHT_COLD, measured=False, hint=("It is read once; a second answer is faster.",))


def _big_draft(s: Situation) -> Cause | None:
    """Whether the draft model costs so much of a plain step that it takes away most of what drafts could give."""
    m = s.measured
    if m is None or not m.draft_ns or len(m.rows) < 2:
        return None
    usual, real = m.best_speed(_GOOD, _USUAL_DRAFT * m.plain_ns), m.best_speed(_GOOD, m.draft_ns)
    if usual < _WORTH_CHANGING * real:
        return None
    ratio = m.draft_ns / m.plain_ns
    gain = f"{real:.2f}x at best" if real >= _NOTICEABLE else "nothing, so it stays off"
    text = (
        f"A drafted token takes {ratio:.2f}x the time of a plain one, measured. At {_GOOD:.0%} accepted such a draft "
        f"brings {gain}; one of {_USUAL_DRAFT:.0%} would bring {usual:.2f}x."
    )
    hint = ("Look for a smaller draft:", f"  tandem pairs find {_source(s)}")
    return Cause("draft size", text, usual / real, measured=True, hint=hint)


def _dear_batches(s: Situation) -> Cause | None:
    """Whether checking several tokens at once takes as long as one after the other, so that no draft can win."""
    m = s.measured
    if m is None or len(m.rows) < 2 or m.best_speed(_GOOD, 0.0) >= _NOTICEABLE:
        return None
    width = min(n for n in m.rows if n > 1)
    text = (
        f"A batch of {width} tokens takes {m.rows[width] / m.plain_ns:.2f}x the time of one, measured: this processor "
        "computes as long as it reads, so checking drafts saves nothing, and drafting stays off."
    )
    hint = ("More cores or a card change that; so does a target of more bits (BF16, Q8_0).",)
    return Cause("batches", text, _NOTICEABLE, measured=False, hint=hint)


def _rejected(s: Situation) -> Cause | None:
    m = s.measured
    if m is None or m.acceptance is None or m.acceptance >= _LOW or len(m.rows) < 2:
        return None
    now, usual = m.best_speed(m.acceptance, m.draft_ns), m.best_speed(_GOOD, m.draft_ns)
    text = (
        f"The target takes {m.acceptance:.0%} of what the draft proposes, measured; {_GOOD:.0%} is usual for code in a "
        "well-matched pair."
    )
    hint = ("Take a draft of the same family, or a temperature nearer to 0:", f"  tandem pairs find {_source(s)}")
    return Cause("acceptance", text, max(1.0, usual / now), measured=True, hint=hint)


def _grown(s: Situation) -> Cause | None:
    m = s.measured
    if m is None or not m.least_ns or m.plain_ns < _GROWN * m.least_ns:
        return None
    factor = m.plain_ns / m.least_ns
    text = (
        f"A token took {m.plain_ns / 1e6:.1f} ms in the last answer, and {m.least_ns / 1e6:.1f} ms in the fastest one "
        "here: something else takes the machine's time now."
    )
    hint = ("End what runs beside it, then measure again:", "  tandem tune")
    return Cause("slower now", text, factor, measured=True, hint=hint)


def _uses_processor(s: Situation) -> bool:
    return any(model.layers_offloaded < model.layers for model in s.pair.models)


def _source(s: Situation) -> str:
    return s.pair.target_source or "TARGET"


_LOOKS: tuple[Callable[[Situation], Cause | None], ...] = (
    _paged,
    _no_gpu,
    _on_cpu,
    _software,
    _in_part,
    _draft_on_cpu,
    _kv,
    _short,
    _threads,
    _throttled,
    _busy,
    _capped,
    _heat,
    _cold,
    _big_draft,
    _dear_batches,
    _rejected,
    _grown,
)
