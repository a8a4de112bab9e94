"""What `tandem compare` does, and what `tandem bench` shares with it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.chat.message import Message, Role
from app.cli import INTERRUPTED
from app.cli.compare import REPEAT
from app.cli.interrupt import cancel_on_interrupt
from app.cli.loading import pair_params
from app.cli.measured_on import measured_on
from app.cli.options import Options, read_options
from app.cli.output import StatusLine
from app.cli.process import refuse_process
from app.cli.result_file import check_writable, write
from app.cli.streams import read_input
from app.compare.difference import Difference, explain
from app.compare.history import Facts, History, Result, remark
from app.compare.measure import Spread, speeds
from app.compare.race import WARM_UP, Contender, RaceProgress, Round, RunEnded, in_process, race
from app.compare.report import compared, comparison_json, comparison_lines, how, pair_title
from app.compare.sides import PLAIN, check_sides, sides_of, with_seed
from app.engine.text import printable
from app.engine.types import DraftParams
from app.errors import Interrupted, UsageError
from app.events import Measuring, PromptProgressed, StepCompleted
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair, PairParams
from app.paths import memory_dir
from app.responder import AnswerRequest, LoadedPair

_TOKENS = 256
_SHOWN = 60
_PARAMS: dict[str, Callable[[str], float]] = {"n_max": int, "n_min": int, "p_min": float}

SEED = 1
"""Of every draw, unless another one is asked for: the same command must measure the same answers."""

Job = Callable[[NativePair, PairParams, CancelFlag, StatusLine], int]


def compare(args: argparse.Namespace) -> int:
    """Race on one prompt; see the module."""
    options = read_options(args, modes=("auto", "fixed"))
    refuse_process(options.process)
    request = answer_request(options, _TOKENS, Message(Role.USER, _read_prompt(getattr(args, "prompt", None))))
    repeat = at_least_one(args, "repeat", REPEAT)
    fixed = fixed_params(args, options)
    if "save" in args:
        check_writable(args.save)

    def job(pair: NativePair, params: PairParams, cancel: CancelFlag, status: StatusLine) -> int:
        contenders = contenders_of(pair, options, fixed)
        facts = measured_on(pair, params, request, options.drafting)
        return _Comparer(pair, request, facts, cancel, status).run(contenders, repeat, args)

    return with_pair(options, job)


class _Comparer:
    """One race, watched and told."""

    def __init__(
        self, pair: LoadedPair, request: AnswerRequest, facts: Facts, cancel: CancelFlag, status: StatusLine
    ) -> None:
        self._pair = pair
        self._request = request
        self._facts = facts
        self._cancel = cancel
        self._status = status

    def run(self, contenders: Sequence[Contender], repeat: int, args: argparse.Namespace) -> int:
        rounds = self._race(contenders, repeat)
        stopped = self._cancel()
        if not rounds:
            self._status.say("Stopped before everybody had answered once.")
            return INTERRUPTED
        differences: dict[str, Difference | None] = {}
        if not stopped:
            self._status.show("Comparing the texts")
            differences = self._differences(rounds[0])
            stopped = self._cancel()
        self._status.clear()
        comparison = compared(rounds, differences)
        # Of a stopped one the texts were not compared, and it has fewer rounds than its like.
        remarks = [] if stopped else against_earlier(self._facts, {"": speeds(comparison.measured)})
        whole = {
            **self._about(repeat, len(rounds)),
            "facts": {"machine": self._facts.machine, **self._facts.details},
            "notes": remarks,
            "contenders": comparison_json(comparison),
        }
        lines = [*comparison_lines(comparison), *([""] if remarks else []), *map(printable, remarks)]
        text = "\n".join([*self._title(len(rounds)), "", *lines])
        try:
            out(json.dumps(whole, ensure_ascii=False) if "json" in args else text)
        finally:
            # A reader who has gone takes nothing from the file.
            if "save" in args:
                write(args.save, json.dumps(whole, ensure_ascii=False, indent=2) + "\n")
        if stopped:
            self._status.say(f"Stopped after {len(rounds)} of {repeat} rounds.")
        return INTERRUPTED if stopped else 0

    def _race(self, contenders: Sequence[Contender], repeat: int) -> list[Round]:
        work = race(contenders, self._request, repeat, self._cancel)
        while True:
            try:
                event = next(work)
            except StopIteration as ended:
                rounds: list[Round] = ended.value
                return rounds
            if (line := progress_line(event, repeat)) is not None:
                self._status.show(line)

    def _differences(self, round_: Round) -> dict[str, Difference | None]:
        found: dict[str, Difference | None] = {}
        try:
            for name, run in round_.items():
                if name != PLAIN:
                    sampling = self._request.sampling
                    found[name] = explain(self._pair, round_[PLAIN], run, sampling, self._cancel)
        except Interrupted:
            pass
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
            "notices": list(self._pair.notices),
        }


# What `tandem bench` shares


def with_pair(options: Options, job: Job) -> int:
    """Load the pair, do the work on this thread, and free the pair; Ctrl+C is a polite request."""
    status, cancel = StatusLine(sys.stderr), CancelFlag()

    def progress(what: str, share: float) -> bool:
        status.show(f"Loading the {what} model {share:4.0%}")
        return not cancel()

    try:
        with cancel_on_interrupt(cancel.set):
            params = pair_params(options)
            pair = NativePair(params, cancel, progress)
            try:
                for notice in pair.notices:
                    status.say(notice)
                return job(pair, params, cancel, status)
            finally:
                status.clear()
                pair.close()
    except Interrupted:
        status.say("Stopped.")
        return INTERRUPTED


def answer_request(options: Options, tokens: int, *messages: Message) -> AnswerRequest:
    """What everybody is asked, with one seed for all."""
    return AnswerRequest(
        options.conversation(*messages),
        with_seed(options.pair.sampling, SEED),
        max_tokens=options.max_tokens or tokens,
        stops=options.stops,
    )


def fixed_params(args: argparse.Namespace, options: Options) -> DraftParams | None:
    """The fixed parameters that take part, if any.

    Raises:
        UsageError: They cannot be read or are out of range, or drafting is off.
    """
    if options.drafting is None:
        raise UsageError("Without drafting there is nothing to compare.", "Leave --no-draft and --drafting off out.")
    if "fixed" in args:
        return parse_fixed(args.fixed)
    return options.drafting if isinstance(options.drafting, DraftParams) else None


def parse_fixed(text: str) -> DraftParams:
    """Parameters such as "n_max=7,p_min=0.6"."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            given[name.strip()] = _PARAMS[name.strip()](value)
        except (KeyError, ValueError):
            raise UsageError(f"--fixed cannot be {text!r}.", "For example: --fixed n_max=7,p_min=0.6") from None
    return DraftParams(**given)


