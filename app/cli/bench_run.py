"""What `tandem bench` does."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from app.cli import INTERRUPTED
from app.cli.bench import REPEAT, SAMPLES
from app.cli.compare_run import (
    against_earlier,
    answer_request,
    at_least_one,
    contenders_of,
    fixed_params,
    out,
    progress_line,
    with_pair,
)
from app.cli.measured_on import measured_on
from app.cli.options import Options, read_options
from app.cli.output import StatusLine
from app.cli.process import refuse_process
from app.cli.result_file import LineFile, check_writable, write
from app.compare import card as cards
from app.compare import server as servers
from app.compare.benchmark import Progress, Raced, benchmark, figures, rows
from app.compare.history import Facts
from app.compare.lossless import EVERYTHING, Checks, check, statement
from app.compare.measure import measure, verdict
from app.compare.report import checks_json, how, lossless_lines, pair_title, raced_json, table_lines
from app.compare.sides import AUTOMATIC, PLAIN, fixed_name
from app.compare.suite import Prompt, choose, load_suite
from app.engine.interfaces import Cancelled
from app.engine.text import printable
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.errors import Interrupted, UsageError
from app.gguf import split_parts
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair, PairParams
from app.pairing.texts import duration
from app.responder import AnswerRequest

SERVER = "server"
_TOKENS = 128
_QUICK_TOKENS = 48
_CHECK_TOKENS = 64
_QUICK_SAMPLES = 50
_CHUNK = 1 << 24
_CARD = (".md", ".svg")
_OF_SPEED = ("repeat", "against", "no_oracle", "steps", "card")
"""Flags that mean nothing where only texts are compared."""


def bench(args: argparse.Namespace) -> int:
    """Run the suite; see the module."""
    options = read_options(args, modes=("auto", "fixed"))
    refuse_process(options.process)
    fixed = fixed_params(args, options)
    _refuse_idle(args)
    quick, checking = "quick" in args, "check_lossless" in args
    kinds = [kind.strip() for kind in args.kinds.split(",")] if "kinds" in args else None
    prompts = choose(load_suite(getattr(args, "prompts", None)), kinds, 1 if quick or checking else None)
    server = servers.Server(args.against, key=_api_key(args)) if "against" in args else None
    repeat = at_least_one(args, "repeat", 1 if quick else REPEAT)
    samples = at_least_one(args, "samples", _QUICK_SAMPLES if quick else SAMPLES)
    request = answer_request(options, _QUICK_TOKENS if quick else _CHECK_TOKENS if checking else _TOKENS)
    save = LineFile(getattr(args, "save", None))
    for suffix in _CARD if "card" in args else ():
        check_writable(Path(args.card + suffix))
    # A server that cannot take part must not be found out after the models were loaded.
    told = server.introduce() if server is not None else {}

    def job(pair: NativePair, params: PairParams, cancel: CancelFlag, status: StatusLine) -> int:
        if checking:
            return _check(pair, options, fixed, prompts, request, samples, args, save, cancel, status)
        facts = measured_on(pair, params, request, options.drafting, map(asdict, prompts), told)
        return _Bench(pair, params, options, request, repeat, args, save, facts, cancel, status).run(
            prompts, fixed, server
        )

    return with_pair(options, job)


def _refuse_idle(args: argparse.Namespace) -> None:
    """Raise UsageError for a flag that would do nothing, rather than let it be believed to have done something."""
    checking = "check_lossless" in args
    idle = dict.fromkeys(_OF_SPEED if checking else ("samples",), f"with{'out' * (not checking)} --check-lossless")
    if "against" not in args:
        idle["api_key_env"] = "without --against"
    if not checking and "json" not in args and "save" not in args:
        idle["steps"] = "without --json or --save"
    for name, when in idle.items():
        if name in args:
            raise UsageError(f"--{name.replace('_', '-')} has no meaning {when}.", "Leave it out.")


class _Bench:
    """One benchmark, watched, told and kept."""

    def __init__(
        self,
        pair: NativePair,
        params: PairParams,
        options: Options,
        request: AnswerRequest,
        repeat: int,
        args: argparse.Namespace,
        save: LineFile,
        facts: Facts,
        cancel: CancelFlag,
        status: StatusLine,
    ) -> None:
        self._pair = pair
        self._params = params
        self._options = options
        self._request = request
        self._repeat = repeat
        self._args = args
        self._save = save
        self._facts = facts
        self._cancel = cancel
        self._status = status

    def run(self, prompts: Sequence[Prompt], fixed: DraftParams | None, server: servers.Server | None) -> int:
        contenders = contenders_of(self._pair, self._options, fixed)
        if server is not None:
            contenders.append(servers.contender(server, SERVER))
        names = [contender.name for contender in contenders]
        work = benchmark(
            self._pair,
            contenders,
            prompts,
            self._request,
            self._repeat,
            self._cancel,
            time.perf_counter_ns,
            oracle="no_oracle" not in self._args,
            keep=self._keep,
        )
        raced = self._follow(work)
        self._status.clear()
        if not raced:
            self._status.say("Stopped before everybody had answered one prompt.")
            return INTERRUPTED
        stopped = len(raced) < len(prompts) or len(raced[-1].rounds) < self._repeat
        self._tell(raced, names, prompts, stopped=stopped)
        return INTERRUPTED if stopped else 0

    def _keep(self, raced: Raced) -> None:
        """Print a prompt's runs at once, so that a later failure takes nothing with it."""
        lines = [json.dumps(line) for line in raced_json(raced, steps="steps" in self._args)]
        self._save.add(*lines)
        if "json" in self._args:
            self._status.clear()
            out("\n".join(lines))

    def _follow(self, work: Generator[Progress, None, list[Raced]]) -> list[Raced]:
        while True:
            try:
                at = next(work)
            except StopIteration as ended:
                raced: list[Raced] = ended.value
                return raced
            doing = progress_line(at.event, self._repeat) if at.event is not None else at.what
            if doing is not None:
                left = f"  {duration(at.left_s)} left" if at.left_s is not None else ""
                self._status.show(f"{at.prompt.kind}, {at.prompt.name}  {at.done} of {at.total}{left}  {doing}")

    def _tell(self, raced: Sequence[Raced], names: Sequence[str], prompts: Sequence[Prompt], *, stopped: bool) -> None:
        table = rows(raced, names)
        facts = self._facts
        notes = [f"stopped early: {len(raced)} of {len(prompts)} prompts"] if stopped else []
        # Half a suite is not comparable with a whole one.
        remarks = [] if stopped else against_earlier(facts, figures(table))
        runs = f"{self._request.max_tokens} tokens at most, {self._repeat} alternating run{'s' * (self._repeat != 1)}"
        about = {"machine": facts.machine, **facts.details, "answers": runs}
        whole = {"type": "result", "pair": pair_title(self._pair.info), "facts": about, "notes": [*notes, *remarks]}
        last = json.dumps({**whole, "rows": [row.as_json() for row in table]})
        self._save.add(last)
        if "json" in self._args:
            out(last)
        else:
            out("\n".join([printable(pair_title(self._pair.info)), how(self._request), "", *table_lines(table)]))
            out("\n" + "\n".join(map(printable, [*_sentences(raced, names), *notes, *remarks])))
        if "card" in self._args:
            self._card(self._args.card, cards.Card(pair_title(self._pair.info), table, about, notes))
        self._save.close()

    def _card(self, name: str, card: cards.Card) -> None:
        hashes: dict[str, str] = {}
        for what, file in (("target", self._params.target), ("draft", self._params.draft)):
            if file is not None and not self._cancel():
                self._status.show(f"Hashing the {what} model for the card")
                hashes |= self._hashes(what, file)
        self._status.clear()
        card = replace(card, facts={**card.facts, **hashes})
        for suffix, text in zip(_CARD, (cards.markdown(card), cards.svg(card)), strict=True):
            write(Path(name + suffix), text)
            self._status.say(f"{name}{suffix} is written.")

    def _hashes(self, what: str, file: Path) -> dict[str, str]:
        """The digests of a model's parts; those that can no longer be read are said and left out."""
        hashes: dict[str, str] = {}
        for part in (parts := split_parts(file)) or [file]:
            which = f" of {part.name}" if len(parts) > 1 else ""
            try:
                digest = _sha256(part, self._cancel)
            except OSError as error:
                self._status.say(f"{part} cannot be read for its hash: {error.strerror}. The card goes without it.")
                continue
            if digest is not None:
                hashes[f"{what} sha256{which}"] = digest
        return hashes


