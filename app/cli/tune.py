"""`tandem tune`: measure the cost of a verify step on this machine, show and save it."""

import time
from bisect import bisect_left
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from app.cli.draft_comparison import BUDGET_NS, TIMING_PASSES, compare_drafts, follow, measure_costs, tuned_pair
from app.cli.output import print_result, status
from app.cli.race_session import RaceSession, with_pair
from app.compare.drafts import MIN_GAIN
from app.compare.report import pair_title
from app.core.errors import UsageError
from app.core.units import counted
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import PLAUSIBLE_ACCEPTANCE, ceiling, drafter_off
from app.engine.auto.threads import ThreadTimes
from app.engine.drafting_report import capitalized, sentence, times
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT, AutoDraft
from app.hardware.cpu import thread_candidates
from app.llama.pair import NativePair

_BAR_COLUMNS = 24
_SHARES = 1_000_000_000
"""Number of acceptances between 0 and 1 among which the break-even is found."""
_TABLE_LEGEND = "A batch holds the last token and a draft. Break-even is the acceptance from which that draft pays."


def tune(
    draft: Sequence[str] = (),
    prompts: Path | None = None,
    *,
    placement: bool = False,
    as_json: bool = False,
    **given: Any,
) -> int:
    """Measure a pair, or several drafts for one target; return the exit code."""
    is_comparison = len(draft) > 1 or prompts is not None
    if is_comparison and not placement:
        return compare_drafts(given, draft, prompts, as_json=as_json)
    if is_comparison:
        raise UsageError("--placement measures one pair.", "Leave --prompts and further drafts out.")
    loader, mode = tuned_pair(given, draft[0] if draft else None)
    if placement:
        from app.cli.tune_placement import compare_placements

        return compare_placements(loader, as_json=as_json)
    return with_pair(loader, lambda session: _tune(session, mode, as_json=as_json))


def _tune(session: RaceSession, mode: AutoDraft, *, as_json: bool) -> int:
    pair = session.pair
    status.say("Measuring the cost of verify steps; Ctrl+C stops.")
    threads: ThreadTimes | None = None
    candidates = thread_candidates()
    if session.params.yields_cpu and pair.threads.uses_cpu and len(candidates) > 1:
        threads = follow(session, pair.measure_threads(candidates, session.cancel), "Measuring threads")
    costs = measure_costs(session, BUDGET_NS, TIMING_PASSES)
    status.clear()
    sources, table = pair.info.sources(mode), [*thread_lines(threads), ""] if threads is not None else []
    lines = [pair_title(pair.info), "", *table, *cost_lines(costs, sources), "", *verdict(costs, sources)]
    print_result(_as_json(pair, threads), lines, as_json=as_json)
    if (error := pair.save_error) is not None:
        status.say(f"The measurements could not be saved: {error.strerror or error}. The next answer measures again.")
    return 0


def _as_json(pair: NativePair, threads: ThreadTimes | None) -> dict[str, Any]:
    assert pair.memory is not None
    profile = pair.memory.costs.profile
    out: dict[str, Any] = {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "target": pair.info.target.file,
        "draft": pair.info.draft.file if pair.info.draft else None,
        "device": pair.info.device,
        "rows_ms": {str(n): ns / 1e6 for n, ns in sorted(profile.batch_ns.items())},
        "draft_ms": profile.draft_ns / 1e6,
        "context_ns": {str(n): ns for n, ns in sorted(profile.context_ns.items())},
    }
    if threads is not None:
        out["threads"] = {"generation": threads.best.generation, "prompt": threads.best.prompt}
        out["threads_ms"] = {
            "generation": {str(n): ns / 1e6 for n, ns in sorted(threads.generation.items())},
            "prompt": {str(n): ns / 1e6 for n, ns in sorted(threads.prompt.items())},
        }
    return out


# Charts of characters


