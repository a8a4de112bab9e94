"""`tandem bench`: a suite of prompts by kind of text, with and without drafts."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.cli.bench.card import write_card
from app.cli.bench.lossless import check_lossless
from app.cli.bench.task import BenchTask, read_task
from app.cli.measured_on import measured_on
from app.cli.output import StatusLine
from app.cli.prose import columns_of, for_reading
from app.cli.race_session import Session, against_earlier, contenders_of, out, progress_line, with_pair
from app.cli.streams import is_refusal, is_unread, let_go_of_output
from app.compare.benchmark import Plan, Progress, Raced, benchmark, figures, rows, with_most_rounds
from app.compare.card import Card
from app.compare.history import Facts
from app.compare.measure import factor, measure, verdict
from app.compare.race import RaceBroken
from app.compare.report import crowded, how, pair_title, raced_json, table_lines, undrafted
from app.compare.server import Server, contender
from app.compare.sides import AUTOMATIC, PLAIN, sides_of
from app.compare.steps import Steps
from app.compare.suite import refuse_overlong
from app.engine.text import printable
from app.errors import INTERRUPTED, AppError
from app.pairing.texts import duration

SERVER = "server"


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
    """What the server says about itself; it may load its model first, and whoever waits sees for what."""
    status = StatusLine(sys.stderr)
    status.show(f"Asking {server.url} for a token")
    try:
        return server.introduce()
    finally:
        status.clear()


class _Benchmark:
    """One benchmark, watched, told and kept.

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
        self._n_done = 0
        self._left_s: float | None = None
        self._can_print = True
        self._refused: OSError | None = None
        """Why it cannot, where that is to be told: of a reader who has read enough it is not."""

    def run(self) -> int:
        """Race on every prompt; returns the exit code."""
        pair, task = self._session.pair, self._task
        contenders = contenders_of(pair, task.options, task.fixed)
        if task.server is not None:
            contenders.append(contender(task.server, SERVER))
        refuse_overlong(pair, task.prompts, task.request, self._session.cancel)
        sides = sides_of(task.options.automatic, task.fixed)
        sources = {source for side in sides for source in pair.info.sources(side.drafting)}
        plan = Plan(contenders, task.prompts, task.request, task.repeat, task.oracle, sources)
        if not self._status.is_live:
            n = len(task.prompts)
            self._status.say(f"{n} prompt{'s' * (n != 1)}, {plan.n_runs} runs; a line for every prompt that is done")
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
            self._status.say("Stopped before everybody had answered one prompt.")
            return INTERRUPTED
        stopped = len(raced) < len(task.prompts) or len(raced[-1].rounds) < task.repeat
        early = "broken off" if broken is not None else "stopped early" if stopped else ""
        self._tell(raced, [contender.name for contender in contenders], early)
        if broken is not None:
            raise broken
        if self._refused is not None:
            raise self._refused
        return INTERRUPTED if stopped else 0

    def _keep(self, raced: Raced) -> None:
        """Print a prompt's runs at once, so that a later failure takes nothing with it."""
        self._n_done += 1
        if not self._status.is_live:
            n = len(self._task.prompts)
            left = f", {duration(self._left_s)} left" if self._left_s is not None and self._n_done < n else ""
            done = f"{self._n_done} of {n}{left}"
            self._status.say(f"{raced.prompt}: {_in_brief(raced)}  ({done})")
        lines = [json.dumps(line) for line in raced_json(raced, steps=self._task.with_steps)]
        self._task.save.add(*lines)
        if self._task.as_json:
            self._status.clear()
            self._out("\n".join(lines))

    def _out(self, text: str) -> None:
        """Print, as long as that can be done: a reader who has gone, or a full disk, takes nothing from the files."""
        if not self._can_print:
            return
        try:
            out(text)
        except OSError as error:
            if not self._task.is_kept or not (is_unread(error) or is_refusal(error)):
                raise
            self._can_print = False
            self._refused = None if is_unread(error) else error
            let_go_of_output()

    def _show(self, at: Progress) -> None:
        self._left_s = at.left_s
        doing = progress_line(at.event, self._task.repeat) if at.event is not None else at.what
        if doing is not None:
            left = f"  {duration(at.left_s)} left" if at.left_s is not None else ""
            self._status.show(f"{at.prompt}  {at.done} of {at.total}{left}  {doing}")

    def _tell(self, raced: Sequence[Raced], names: Sequence[str], early: str) -> None:
        """The table and what it means; `early` says how it ended before its time, "" if it did not."""
        task, facts, title = self._task, self._facts, pair_title(self._session.pair.info)
        table = rows(raced, names)
        notes = [f"{early}: {len(with_most_rounds(raced))} of {len(task.prompts)} prompts"] if early else []
        company = crowded(round_ for one in raced for round_ in one.rounds)
        notes += filter(None, [company])
        # Half a suite is not comparable with a whole one.
        remarks = [] if early else against_earlier(facts, figures(table), is_crowded=company is not None)
        runs = f"{task.request.max_tokens} tokens at most, {task.repeat} alternating run{'s' * (task.repeat != 1)}"
        about = {"machine": facts.machine, **facts.details, "answers": runs}
        whole = {"type": "result", "pair": title, "facts": about, "notes": [*notes, *remarks]}
        last = json.dumps({**whole, "rows": [row.as_json() for row in table]})
        task.save.add(last)
        try:
            if task.as_json:
                self._out(last)
            else:
                lines = [printable(title), how(task.request), "", *table_lines(table, columns_of(sys.stdout))]
                self._out("\n".join(lines))
                told = "\n".join(map(printable, [*_sentences(raced, names), *notes, *remarks]))
                self._out("\n" + for_reading(told, sys.stdout))
        finally:
            # Nobody may be there any more to whom it is told.
            if task.card is not None:
                write_card(self._session, task.card, Card(title, table, about, notes))
            task.save.close()


def _in_brief(raced: Raced) -> str:
    """How fast everybody was on one prompt."""
    said = []
    for name in raced.rounds[-1]:
        measured = measure([raced.rounds], name, PLAIN)
        if name == PLAIN:
            speed = measured.tokens_per_second
            said.append(f"{name} {speed.median:.1f} t/s" if speed is not None else f"{name} one token")
        elif measured.ratio is not None:
            said.append(f"{name} {factor(measured.ratio.median)}x")
    return ", ".join(said)


def _sentences(raced: Sequence[Raced], names: Sequence[str]) -> list[str]:
    """The verdicts over everything."""
    races = [one.rounds for one in with_most_rounds(raced)]
    lines = []
    for name in names:
        if name == PLAIN:
            continue
        measured, why = measure(races, name, PLAIN), raced[-1].rounds[-1][name].why
        lines.append(f"{name}: {verdict(measured.ratio, work=measured.work)}")
        if measured.acceptance is None and why:
            lines.append(f"  {undrafted(why)}")
    if SERVER in names:
        lines.append(f"{AUTOMATIC} against the server: {verdict(measure(races, AUTOMATIC, SERVER).ratio)}")
        # At the end of a text that was cut, ours keeps the space to go on from.
        same = sum(one.rounds[0][PLAIN].text.strip() == one.rounds[0][SERVER].text.strip() for one in raced)
        lines.append(f"The server's text is plain decoding's on {same} of {len(raced)} prompts.")
    return lines