def _sentences(raced: Sequence[Raced], names: Sequence[str]) -> list[str]:
    """The verdicts over everything."""
    races = [one.rounds for one in raced]
    lines = []
    for name in names:
        if name == PLAIN:
            continue
        measured, why = measure(races, name, PLAIN), raced[-1].rounds[-1][name].why
        lines.append(f"{name}: {verdict(measured.ratio, work=measured.work)}")
        if measured.acceptance is None and why:
            lines.append(f"  nothing was drafted: {why}")
    if SERVER in names:
        lines.append(f"{AUTOMATIC} against the server: {verdict(measure(races, AUTOMATIC, SERVER).ratio)}")
        same = sum(one.rounds[0][PLAIN].text == one.rounds[0][SERVER].text for one in raced)
        lines.append(f"The server's text is plain decoding's on {same} of {len(raced)} prompts.")
    return lines


def _api_key(args: argparse.Namespace) -> str:
    """The server's key; it is never an argument, because other users can read the arguments of a process."""
    name: str | None = getattr(args, "api_key_env", None)
    if name is None:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        raise UsageError(f"The environment has no {printable(name)}, or it is empty.", "Set it to the server's key.")
    return key


def _check(
    pair: NativePair,
    options: Options,
    fixed: DraftParams | None,
    prompts: Sequence[Prompt],
    request: AnswerRequest,
    samples: int,
    args: argparse.Namespace,
    save: LineFile,
    cancel: CancelFlag,
    status: StatusLine,
) -> int:
    """Whether drafting changes the text; 1 if it does."""
    draftings: list[tuple[str, Drafting]] = []
    if pair.drafter is not None:
        draftings.append(("drafting everything", EVERYTHING))
    if fixed is not None:
        draftings.append((fixed_name(fixed), fixed))
    draftings.append((AUTOMATIC, options.drafting if isinstance(options.drafting, AutoDraft) else AutoDraft()))
    checks = Checks()
    with suppress(Interrupted):
        for doing in check(pair, checks, prompts, request, draftings, samples, cancel):
            status.show(doing)
    status.clear()
    whole = json.dumps({**checks_json(checks), "stopped": cancel()}, ensure_ascii=False)
    out(whole if "json" in args else "\n".join([*lossless_lines(checks), "", statement(checks)]))
    save.add(whole)
    save.close()
    if cancel():
        status.say("Stopped early.")
        return INTERRUPTED
    return 0 if checks.hold else 1


def _sha256(file: Path, cancelled: Cancelled) -> str | None:
    """None if it was cancelled. Raises OSError."""
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK):
            if cancelled():
                return None
            digest.update(chunk)
    return digest.hexdigest()
