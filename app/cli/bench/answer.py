"""What a benchmark says first: whether it is faster here, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

from app.compare.benchmark import Raced, Row
from app.compare.measure import Measured, factor, measure, outcome, verdict
from app.compare.race import Run
from app.compare.report import undrafted
from app.compare.sides import AUTOMATIC, PLAIN

SERVER = "server"


def answer_lines(raced: Sequence[Raced], table: Sequence[Row]) -> list[str]:
    """The verdicts over everything: automatic drafting's first, each with what is behind it.

    Args:
        raced: At least one prompt.
        table: Its rows.
    """
    *kinds, whole = table
    _plain, *others = whole.measured
    lines = []
    for m in sorted(others, key=lambda m: m.name != AUTOMATIC):
        lines.append(f"{m.name}: {verdict(m.ratio, work=m.work)}{_speeds(whole, m)}")
        why = raced[-1].rounds[-1][m.name].why
        if m.acceptance is None and why:
            lines.append(f"  {undrafted(why)}")
        if extremes := _extremes(kinds, m):
            lines.append(f"  {extremes}")
    names = [m.name for m in others]
    if SERVER in names:
        races = [one.rounds for one in raced]
        lines.append(f"{AUTOMATIC} against the server: {verdict(measure(races, AUTOMATIC, SERVER).ratio)}")
        # At the end of a text that was cut, ours keeps the space to go on from.
        same = sum(_said(one.rounds[0][PLAIN]) == _said(one.rounds[0][SERVER]) for one in raced)
        lines.append(f"The server's text is plain decoding's on {same} of {len(raced)} prompts.")
    return lines


def _said(run: Run) -> tuple[str, str]:
    return run.reasoning.strip(), run.text.strip()


def _speeds(whole: Row, m: Measured) -> str:
    plain = whole.measured[0].tokens_per_second
    if m.tokens_per_second is None or plain is None or outcome(m.ratio, work=m.work) == "same":
        return ""
    return f": {m.tokens_per_second.median:.1f} t/s, plain {plain.median:.1f}"


def _extremes(kinds: Sequence[Row], m: Measured) -> str:
    """On which kinds of text it gains most and least, of those on which it drafted; "" where these are not several."""
    drafted = [(row.kind, one.ratio) for row in kinds if (one := row.of(m.name)).work == "own"]
    ratios = [(ratio.median, kind) for kind, ratio in drafted if ratio is not None]
    if len(ratios) < 2:
        return ""
    (least, where_least), (most, where_most) = min(ratios), max(ratios)
    return f"most on {where_most}, {factor(most)}x; least on {where_least}, {factor(least)}x"
