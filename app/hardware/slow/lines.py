"""Why a pair is slow, as lines of `tandem doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.drafting_report import rate, times
from app.hardware.checks import Line, Section
from app.hardware.slow.measured import Measured
from app.hardware.slow.situation import Cause, Situation


def slow_section(situation: Situation, causes: Sequence[Cause]) -> Section:
    """What was measured of the pair, then every cause with what mends it, the dearest first."""
    lines = [_speed(situation.measured)]
    lines += [Line("warning", cause.label, _text(cause), hint=cause.hint) for cause in causes]
    if not causes:
        lines.append(Line("ok", "causes", "nothing was found that slows this pair down"))
    return Section("its speed, and what costs most", tuple(lines))


def _text(cause: Cause) -> str:
    return f"{cause.text} Measured cost: {times(cause.factor)}." if cause.measured else cause.text


def _speed(measured: Measured | None) -> Line:
    if measured is None:
        hint = ("  tandem tune",)
        return Line("ok", "measured", "nothing yet: the first answer measures, or at once", hint=hint)
    parts = [f"{rate(measured.tokens_per_second)} without drafts", *filter(None, [measured.drafting])]
    if measured.draft_ns:
        parts.append(f"a drafted token costs {measured.draft_ns / measured.plain_ns:.2f}× a token without draft")
    if measured.acceptance is not None and measured.draft_ns:
        parts.append(f"acceptance {measured.acceptance:.0%}")
    return Line("ok", "measured", ", ".join(parts))
