"""`tandem tune`: measure what a verify step costs here, show it, and save it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from app.cli.command_line import QUICK_KINDS
from app.cli.options import choose_pair, read_pair
from app.cli.output import for_reading
from app.cli.race_session import RaceSession, with_pair
from app.compare.benchmark import choose, load_suite
from app.compare.drafts import MIN_GAIN, agreement, expected, write_samples
from app.compare.report import pair_title, text_table
from app.core.errors import Interrupted, PairError, UsageError
from app.core.printable import printable
from app.core.units import counted, gigabytes
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import PLAUSIBLE_ACCEPTANCE, ceiling
from app.engine.auto.threads import ThreadTimes
from app.engine.drafting_report import NO_SPEEDUP, capitalized, drafter_off, sentence, times
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT, AutoDraft
from app.hardware.cpu import thread_candidates
from app.llama.checks import open_model_file
from app.llama.pair import NativePair
from app.models.compatibility import mtp_problem
from app.models.model_facts import read_facts
from app.models.pair_summary import setup_models
from app.models.source import parse_source
from app.settings.layers import drafting
from app.worker.known_pairs import file_here
from app.worker.pair_loader import PairLoader

_BUDGET_NS, _DRAFT_BUDGET_NS = 20_000_000_000, 5_000_000_000
_TIMING_PASSES = 3
_BAR_COLUMNS = 24
_BISECTION_STEPS = 40
_MTP_NAME = Source.MTP.label
_TABLE_LEGEND = "A batch holds the last token and a draft. Break-even is the acceptance from which that draft pays."
_DRAFT_LEGEND = (
    "Acceptance and divergence are over {:,} tokens that the target wrote greedily. Cost is that of a draft of one "
    "token; the speedup is expected at the best constant draft length."
)
_SAMPLE_TOKENS = 64
"""Tokens of each sample answer."""

T = TypeVar("T")


def tune(args: argparse.Namespace) -> int:
    """Measure a pair, or several drafts for one target; returns the exit code."""
    drafts: Sequence[str] = getattr(args, "draft", ())
    if "placement" in args:
        from app.cli.tune_placement import compare_placements

        if len(drafts) > 1 or "prompts" in args:
            raise UsageError("--placement measures one pair.", "Leave --prompts and further drafts out.")
        loader, _ = tuning_options(args, drafts[0] if drafts else None)
        return compare_placements(loader, as_json="json" in args)
    if len(drafts) > 1 or "prompts" in args:
        return compare_drafts(args, drafts)
    loader, mode = tuning_options(args, drafts[0] if drafts else None)
    as_json: bool = getattr(args, "json", False)
    return with_pair(loader, lambda session: _tune(session, mode, as_json=as_json))


def tuning_options(args: argparse.Namespace, draft: str | None) -> tuple[PairLoader, AutoDraft]:
    """Return the options of a pair with this draft, if any, and its automatic drafting. Raises UsageError."""
    given = {name: value for name, value in vars(args).items() if name not in ("draft", "json", "prompts", "placement")}
    if draft is not None:
        given["draft"] = draft
    loader = read_pair(given, modes=("auto",), use_recommended=False)
    mode = drafting(loader.settings)
    if not isinstance(mode, AutoDraft):
        raise UsageError("Tuning measures automatic drafting only.", "Leave the drafting options out.")
    return loader, mode


def _tune(session: RaceSession, mode: AutoDraft, *, as_json: bool) -> int:
    pair, status = session.pair, session.status
    status.say("Measuring the cost of verify steps; Ctrl+C stops.")
    threads: ThreadTimes | None = None
    candidates = thread_candidates()
    if session.params.yields_cpu and pair.uses_cpu and len(candidates) > 1:
        threads = _follow(session, pair.measure_threads(candidates, session.cancel), "Measuring threads")
    costs = _measure_costs(session, _BUDGET_NS, _TIMING_PASSES)
    status.clear()
    if as_json:
        print(json.dumps(_as_json(pair, threads)))
    else:
        sources = pair.info.sources(mode)
        table = [*thread_lines(threads), ""] if threads is not None else []
        lines = [pair_title(pair.info), "", *table, *cost_lines(costs, sources), "", *verdict(costs, sources)]
        print(for_reading("\n".join(lines), sys.stdout))
    if (error := pair.save_error) is not None:
        status.say(f"The measurements could not be saved: {error.strerror or error}. The next answer measures again.")
    return 0


def _measure_costs(session: RaceSession, budget_ns: int, passes: int) -> CostModel:
    """Measure the costs of the loaded pair and save them."""
    work = session.pair.remeasure_costs(session.cancel, budget_ns=budget_ns, passes=passes)
    return _follow(session, work, "Measuring batches")


def _follow(session: RaceSession, work: Generator[float, None, T], what: str) -> T:
    """Show the progress of a measurement; return its result. Raises Interrupted."""
    while True:
        try:
            share = next(work)
        except StopIteration as end:
            if session.cancel():
                raise Interrupted from None
            result: T = end.value
            return result
        session.status.show(f"{what} {share:4.0%}")


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


# Several drafts for one target


def compare_drafts(args: argparse.Namespace, drafts: Sequence[str]) -> int:
    """Measure drafts one after the other for a target that is loaded once; returns the exit code.

    The MTP layer of the target is one of them.
    """
    paths = [open_model_file(file_here(parse_source(draft))).path for draft in dict.fromkeys(drafts)]
    # Memory is planned for the largest.
    paths.sort(key=lambda path: -path.stat().st_size)
    given = vars(args)
    if "target" in given:
        target = file_here(parse_source(given["target"]))
    else:
        pair, files = choose_pair({name: value for name, value in given.items() if name == "pair"})
        given = {name: value for name, value in given.items() if name != "pair"}
        target = files.target.path if files is not None else file_here(pair.target)
    facts = read_facts(target)
    has_mtp = facts.n_mtp_layers > 0 and not mtp_problem(facts)
    if not paths and not has_mtp:
        raise UsageError("--prompts compares drafts.", "Name them with --draft.")
    given = {**given, "target": str(target)}
    loader, _ = tuning_options(argparse.Namespace(**given), str(paths[0]) if paths else None)
    suite = choose(load_suite(getattr(args, "prompts", None)), None, None if "prompts" in args else 1)
    texts = [prompt.text for prompt in suite if "prompts" in args or prompt.kind in QUICK_KINDS]
    sources = [*paths, *[None] * has_mtp]
    return with_pair(
        loader,
        lambda session: _compare_drafts(session, sources, texts, as_json="json" in args),
        load_mtp=has_mtp,
    )


def _compare_drafts(session: RaceSession, paths: Sequence[Path | None], texts: Sequence[str], *, as_json: bool) -> int:
    """Measure drafts, None for the target's MTP layer; the first one is loaded already."""
    pair, status = session.pair, session.status
    status.say(f"Measuring {counted(len(paths), 'draft')} for {pair.info.target.file}; Ctrl+C stops.")
    samples = _follow(session, write_samples(pair, texts, _SAMPLE_TOKENS, session.cancel), "Writing sample text")
    rows: list[dict[str, Any]] = []
    curve: CostModel | None = None
    for path in paths:
        name = path.name if path is not None else _MTP_NAME
        if path != paths[0]:
            n_notices = len(pair.notices)
            pair.use_draft(path, session.progress)
            for notice in pair.notices[n_notices:]:
                status.say(f"{name}: {notice}")
        drafter = pair.drafter
        # In place of a first draft that was refused, the MTP layer is loaded.
        if drafter is None or pair.info.draft is None or bool(pair.info.draft.file) != bool(path):
            continue
        # Later ones only need the cost of the draft model; the target's is known.
        costs = _measure_costs(
            session, _BUDGET_NS if curve is None else _DRAFT_BUDGET_NS, _TIMING_PASSES if curve is None else 1
        )
        curve = curve or costs
        found = _follow(session, agreement(drafter, pair.target, samples, session.cancel), f"Comparing {name}")
        gain = expected(curve, costs, found.acceptance, drafter.longest)
        rows.append(
            {
                "draft": str(path) if path is not None else None,
                "kind": drafter.kind,
                "size": pair.info.draft.size_bytes,
                "acceptance": found.acceptance,
                "kl_divergence": found.divergence,
                "draft_ms": gain.draft_ns / 1e6,
                "expected_speedup": gain.speedup,
                "draft_length": gain.length,
            }
        )
    status.clear()
    if not rows:
        raise PairError("None of these can be used as a draft.", "To find some: tandem pairs find TARGET")
    rows.sort(key=lambda row: -row["expected_speedup"])
    n_tokens = sum(len(sample.answer) for sample in samples)
    best = rows[0] if rows[0]["expected_speedup"] > MIN_GAIN else None
    if as_json:
        out = {"target": str(session.params.target), "device": pair.info.device, "tokens": n_tokens, "drafts": rows}
        print(json.dumps(out | {"best": (best["draft"] or best["kind"]) if best is not None else None}))
        return 0
    target = pair_title(replace(pair.info, draft=None))
    print(for_reading("\n".join([target, "", *draft_lines(rows, n_tokens)]), sys.stdout))
    if best is not None:
        print(f"\nUse it: {printable(setup_models(str(session.params.target), best['draft']))}")
    return 0


