"""`tandem bench`: a suite of prompts by kind of text, with and without drafts."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from app.cli.command import STDIN
from app.cli.command_line import BENCH_TOKENS, QUICK_KINDS, QUICK_TOKENS, REPEAT
from app.cli.options import Options, read_options
from app.cli.output import LineFile, StatusLine, check_writable, columns_of, exists_already, for_reading, write_file
from app.cli.race_session import (
    RaceStatus,
    Session,
    answer_request,
    fixed_params,
    measured_on,
    save_result,
    with_pair,
)
from app.compare import AUTOMATIC
from app.compare.benchmark import (
    Plan,
    Results,
    RoundEnded,
    Row,
    benchmark,
    n_whole,
    round_json,
    rows,
    settled,
)
from app.compare.card import Card, markdown, svg, table_lines
from app.compare.history import Facts
from app.compare.measure import speeds
from app.compare.race import Round, Side, check_sides, sides_of
from app.compare.report import busy_programs, how, pair_title
from app.compare.suite import Prompt, choose, load_suite, read_suite
from app.core.errors import INTERRUPTED, AppError
from app.core.printable import printable
from app.core.regular_file import exists
from app.engine.drafting_report import rate, times, why_undrafted
from app.models.progress import duration
from app.worker.request import AnswerRequest

CARD_SUFFIXES = (".md", ".svg")


@dataclass(frozen=True, slots=True)
class BenchTask:
    """Options of a benchmark.

    Attributes:
        repeat: Most runs of each side that count.
        is_quick: Stop when the overall result is clear, not that of every kind.
        ends_early: Skip rounds that would not change the result.
        save: File of the JSON lines.
        card: Name of the share card's files without suffix, or None.
    """

    options: Options
    prompts: tuple[Prompt, ...]
    request: AnswerRequest
    sides: tuple[Side, ...]
    repeat: int
    is_quick: bool
    ends_early: bool
    save: LineFile
    card: str | None
    as_json: bool


def read_task(args: argparse.Namespace) -> BenchTask:
    """Read and check the options before anything is loaded. Raises UsageError."""
    options = read_options(args, modes=("auto", "fixed"), use_recommended=False)
    quick = "quick" in args
    kinds: Sequence[str] | None = [kind.strip() for kind in args.kinds.split(",")] if "kinds" in args else None
    if quick and kinds is None and "prompts" not in args:
        kinds = QUICK_KINDS
    card = str(args.card) if "card" in args else None
    if card is not None:
        for suffix in CARD_SUFFIXES:
            check_writable(file := Path(card + suffix))
            # --card README would overwrite README.md.
            if exists(file) and "force" not in args:
                raise exists_already(file)
    return BenchTask(
        options=options,
        prompts=tuple(choose(_suite(getattr(args, "prompts", None)), kinds, 1 if quick else None)),
        request=answer_request(args, options, QUICK_TOKENS if quick else BENCH_TOKENS),
        sides=sides_of(options.answers.automatic, fixed_params(args, options)),
        repeat=getattr(args, "repeat", REPEAT),
        is_quick=quick,
        ends_early="repeat" not in args,
        save=LineFile(getattr(args, "save", None)),
        card=card,
        as_json="json" in args,
    )


def _suite(file: Path | None) -> tuple[Prompt, ...]:
    return read_suite(sys.stdin.buffer.read(), "Standard input") if file == STDIN else load_suite(file)


def bench(args: argparse.Namespace) -> int:
    """Run the suite; returns the exit code."""
    task = read_task(args)

    def job(session: Session) -> int:
        facts = measured_on(session, task.request, task.options.answers.automatic, map(asdict, task.prompts))
        return _Benchmark(session, task, facts).run()

    return with_pair(task.options, job)


class _Benchmark:
    """Run, report and save one benchmark."""

    def __init__(self, session: Session, task: BenchTask, facts: Facts) -> None:
        self._session = session
        self._status = session.status
        self._task = task
        self._facts = facts
        self._names = [side.name for side in task.sides]

    def run(self) -> int:
        """Race on every prompt; returns the exit code."""
        pair, task = self._session.pair, self._task
        check_sides(pair, task.sides)
        plan = Plan(task.sides, task.prompts, task.request, task.repeat, is_enough=self._is_enough)
        self._announce(plan)
        began, race_status = time.monotonic(), RaceStatus(task.repeat)
        results: dict[Prompt, list[Round]] = {}
        broken: AppError | None = None
        left, n_done, at = "", 0, ""
        try:
            for event in benchmark(pair, plan, results, self._session.cancel):
                if isinstance(event, RoundEnded):
                    self._save_round(event)
                    continue
                n_done, at = event.done, str(event.prompt)
                if event.done:
                    left = f"{duration((plan.n_runs / event.done - 1) * (time.monotonic() - began))} left"
                if doing := race_status.line(event.event):
                    done = f"{event.done} of {plan.n_runs}  {event.prompt}: {doing}"
                    self._status.show(", ".join(filter(None, (left, done))))
        except AppError as error:
            if not results:
                raise
            broken = error
        self._status.clear()
        if not results:
            self._status.say("Stopped before every side had answered one prompt.")
            return INTERRUPTED
        is_stopped = n_whole(results, len(task.prompts)) < task.repeat and not self._is_enough(results)
        early = f"broken off at {at}" if broken is not None else "stopped early" if is_stopped else ""
        self._report(results, f"{early} after {n_done} of {plan.n_runs} answers" if early else "")
        if broken is not None:
            raise broken
        return INTERRUPTED if is_stopped else 0

    def _is_enough(self, results: Results) -> bool:
        """Return whether more rounds would not change the result."""
        task = self._task
        if not task.ends_early or not n_whole(results, len(task.prompts)):
            return False
        table = rows(results, self._names)
        return settled(table[-1:] if task.is_quick else table)

    def _announce(self, plan: Plan) -> None:
        """Print what will run, and how long it takes if the pair's costs are known."""
        task, n, memory = self._task, len(self._task.prompts), self._session.pair.memory
        text = f"{n} prompt{'s' * (n != 1)} x {task.repeat} round{'s' * (task.repeat != 1)} "
        text += f"x {len(self._names)} sides ({', '.join(self._names)}), and {len(self._names)} to warm up: "
        text += f"{plan.n_runs} answers of {task.request.max_tokens} tokens at most"
        if memory is not None and task.request.max_tokens is not None:
            seconds = plan.n_runs * task.request.max_tokens * memory.costs.target_ns(1, 0) / 1e9
            text += f", about {duration(seconds)}"
        self._status.say(f"{text}.")
        ends = ["It ends sooner once the answer is clear."] * (task.ends_early and task.repeat > 1)
        ends += ["Ctrl+C ends it and keeps what was measured."] if self._status.is_live else []
        if ends:
            self._status.say(" ".join(ends))

    def _save_round(self, ended: RoundEnded) -> None:
        lines = [json.dumps(line) for line in round_json(ended)]
        self._task.save.add(*lines)
        if self._task.as_json:
            self._status.clear()
            print("\n".join(lines), flush=True)

    def _report(self, results: Results, early: str) -> None:
        """Print the verdict and its table; `early` says that the run is incomplete."""
        task, facts, title = self._task, self._facts, pair_title(self._session.pair.info)
        table = rows(results, self._names)
        notes = [early] if early else []
        busy = busy_programs(chain.from_iterable(results.values()))
        # The speed of half a suite is not that of a whole one.
        notes += [busy] * bool(busy)
        by_kind = {row.kind: speeds(row.measured) for row in table}
        notes += [] if early else save_result(facts, by_kind, is_busy=bool(busy))
        n = max(1, n_whole(results, len(task.prompts)))
        runs = f"{task.request.max_tokens} tokens at most, {n} alternating run{'s' * (n != 1)}"
        about = {"machine": facts.machine, **facts.details, "answers": runs}
        whole = {"type": "result", "pair": title, "facts": about, "notes": notes}
        last = json.dumps({**whole, "rows": [row.as_json() for row in table]})
        task.save.add(last)
        try:
            if task.as_json:
                text = last
            else:
                answer = "\n".join(map(printable, [*verdict_lines(results, table), *notes]))
                parts = [for_reading(answer, sys.stdout), "\n".join(table_lines(table, columns_of(sys.stdout)))]
                about_it = "\n".join([printable(title), how(task.request)])
                text = "\n\n".join([*parts, for_reading(about_it, sys.stdout)])
            print(text, flush=True)
        finally:
            if task.card is not None:
                _write_card(self._status, task.card, Card(title, table, about, notes))
            task.save.close()