def cost_lines(costs: CostModel, sources: Collection[Source]) -> list[str]:
    """Return the cost of a step by batch size, and its break-even acceptance for each source of drafts."""
    rows = sorted(costs.profile.batch_ns)
    single = costs.target_ns(1, 0)
    tallest = max(costs.target_ns(n, 0) for n in rows)
    lines = [f"{'batch':>5} {'cost':>10} {'':>6}  {'':{_BAR_COLUMNS}}  break-even"]
    for n in rows:
        cost = costs.target_ns(n, 0)
        bar = "█" * max(1, round(_BAR_COLUMNS * cost / tallest))
        shares = []
        for source in sources if n > 1 else ():
            draft_ns, start_ns = (costs.draft_ns(0), costs.draft_start_ns(0)) if not source.is_free else (0.0, 0.0)
            share = break_even(single, cost + start_ns, n - 1, draft_ns)
            shares.append(f"{source.brief} {'never' if share is None else f'{share:>4.0%} '}")
        lines.append(
            f"{n:>5} {cost / 1e6:>7.1f} ms {cost / single:>5.2f}×  {bar:{_BAR_COLUMNS}}  {'   '.join(shares)}".rstrip()
        )
    return [*lines, _TABLE_LEGEND]


def thread_lines(threads: ThreadTimes) -> list[str]:
    """Return the time of a token by thread count, relative to the best, which arrows mark."""
    lines = [f"{'threads':>7} {'answer':>8}   {'prompt':>8}"]
    best, times = threads.best, (threads.generation, threads.prompt)
    for n in sorted(threads.generation):
        marks = ["←" if n == chosen else " " for chosen in (best.generation, best.prompt)]
        ratios = [each[n] / each[chosen] for each, chosen in zip(times, (best.generation, best.prompt), strict=True)]
        lines.append(f"{n:>7} {ratios[0]:>7.2f}× {marks[0]} {ratios[1]:>7.2f}× {marks[1]}".rstrip())
    disturbed = "Other programs were busy: these threads are used now and not stored."
    return [*lines, disturbed] if threads.is_disturbed else lines


def verdict(costs: CostModel, sources: Collection[Source]) -> list[str]:
    """Describe the cost curve in sentences."""
    single, draft = costs.target_ns(1, 0), costs.draft_ns(0)
    lines = []
    if kinds := [source for source in sources if not source.is_free]:
        kind = kinds[0]
        what, ns = ("block of drafted tokens", costs.draft_start_ns(0)) if kind.is_block else ("drafted token", draft)
        lines.append(f"A {what} costs {ns / 1e6:.1f} ms, {ns / single:.2f}× a token without draft.")
        off = drafter_off(costs, kind)
        lines.append(sentence(off) if off else f"{capitalized(kind.label)}: {_at_best(costs, draft)}")
    if Source.NGRAM in sources:
        if ceiling(costs, 0, MAX_DRAFT, 0.0) > MIN_GAIN:
            lines.append(f"N-gram: {_at_best(costs, 0.0)}")
        else:
            lines.append("N-gram drafting cannot help: a batch takes as long as its tokens one by one.")
    return lines


def _at_best(costs: CostModel, draft_ns: float) -> str:
    """Return the highest speedup, and the draft length with the lowest break-even acceptance."""
    start_ns = costs.draft_start_ns(0) if draft_ns else 0.0
    # A batch may be padded to a larger size that costs less.
    share, n = min(
        (share, n)
        for n in range(1, MAX_DRAFT + 1)
        if (share := break_even(costs.target_ns(1, 0), costs.target_ns(n + 1, 0) + start_ns, n, draft_ns)) is not None
    )
    best = times(ceiling(costs, 0, MAX_DRAFT, draft_ns))
    lowest = f"break-even {share:.0%} with {counted(n, 'drafted token')}"
    return f"at most {best} at {PLAUSIBLE_ACCEPTANCE:.0%} acceptance; {lowest}."


def break_even(plain: float, batch: float, n: int, draft: float) -> float | None:
    """Return the acceptance at which drafting n tokens in each step costs as much as no draft.

    Solves (1 + c + ... + c^n) * plain = batch + n * draft for c; the left side grows with c. `batch` is the cost of
    n + 1 tokens, `draft` the cost of each drafted token. None if even perfect drafts lose.
    """
    needed = (batch + n * draft) / plain
    if needed > n + 1:
        return None
    shares = range(_SHARES + 1)
    return bisect_left(shares, needed, key=lambda share: sum((share / _SHARES) ** i for i in range(n + 1))) / _SHARES
