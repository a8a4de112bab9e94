"""`tandem compare`: one prompt with and without drafts, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.cli.command_line import COMPARE_TOKENS, REPEAT
from app.cli.options import read_options
from app.cli.output import for_reading, json_for
from app.cli.race_session import (
    Session,
    against_earlier,
    answer_request,
    contenders_of,
    fixed_params,
    measured_on,
    out,
    progress_line,
    with_pair,
)
from app.cli.result_file import check_writable, write
from app.cli.streams import read_input
from app.compare.difference import Difference, explain
from app.compare.history import Facts
from app.compare.measure import speeds
from app.compare.race import Contender, RaceBroken, Round, Steps, race
from app.compare.report import compared, comparison_json, comparison_lines, crowded, how, pair_title
from app.compare.sides import PLAIN
from app.conversations.message import Message, Role
from app.core.errors import INTERRUPTED, AppError, Interrupted, UsageError
from app.core.printable import escape_unprintable, printable
from app.worker.request import AnswerRequest

_SHOWN = 60


def compare(args: argparse.Namespace) -> int:
    """Race on one prompt; returns the exit code."""
    options = read_options(args, modes=("auto", "fixed"))
    request = answer_request(
        args, options, COMPARE_TOKENS, Message(Role.USER, _read_prompt(getattr(args, "prompt", None)))
    )
    repeat: int = getattr(args, "repeat", REPEAT)
    fixed = fixed_params(args, options)
    if "save" in args:
        check_writable(args.save)

    def job(session: Session) -> int:
        contenders = contenders_of(session.pair, options, fixed)
        facts = measured_on(session.pair, session.params, request, options.automatic)
        return _Comparer(session, request, facts).run(contenders, repeat, args)

    return with_pair(options, job)


class _Comparer:
    """Run one comparison and print it."""

    def __init__(self, session: Session, request: AnswerRequest, facts: Facts) -> None:
        self._pair = session.pair
        self._cancel = session.cancel
        self._status = session.status
        self._notices = session.notices
        self._request = request
        self._facts = facts
        self._broken: AppError | None = None
        """Error that ended the comparison early."""

    def run(self, contenders: Sequence[Contender], repeat: int, args: argparse.Namespace) -> int:
        rounds = self._race(contenders, repeat)
        stopped, broken = self._cancel(), self._broken
        if not rounds and broken is not None:
            raise broken
        if not rounds:
            self._status.say("Stopped before every side had answered once.")
            return INTERRUPTED
        differences: dict[str, Difference | None] = {}
        if not stopped and broken is None:
            self._status.show("Comparing the texts")
            differences = self._differences(rounds[0])
            stopped, broken = self._cancel(), self._broken
        self._status.clear()
        comparison = compared(rounds, differences)
        # Of one that ended early the texts were not compared, and it has fewer rounds than its like.
        early = stopped or broken is not None
        company = crowded(rounds)
        now = {"": speeds(comparison.measured)}
        remarks = [] if early else against_earlier(self._facts, now, is_crowded=company is not None)
        remarks[:0] = filter(None, [company])
        whole = {
            **self._about(repeat, len(rounds)),
            "facts": {"machine": self._facts.machine, **self._facts.details},
            "notes": remarks,
            "contenders": comparison_json(comparison),
        }
        lines = [*comparison_lines(comparison), *([""] if remarks else []), *map(printable, remarks)]
        text = "\n".join([*self._title(len(rounds)), "", *lines])
        try:
            out(json_for(sys.stdout, whole) if "json" in args else for_reading(text, sys.stdout))
        finally:
            if "save" in args:
                write(args.save, escape_unprintable(json.dumps(whole, ensure_ascii=False, indent=2)) + "\n")
        if broken is not None:
            broken_off = f"Failed after {len(rounds)} of {repeat} rounds."
            self._status.say(broken_off if len(rounds) < repeat else "Failed while comparing the texts.")
            raise broken
        if stopped:
            self._status.say(f"Stopped after {len(rounds)} of {repeat} rounds.")
        return INTERRUPTED if stopped else 0

    def _race(self, contenders: Sequence[Contender], repeat: int) -> list[Round]:
        steps = Steps(race(contenders, self._request, repeat, self._cancel))
        for event in steps:
            if isinstance(event, RaceBroken):
                self._broken = event.error
            elif (line := progress_line(event, repeat)) is not None:
                self._status.show(line)
        return steps.result

    def _differences(self, round_: Round) -> dict[str, Difference | None]:
        found: dict[str, Difference | None] = {}
        try:
            for name, run in round_.items():
                if name != PLAIN:
                    sampling = self._request.sampling
                    found[name] = explain(self._pair, round_[PLAIN], run, sampling, self._cancel)
        except Interrupted:
            pass
        except AppError as error:
            self._broken = error
        return found

    def _title(self, done: int) -> list[str]:
        prompt = " ".join(self._request.messages[-1].content.split())
        shown = prompt if len(prompt) <= _SHOWN else prompt[: _SHOWN - 1] + "…"
        return [
            printable(pair_title(self._pair.info)),
            printable(f'"{shown}", {how(self._request)}, {done} round{"s" if done != 1 else ""}'),
        ]

    def _about(self, repeat: int, done: int) -> dict[str, Any]:
        info = self._pair.info
        return {
            "target": asdict(info.target),
            "draft": asdict(info.draft) if info.draft is not None else None,
            "device": info.device,
            "prompt": self._request.messages[-1].content,
            "sampling": asdict(self._request.sampling),
            "max_tokens": self._request.max_tokens,
            "rounds_asked": repeat,
            "rounds_done": done,
            "notices": list(self._notices),
        }


def _read_prompt(text: str | None) -> str:
    if text == "-":
        text = read_input()
    if text is None or not text.strip():
        raise UsageError("Give a prompt.", 'For example: tandem compare "Why is the sky blue?"')
    return text