def verdict_lines(results: Results, table: Sequence[Row]) -> list[str]:
    """Return the verdict on every side, automatic drafting first."""
    *kinds, whole = table
    plain, *others = whole.measured
    lines = []
    for m in sorted(others, key=lambda m: m.name != AUTOMATIC):
        speeds = ""
        if m.tokens_per_second is not None and plain.tokens_per_second is not None and not m.is_idle:
            mine, baseline = m.tokens_per_second.median, plain.tokens_per_second.median
            speeds = f": {rate(mine)}, no draft {rate(baseline)}"
        lines.append(f"{m.name}: {m.verdict()}{speeds}")
        why = list(results.values())[-1][-1][m.name].why
        if m.acceptance is None and why:
            lines.append(f"  {why_undrafted(why)}")
        ratios = [(one.ratio.median, row.kind) for row in kinds if not (one := row.of(m.name)).is_idle and one.ratio]
        if len(ratios) > 1:
            (least, where_least), (most, where_most) = min(ratios), max(ratios)
            lines.append(f"  most on {where_most}, {times(most)}; least on {where_least}, {times(least)}")
    return lines


def _write_card(status: StatusLine, name: str, card: Card) -> None:
    """Write a share card as Markdown and as a picture. Raises AppError."""
    for suffix, text in zip(CARD_SUFFIXES, (markdown(card), svg(card)), strict=True):
        write_file(Path(name + suffix), text)
        status.say(f"{name}{suffix} is written.")