def contenders_of(pair: LoadedPair, options: Options, fixed: DraftParams | None) -> list[Contender]:
    """Plain decoding, the fixed parameters if there are any, and automatic drafting."""
    sides = sides_of(options.drafting, fixed)
    check_sides(pair, sides)
    return [in_process(pair, side.name, side.drafting) for side in sides]


def progress_line(event: RaceProgress, repeat: int) -> str | None:
    """What a race is doing, or None when it is not worth a line."""
    if isinstance(event, RunEnded):
        return None
    turn = "warming up" if event.round == WARM_UP else f"round {event.round} of {repeat}"
    match event.event:
        case Measuring(share=share):
            return f"Measuring this pair on this machine, once {share:4.0%}"
        case PromptProgressed(done=done, total=total):
            return f"{event.contender}, {turn}: reading the prompt {done:,} of {total:,}"
        case StepCompleted(stats=stats):
            return f"{event.contender}, {turn}: {stats.predicted_n} tokens, {stats.predicted_per_second:.1f} t/s"
    return None


def against_earlier(facts: Facts, speeds: Mapping[str, Mapping[str, Spread]]) -> list[str]:
    """Keep speeds in this machine's history; returns what earlier ones make of them, as lines."""
    history = History(memory_dir().parent / "benchmarks", facts)
    now = Result(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), facts.details, speeds)
    lines = remark(history.results(), now)
    return lines if history.add(now) else [*lines, "This result could not be kept for later comparison."]


def at_least_one(args: argparse.Namespace, name: str, default: int) -> int:
    value: int = getattr(args, name, default)
    if value < 1:
        raise UsageError(f"--{name.replace('_', '-')} must be at least 1.")
    return value


def out(text: str) -> None:
    """Standard output."""
    print(text, flush=True)  # noqa: T201


def _read_prompt(text: str | None) -> str:
    if text == "-":
        text = read_input()
    if text is None or not text.strip():
        raise UsageError("Give a prompt.", 'For example: tandem compare "Why is the sky blue?"')
    return text
