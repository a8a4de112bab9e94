"""Causes in what was measured of the pair here: what tokens cost, and how many are accepted."""

from __future__ import annotations

from app.core.shell import quoted
from app.engine.drafting_report import sentence
from app.hardware.slow.situation import Cause, Situation

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
    """Whether the draft model costs so much of a plain step that it takes away most of what drafts could give."""
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


def _dear_batches(s: Situation) -> Cause | None:
    """Whether checking several tokens at once takes as long as one after the other, so that no draft can win."""
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
    hint = ("More cores or a card change that; so does a target of more bits (BF16, Q8_0).",)
    return Cause("batches", text, _NOTICEABLE, measured=False, hint=hint)


def _idle_draft(s: Situation) -> Cause | None:
    """Whether automatic drafting leaves the draft model out on these costs, and nothing above says why."""
    m = s.measured
    if m is None or not m.draft_ns or len(m.rows) < 2 or _big_draft(s) or _dear_batches(s):
        return None
    if not m.cannot_pay:
        return None
    text = (
        f"{sentence(m.off)} A batch of 2 tokens takes {m.batch_ns(2) / m.plain_ns:.2f}× the time of one, and a "
        f"drafted token {m.draft_ns / m.plain_ns:.2f}×."
    )
    hint = ("A smaller draft changes that, more cores, a card, or a target of more bits (BF16, Q8_0).",)
    return Cause("draft off", text, _NOTICEABLE, measured=False, hint=hint)


def _rejected(s: Situation) -> Cause | None:
    m = s.measured
    if m is None or m.acceptance is None or m.acceptance >= _LOW or len(m.rows) < 2:
        return None
    now, usual = m.best_speed(m.acceptance, m.draft_ns), m.best_speed(_GOOD, m.draft_ns)
    if usual < _NOTICEABLE * now:
        # A better one would gain nothing either; what does is said above.
        return None
    text = (
        f"A drafted token is right {m.acceptance:.0%} of the time, measured; {_GOOD:.0%} is usual for code in a "
        "well-matched pair."
    )
    hint = ("Take a draft of the same family, or a temperature nearer to 0:", f"  tandem pairs find {quoted(s.source)}")
    return Cause("acceptance", text, usual / now, measured=True, hint=hint)


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


LOOKS = (_big_draft, _dear_batches, _idle_draft, _rejected, _grown)