def draft_lines(rows: Sequence[Mapping[str, Any]], n_tokens: int) -> list[str]:
    """Return a table of drafts, the best first, and a sentence about the winner."""
    cells = [("draft", "size", "acceptance", "KL divergence", "cost", "speedup", "draft length")]
    for row in rows:
        speedup, length = row["expected_speedup"], row["draft_length"]
        helps = speedup > MIN_GAIN
        cells.append(
            (
                Path(row["draft"]).name if row["draft"] else _MTP_NAME,
                gigabytes(row["size"]) if row["size"] else "",
                f"{row['acceptance']:.0%}",
                f"{row['kl_divergence']:.2f}" if row["kl_divergence"] is not None else "",
                f"{row['draft_ms']:.1f} ms",
                f"{speedup:.2f}×" if helps else NO_SPEEDUP,
                str(length) if helps else "",
            )
        )
    best = rows[0]
    verdict = "None of them should help here; the target is faster without a draft."
    if best["expected_speedup"] > MIN_GAIN:
        verdict = f"Best: {printable(cells[1][0])}, about {times(best['expected_speedup'])} (estimated)."
    return [*text_table(cells, left=1), _DRAFT_LEGEND.format(n_tokens), "", verdict]


# Charts of characters


def cost_lines(costs: CostModel, sources: Collection[Source]) -> list[str]:
    """Return the cost of a step by batch size, and its break-even acceptance with each source of drafts."""
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
    """Return the time of a token by thread count over that of the best, which arrows mark."""
    lines = [f"{'threads':>7} {'answer':>8}   {'prompt':>8}"]
    best, times = threads.best, (threads.generation, threads.prompt)
    for n in sorted(threads.generation):
        marks = ["←" if n == chosen else " " for chosen in (best.generation, best.prompt)]
        ratios = [each[n] / each[chosen] for each, chosen in zip(times, (best.generation, best.prompt), strict=True)]
        lines.append(f"{n:>7} {ratios[0]:>7.2f}× {marks[0]} {ratios[1]:>7.2f}× {marks[1]}".rstrip())
    disturbed = "Other programs were busy: these threads are used now and not stored."
    return [*lines, disturbed] if threads.is_disturbed else lines


def verdict(costs: CostModel, sources: Collection[Source]) -> list[str]:
    """Return the meaning of the cost curve in sentences."""
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
    # A batch may be filled up to a wider one that costs less.
    share, n = min(
        (share, n)
        for n in range(1, MAX_DRAFT + 1)
        if (share := break_even(costs.target_ns(1, 0), costs.padded_ns(n + 1, 0) + start_ns, n, draft_ns)) is not None
    )
    best = times(ceiling(costs, 0, MAX_DRAFT, draft_ns))
    lowest = f"break-even {share:.0%} with {counted(n, 'drafted token')}"
    return f"at most {best} at {PLAUSIBLE_ACCEPTANCE:.0%} acceptance; {lowest}."


def break_even(plain: float, batch: float, n: int, draft: float) -> float | None:
    """Return the acceptance at which drafting n tokens in each step costs as much as no draft.

    Solves (1 + c + ... + c^n) * plain = batch + n * draft for c by bisection; the left side grows with c. `batch` is
    the cost of n + 1 tokens, `draft` that of each drafted one. None if even perfect drafts lose.
    """
    needed = (batch + n * draft) / plain
    if needed > n + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        if sum(middle**i for i in range(n + 1)) < needed:
            low = middle
        else:
            high = middle
    return high
