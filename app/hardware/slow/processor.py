"""Causes in the machine at the moment: its processor, and what of the target's file is in memory."""

from __future__ import annotations

from app.hardware.busy import taking
from app.hardware.slow.situation import Cause, Situation

_CUT = 0.01
_CAPPED = 0.97
_COLD = 0.9

# For the order alone, as in `placement`.
_WEIGHT_SIBLINGS = 1.2
_WEIGHT_HEAT = 1.15
_WEIGHT_COLD = 1.1


def _threads(s: Situation) -> Cause | None:
    if not s.uses_processor:
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
    if not s.uses_processor or share is None or share < _CUT:
        return None
    quota = s.conditions.quota
    limit = f" of {quota:g} processors" if quota is not None else ""
    text = f"The container's quota{limit} ran out in {share:.0%} of its time slices."
    hint = "Give the container more processor time, or take fewer threads:"
    fewer = max(1, min(s.threads, int(quota)) if quota is not None else s.threads // 2)
    return Cause("quota", text, 1 / max(0.1, 1 - share), measured=True, hint=(hint, f"  --threads {fewer}"))


def _busy(s: Situation) -> Cause | None:
    taken = s.conditions.busy.others if s.conditions.busy is not None else 0.0
    return _shared(s, "load", "Other programs take", taken, "End what runs beside it.")


def _another_tandem(s: Situation) -> Cause | None:
    taken = s.conditions.busy.tandems if s.conditions.busy is not None else 0.0
    return _shared(s, "tandem", "Another Tandem is at work and takes", taken, "Wait until it has answered.")


def _shared(s: Situation, label: str, who: str, taken: float, hint: str) -> Cause | None:
    n = s.conditions.processors
    told = taking(who, taken, n)
    if not s.uses_processor or not told:
        return None
    return Cause(label, f"{told}, which are missing here.", 1 + taken / n, measured=False, hint=(hint,))


def _capped(s: Situation) -> Cause | None:
    cap = s.conditions.clock_cap
    if not s.uses_processor or cap is None or cap > _CAPPED:
        return None
    text = f"The processor's clock is limited to {cap:.0%} of its highest, by a power-saving mode or by heat."
    hint = ("Choose the performance power profile; on battery, plug it in.",)
    return Cause("clock", text, 1 / cap, measured=False, hint=hint)


def _heat(s: Situation) -> Cause | None:
    events = s.conditions.heat_events
    if not s.uses_processor or not events:
        return None
    text = f"The processor slowed itself down because of heat {events:,} times since the system began."
    hint = ("Let it cool: free the vents, or take fewer threads with --threads.",)
    return Cause("heat", text, _WEIGHT_HEAT, measured=False, hint=hint)


def _cold(s: Situation) -> Cause | None:
    if s.resident is None or s.resident > _COLD:
        return None
    text = f"{1 - s.resident:.0%} of the target's file is not in memory: the first answer waits for the disk."
    return Cause("file", text, _WEIGHT_COLD, measured=False, hint=("It is read once; a second answer is faster.",))


LOOKS = (_threads, _throttled, _busy, _another_tandem, _capped, _heat, _cold)
