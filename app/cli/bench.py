"""`tandem bench`: a suite of prompts by kind of text, with and without drafts."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.cli.bench_report import SERVER, answer_lines, tells_all, write_card
from app.cli.bench_task import BenchTask, read_task
from app.cli.output import StatusLine, columns_of, for_reading, json_for
from app.cli.race_session import Session, against_earlier, contenders_of, measured_on, out, progress_line, with_pair
from app.compare.benchmark import Plan, Progress, Raced, benchmark, figures, n_whole, rows
from app.compare.card import Card
from app.compare.history import Facts
from app.compare.lossless import EVERYTHING, Checks, check, statement
from app.compare.measure import UNDRAFTED, factor, measure
from app.compare.race import RaceBroken, Round, Steps
from app.compare.report import checks_json, crowded, how, lossless_lines, pair_title, round_json, table_lines
from app.compare.server import Server, contender
from app.compare.sides import PLAIN, Side, check_sides, sides_of
from app.compare.suite import Prompt, refuse_overlong
from app.core.errors import INTERRUPTED, AppError, Interrupted
from app.core.printable import printable
from app.engine.types import Drafting
from app.models.progress import duration


def bench(args: argparse.Namespace) -> int:
    """Run the suite; returns the exit code."""
    task = read_task(args)
    # A server that cannot take part must not be found out after the models were loaded.
    told = _introduced(task.server) if task.server is not None else {}

    def job(session: Session) -> int:
        if task.check_lossless:
            return check_lossless(session, task)
        facts = measured_on(
            session.pair, session.params, task.request, task.options.automatic, map(asdict, task.prompts), told
        )
        return _Benchmark(session, task, facts).run()

    return with_pair(task.options, job)


def _introduced(server: Server) -> dict[str, Any]:
    """Ask the server about itself; it may load its model first."""
    status = StatusLine(sys.stderr)
    status.show(f"Asking {server.url} for a token")
    try:
        return server.introduce()
    finally:
        status.clear()


class _Benchmark:
    """Run, report and save one benchmark.

    Args:
        session: The loaded pair.
        task: What was asked for.
        facts: What it is measured on.
    """

    def __init__(self, session: Session, task: BenchTask, facts: Facts) -> None:
        self._session = session
        self._status = session.status
        self._task = task
        self._facts = facts
        self._names: list[str] = []
        """Names of the sides, the baseline first."""
        self._n_done = 0
        self._left_s: float | None = None

    def run(self) -> int:
        """Race on every prompt; returns the exit code."""
        pair, task = self._session.pair, self._task
        contenders = contenders_of(pair, task.options, task.fixed)
        if task.server is not None:
            contenders.append(contender(task.server, SERVER))
        lengths = refuse_overlong(pair, task.prompts, task.request, self._session.cancel)
        sides = sides_of(task.options.automatic, task.fixed)
        sources = {source for side in sides for source in pair.info.sources(side.drafting)}
        self._names = [contender.name for contender in contenders]
        plan = Plan(
            contenders,
            task.prompts,
            task.request,
            task.repeat,
            oracle=task.oracle,
            sources=sources,
            min_match=task.options.automatic.min_match,
            lengths=lengths,
            enough=self._says_it_all,
        )
        self._announce(plan)
        steps = Steps(benchmark(pair, plan, self._session.cancel, time.perf_counter_ns, self._keep))
        broken: AppError | None = None
        for at in steps:
            if isinstance(at.event, RaceBroken):
                broken = at.event.error
            else:
                self._show(at)
        self._status.clear()
        raced = steps.result
        if not raced and broken is not None:
            raise broken
        if not raced:
            self._status.say("Stopped before every side had answered one prompt.")
            return INTERRUPTED
        stopped = n_whole(raced, len(task.prompts)) < task.repeat and not self._says_it_all(raced)
        early = "broken off" if broken is not None else "stopped early" if stopped else ""
        self._tell(raced, early)
        if broken is not None:
            raise broken
        return INTERRUPTED if stopped else 0

    def _says_it_all(self, raced: Sequence[Raced]) -> bool:
        """Return whether more rounds would not change the result."""
        task = self._task
        if not task.ends_early or not n_whole(raced, len(task.prompts)):
            return False
        table = rows(raced, self._names)
        return tells_all(raced, table[-1:] if task.is_quick else table)

    def _announce(self, plan: Plan) -> None:
        """Print what will run and how long it takes."""
        task = self._task
        n, sides = len(task.prompts), ", ".join(self._names)
        what = f"{n} prompt{'s' * (n != 1)} x {task.repeat} round{'s' * (task.repeat != 1)}"
        what += f" x {len(self._names)} sides ({sides})"
        seconds = plan.time_left(self._session.pair).seconds(plan.to_come(0), plan.to_reckon())
        time_ = f", about {duration(seconds)}" if seconds is not None else ""
        if warming := plan.n_runs - n * task.repeat * len(self._names):
            what += f", and {warming} to warm up"
        self._status.say(f"{what}: {plan.n_runs} answers of {task.request.max_tokens} tokens at most{time_}.")
        ends = ["It ends sooner once the answer is clear"] * (task.ends_early and task.repeat > 1)
        ends += ["ctrl+c ends it and keeps what was measured"] if self._status.is_live else ["a line for every prompt"]
        told = "; ".join(ends)
        self._status.say(f"{told[:1].upper()}{told[1:]}.")

    def _keep(self, prompt: Prompt, number: int, round_: Round) -> None:
        """Print and save the runs of one prompt."""
        self._n_done += 1
        if not self._status.is_live:
            task = self._task
            n = len(task.prompts) * task.repeat
            left = f", {duration(self._left_s)} left" if self._left_s is not None and self._n_done < n else ""
            done = f"{(self._n_done - 1) % len(task.prompts) + 1} of {len(task.prompts)}"
            turn = f"round {number} of {task.repeat}, " if task.repeat > 1 else ""
            self._status.say(f"{prompt}: {_in_brief(round_)}  ({turn}{done}{left})")
        lines = [json.dumps(line) for line in round_json(prompt, number, round_, steps=self._task.with_steps)]
        self._task.save.add(*lines)
        if self._task.as_json:
            self._status.clear()
            out("\n".join(lines))

    def _show(self, at: Progress) -> None:
        self._left_s = at.left_s
        doing = progress_line(at.event, self._task.repeat) if at.event is not None else at.what
        if doing is not None:
            left = f"{duration(at.left_s)} left, " if at.left_s is not None else ""
            self._status.show(f"{left}{at.done} of {at.total}  {at.prompt}: {doing}")

    def _tell(self, raced: Sequence[Raced], early: str) -> None:
        """Print the verdict and its table; `early` says why the run is incomplete, or ""."""
        task, facts, title = self._task, self._facts, pair_title(self._session.pair.info)
        table = rows(raced, self._names)
        notes = [f"{early}: {_how_far(raced, len(task.prompts), task.repeat)}"] if early else []
        company = crowded(round_ for one in raced for round_ in one.rounds)
        notes += filter(None, [company])
        # Half a suite is not comparable with a whole one.
        remarks = [] if early else against_earlier(facts, figures(table), is_crowded=company is not None)
        n = max(1, n_whole(raced, len(task.prompts)))
        runs = f"{task.request.max_tokens} tokens at most, {n} alternating run{'s' * (n != 1)}"
        about = {"machine": facts.machine, **facts.details, "answers": runs}
        whole = {"type": "result", "pair": title, "facts": about, "notes": [*notes, *remarks]}
        last = json.dumps({**whole, "rows": [row.as_json() for row in table]})
        task.save.add(last)
        try:
            if task.as_json:
                out(last)
            else:
                told = "\n".join(map(printable, [*answer_lines(raced, table), *notes, *remarks]))
                behind = "\n".join([printable(title), how(task.request)])
                parts = [
                    for_reading(told, sys.stdout),
                    "\n".join(table_lines(table, columns_of(sys.stdout))),
                    for_reading(behind, sys.stdout),
                ]
                out("\n\n".join(parts))
        finally:
            if task.card is not None:
                write_card(self._session, task.card, Card(title, table, about, notes))
            task.save.close()


def _how_far(raced: Sequence[Raced], n_prompts: int, repeat: int) -> str:
    """Return which part of an incomplete suite was measured."""
    if len(raced) < n_prompts:
        return f"{len(raced)} of {n_prompts} prompts" + (f" in the first of {repeat} rounds" if repeat > 1 else "")
    whole = n_whole(raced, n_prompts)
    more = sum(len(one.rounds) > whole for one in raced)
    return f"{whole} of {repeat} rounds" + (f", and {more} of {n_prompts} prompts of the next" if more else "")


def _in_brief(round_: Round) -> str:
    """Return the speed of every side on one prompt."""
    said = []
    for name in round_:
        measured = measure([[round_]], name, PLAIN)
        if name == PLAIN:
            speed = measured.tokens_per_second
            said.append(f"{name} {speed.median:.1f} tok/s" if speed is not None else f"{name} one token")
        elif measured.ratio is not None:
            told = UNDRAFTED if measured.work == "plain" else f"{factor(measured.ratio.median)}×"
            said.append(f"{name} {told}")
    return ", ".join(said)


def check_lossless(session: Session, task: BenchTask) -> int:
    """Compare the texts and tell; returns the exit code, 1 if drafting changes one, or none was drafted.

    Raises:
        ContextOverflowError: A prompt does not fit; nothing was checked.
        AppError: The target failed; what was found before is told and saved.
    """
    cancel, status = session.cancel, session.status
    checks = Checks()
    broken: AppError | None = None
    draftings = _draftings(session, task)
    refuse_overlong(session.pair, task.prompts, task.request, cancel)
    try:
        for doing in check(session.pair, checks, task.prompts, task.request, draftings, task.samples, cancel):
            status.show(doing)
    except Interrupted:
        pass
    except AppError as error:
        broken = error
    status.clear()
    if broken is not None and not checks.greedy:
        raise broken
    whole = {**checks_json(checks), "stopped": cancel() or broken is not None}
    told = "\n".join([*lossless_lines(checks), "", statement(checks)])
    task.save.add(json.dumps(whole, ensure_ascii=False))
    try:
        out(json_for(sys.stdout, whole) if task.as_json else for_reading(told, sys.stdout))
    finally:
        task.save.close()
    if broken is not None:
        done = len({found.prompt for found in checks.greedy})
        status.say(f"Broken off after {done} of {len(task.prompts)} prompts.")
        raise broken
    if cancel():
        status.say("Stopped early.")
        return INTERRUPTED
    return 0 if checks.hold else 1


def _draftings(session: Session, task: BenchTask) -> list[tuple[str, Drafting]]:
    """Return every way of drafting that is compared with the baseline, by name.

    Raises:
        UsageError: The pair lacks what one needs.
    """
    everything = [Side("drafting everything", EVERYTHING)] if session.pair.drafter is not None else []
    _plain, *others = sides_of(task.options.automatic, task.fixed)
    check_sides(session.pair, others)
    return [(side.name, side.drafting) for side in (*everything, *others)]
