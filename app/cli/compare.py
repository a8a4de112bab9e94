"""`tandem compare` and `tandem bench`: one prompt or a suite of prompts, with and without drafts."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from app.cli.command import STDIN
from app.cli.command_line import BENCH_TOKENS, COMPARE_TOKENS, QUICK_KINDS, QUICK_TOKENS, REPEAT
from app.cli.options import read_pair
from app.cli.output import LineFile, check_writable, columns_of, for_reading, print_result, status, write_file
from app.cli.race_session import (
    MORE_ROUNDS,
    RaceSession,
    RaceStatus,
    answer_request,
    fixed_params,
    measured_on,
    save_result,
    with_pair,
)
from app.cli.streams import read_input
from app.compare import AUTOMATIC, shown_name
from app.compare.benchmark import (
    BenchmarkPlan,
    Prompt,
    ResultRow,
    Results,
    benchmark,
    choose,
    load_suite,
    read_suite,
    runs_json,
)
from app.compare.card import markdown, svg, table_lines
from app.compare.job import CompareJob
from app.compare.measure import speeds
from app.compare.race import Round, RoundEnded, RunEnded, Side, check_sides, sides_of
from app.compare.report import Comparison, busy_programs, comparison_json, comparison_lines, how, pair_title
from app.conversations.message import Message, Role
from app.core.columns import fit
from app.core.errors import INTERRUPTED, AppError, UsageError
from app.core.printable import escape_unprintable, printable
from app.core.regular_file import user_text
from app.core.units import counted
from app.engine.drafting_report import rate, times, why_undrafted
from app.engine.interfaces import Controls
from app.models.progress import duration
from app.settings.layers import automatic
from app.worker.events import JobEnded, JobProgressed
from app.worker.pair_loader import PairLoader

_MAX_PROMPT_COLUMNS = 60
_WRITER_BY_SUFFIX = {".md": markdown, ".svg": svg}
"""Functions that write a share card, by file suffix."""


def compare(
    prompt: str | None = None,
    repeat: int = REPEAT,
    fixed: str | None = None,
    save: Path | None = None,
    *,
    as_json: bool = False,
    **given: Any,
) -> int:
    """Race on one prompt; return the exit code."""
    loader = read_pair(given, modes=("auto", "fixed"))
    request = answer_request(loader, COMPARE_TOKENS, Message(Role.USER, _read_prompt(prompt)))
    job = CompareJob(request, sides_of(automatic(loader.settings), fixed_params(loader, fixed, given)), repeat)
    if save is not None:
        check_writable(save)
    return with_pair(loader, lambda session: _compare(session, job, save, as_json=as_json))


def _compare(session: RaceSession, job: CompareJob, save: Path | None, *, as_json: bool) -> int:
    progress, found = RaceStatus(job.rounds), Comparison()
    for event in job.run(session.pair, 0, Controls(session.cancel)):
        if isinstance(event, JobEnded) and isinstance(event.result, Comparison):
            found = event.result
        elif line := progress.line(event):
            status.show(line)
    status.clear()
    n = len(found.rounds)
    if not n:
        status.say("Stopped before every side had answered once.")
        return INTERRUPTED
    facts = measured_on(session, job.request)
    busy = busy_programs(found.rounds)
    is_whole = not found.stopped and found.broken is None
    figures = {"": speeds(found.measured)}
    notes = save_result(facts, figures, is_busy=bool(busy)) if is_whole else []
    info, request = session.pair.info, job.request
    whole = {
        "target": asdict(info.target),
        "draft": asdict(info.draft) if info.draft is not None else None,
        "device": info.device,
        "prompt": request.messages[-1].content,
        "sampling": asdict(request.sampling),
        "max_tokens": request.max_tokens,
        "rounds_asked": job.rounds,
        "rounds_done": n,
        "notices": list(session.notices),
        "facts": facts,
        "notes": [busy, *notes] if busy else notes,
        "contenders": comparison_json(found, MORE_ROUNDS),
    }
    prompt = fit(" ".join(request.messages[-1].content.split()), _MAX_PROMPT_COLUMNS)
    title = [pair_title(info), f'"{prompt}", {how(request)}, {counted(n, "round")}']
    lines = [*map(printable, title), "", *comparison_lines(found, MORE_ROUNDS), *map(printable, notes)]
    try:
        print_result(whole, lines, as_json=as_json)
    finally:
        if save is not None:
            write_file(save, escape_unprintable(json.dumps(whole, ensure_ascii=False, indent=2)) + "\n")
    if found.broken is not None:
        failed = f"Failed after {n} of {job.rounds} rounds."
        status.say(failed if n < job.rounds else "Failed while comparing the texts.")
        raise found.broken
    if found.stopped:
        status.say(f"Stopped after {n} of {job.rounds} rounds.")
    return INTERRUPTED if found.stopped else 0


def _read_prompt(text: str | None) -> str:
    if text == "-":
        text = user_text(read_input(), "Standard input")
    if text is None or not text.strip():
        raise UsageError("Give a prompt.", 'For example: tandem compare "Why is the sky blue?"')
    return text


# Benchmark


def bench(
    prompts: Path | None = None,
    kinds: str | None = None,
    repeat: int | None = None,
    fixed: str | None = None,
    save: Path | None = None,
    card: Path | None = None,
    *,
    quick: bool = False,
    force: bool = False,
    as_json: bool = False,
    **given: Any,
) -> int:
    """Run the suite; return the exit code."""
    loader = read_pair(given, modes=("auto", "fixed"), use_recommended=False)
    sides = sides_of(automatic(loader.settings), fixed_params(loader, fixed, given))
    plan = read_plan(loader, sides, prompts, kinds, repeat, quick=quick)
    cards = [Path(f"{card}{suffix}") for suffix in _WRITER_BY_SUFFIX] if card is not None else []
    for file in cards:
        # --card README would overwrite README.md.
        check_writable(file, overwrites=force)
    lines = LineFile(save)
    return with_pair(loader, lambda session: _Benchmark(session, plan, lines, cards, as_json=as_json).run())


def read_plan(
    loader: PairLoader, sides: Sequence[Side], file: Path | None, kinds: str | None, repeat: int | None, *, quick: bool
) -> BenchmarkPlan:
    """Read and check the prompts before loading a model. Raises UsageError."""
    named: Sequence[str] | None = [kind.strip() for kind in kinds.split(",")] if kinds is not None else None
    if quick and named is None and file is None:
        named = QUICK_KINDS
    suite = read_suite(sys.stdin.buffer.read(), "Standard input") if file == STDIN else load_suite(file)
    return BenchmarkPlan(
        sides=sides,
        prompts=choose(suite, named, 1 if quick else None),
        request=answer_request(loader, QUICK_TOKENS if quick else BENCH_TOKENS),
        repeat=REPEAT if repeat is None else repeat,
        is_quick=quick,
        ends_early=repeat is None,
    )


class _Benchmark:
    def __init__(
        self, session: RaceSession, plan: BenchmarkPlan, save: LineFile, cards: Sequence[Path], *, as_json: bool
    ) -> None:
        self._session, self._plan, self._save = session, plan, save
        self._cards, self._as_json = cards, as_json
        self._facts = measured_on(session, plan.request)

    def run(self) -> int:
        pair, plan = self._session.pair, self._plan
        check_sides(pair, plan.sides)
        self._announce()
        began, race_status = time.monotonic(), RaceStatus(plan.repeat)
        results: dict[Prompt, list[Round]] = {}
        broken: AppError | None = None
        left, n_done, at = "", 0, ""
        try:
            for prompt, event in benchmark(pair, plan, results, self._session.cancel):
                what = event.what if isinstance(event, JobProgressed) else None
                if isinstance(what, RoundEnded):
                    lines = [json.dumps(line) for line in runs_json(prompt, what)]
                    self._save.add(*lines)
                    if self._as_json:
                        status.clear()
                        print("\n".join(lines), flush=True)
                    continue
                n_done, at = n_done + isinstance(what, RunEnded), str(prompt)
                if n_done:
                    left = f"{duration((plan.n_runs / n_done - 1) * (time.monotonic() - began))} left"
                if doing := race_status.line(event):
                    done = f"{n_done} of {plan.n_runs}  {prompt}: {doing}"
                    status.show(", ".join(filter(None, (left, done))))
        except AppError as error:
            if not results:
                raise
            broken = error
        status.clear()
        if not results:
            status.say("Stopped before every side had answered one prompt.")
            return INTERRUPTED
        is_stopped = not plan.is_enough(results)
        early = f"failed at {at}" if broken is not None else "stopped early" if is_stopped else ""
        self._report(results, f"{early} after {n_done} of {plan.n_runs} answers" if early else "")
        if broken is not None:
            raise broken
        return INTERRUPTED if is_stopped else 0

    def _announce(self) -> None:
        plan, memory = self._plan, self._session.pair.memory
        names, most = [shown_name(side.name) for side in plan.sides], plan.request.max_tokens
        text = f"{counted(len(plan.prompts), 'prompt')} x {counted(plan.repeat, 'round')} "
        text += f"x {len(names)} sides ({', '.join(names)}), and {len(names)} to warm up: "
        text += f"{plan.n_runs} answers of {most} tokens at most"
        if memory is not None and most is not None:
            seconds = plan.n_runs * most * memory.costs.target_ns(1, 0) / 1e9
            text += f", about {duration(seconds)}"
        status.say(f"{text}.")
        ends = ["It stops early when the result is clear."] * (plan.ends_early and plan.repeat > 1)
        ends += ["Ctrl+C stops it and keeps the measurements."] if status.is_live else []
        if ends:
            status.say(" ".join(ends))

    def _report(self, results: Results, early: str) -> None:
        plan, facts, title = self._plan, self._facts, pair_title(self._session.pair.info)
        table = plan.rows(results)
        busy = busy_programs(chain.from_iterable(results.values()))
        notes = [note for note in (early, busy) if note]
        by_kind = {row.kind: speeds(row.measured) for row in table}
        # The speed of half a suite does not compare with that of a whole suite.
        notes += [] if early else save_result(facts, by_kind, is_busy=bool(busy))
        n = max(1, plan.n_whole(results))
        runs = f"{plan.request.max_tokens} tokens at most, {counted(n, 'alternating run')}"
        about = {**facts, "answers": runs}
        whole = {"type": "result", "pair": title, "facts": about, "notes": notes}
        last = json.dumps({**whole, "rows": [row.as_json() for row in table]})
        self._save.add(last)
        try:
            if self._as_json:
                text = last
            else:
                answer = "\n".join(map(printable, [*verdict_lines(results, table), *notes]))
                parts = [for_reading(answer, sys.stdout), "\n".join(table_lines(table, columns_of(sys.stdout)))]
                about_it = "\n".join([printable(title), how(plan.request)])
                text = "\n\n".join([*parts, for_reading(about_it, sys.stdout)])
            print(text, flush=True)
        finally:
            for file in self._cards:
                write_file(file, _WRITER_BY_SUFFIX[file.suffix](title, table, about, notes))
                status.say(f"{file} is written.")
            self._save.close()


def verdict_lines(results: Results, table: Sequence[ResultRow]) -> list[str]:
    """Return the verdict on every side, with automatic drafting first."""
    *kinds, whole = table
    plain, *others = whole.measured
    lines = []
    for m in sorted(others, key=lambda m: m.name != AUTOMATIC):
        speeds = ""
        if m.tokens_per_second is not None and plain.tokens_per_second is not None and not m.is_idle:
            mine, baseline = m.tokens_per_second.median, plain.tokens_per_second.median
            speeds = f": {rate(mine)}, no draft {rate(baseline)}"
        lines.append(f"{m.name}: {m.verdict(MORE_ROUNDS)}{speeds}")
        why = list(results.values())[-1][-1][m.name].why
        if m.acceptance is None and why:
            lines.append(f"  {why_undrafted(why)}")
        ratios = [(one.ratio.median, row.kind) for row in kinds if not (one := row.of(m.name)).is_idle and one.ratio]
        if len(ratios) > 1:
            (least, where_least), (most, where_most) = min(ratios), max(ratios)
            lines.append(f"  most on {where_most}, {times(most)}; least on {where_least}, {times(least)}")
    return lines
