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
from typing import Any

from app.cli import INTERRUPTED
from app.cli.bench import REPEAT, SAMPLES
from app.cli.compare_run import (
    answer_request,
    at_least_one,
    contenders_of,
    fixed_params,
    out,
    progress_line,
    with_pair,
    write,
)
from app.cli.loading import pair_params
from app.cli.options import Options, read_options
from app.cli.output import StatusLine
from app.cli.process import refuse_process
from app.compare import card as cards
from app.compare import server as servers
from app.compare.benchmark import Progress, Raced, benchmark, figures, rows
from app.compare.history import Facts, History, Result, remark
from app.compare.lossless import EVERYTHING, Checks, check, statement
from app.compare.measure import measure, verdict
from app.compare.report import checks_json, how, lossless_lines, pair_title, raced_json, table_lines
from app.compare.sides import AUTOMATIC, PLAIN, fixed_name
from app.compare.suite import Prompt, choose, load_suite
from app.engine.text import printable
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.errors import Interrupted, UsageError
from app.hardware import machine as hardware
from app.llama import devices
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.pairing.texts import duration
from app.paths import memory_dir
from app.responder import AnswerRequest

SERVER = "server"
_TOKENS = 128
_QUICK_TOKENS = 48
_CHECK_TOKENS = 64
_CHUNK = 1 << 24


def bench(args: argparse.Namespace) -> int:
    """Run the suite; see the module."""
    options = read_options(args, modes=("auto", "fixed"))
    refuse_process(options.process)
    fixed = fixed_params(args, options)
    quick, checking = "quick" in args, "check_lossless" in args
    kinds = [kind.strip() for kind in args.kinds.split(",")] if "kinds" in args else None
    prompts = choose(load_suite(getattr(args, "prompts", None)), kinds, 1 if quick or checking else None)
    server = servers.Server(args.against, key=_api_key(args)) if "against" in args else None
    repeat = at_least_one(args, "repeat", 1 if quick else REPEAT)
    at_least_one(args, "samples", SAMPLES)
    request = answer_request(options, _CHECK_TOKENS if checking else _QUICK_TOKENS if quick else _TOKENS)

    def job(pair: NativePair, cancel: CancelFlag, status: StatusLine) -> int:
        if checking:
            return _check(pair, options, fixed, prompts, request, args, cancel, status)
        told = server.describe() if server is not None else {}
        return _Bench(pair, options, request, repeat, args, cancel, status, told).run(prompts, fixed, server)

    return with_pair(options, job)


class _Bench:
    """One benchmark, watched, told and kept."""

    def __init__(
        self,
        pair: NativePair,
        options: Options,
        request: AnswerRequest,
        repeat: int,
        args: argparse.Namespace,
        cancel: CancelFlag,
        status: StatusLine,
        told: dict[str, Any],
    ) -> None:
        self._pair = pair
        self._options = options
        self._request = request
        self._repeat = repeat
        self._args = args
        self._cancel = cancel
        self._status = status
        self._told = told
        self._lines: list[str] = []

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
        self._lines += lines
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
        facts = _facts(self._pair, self._request, prompts, self._told)
        notes = [f"stopped early: {len(raced)} of {len(prompts)} prompts"] if stopped else []
        remarks: list[str] = []
        if not stopped:
            history = History(memory_dir().parent / "benchmarks", facts)
            now = Result(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), facts.details, figures(table))
            before = history.results()
            remarks = remark(before[-1] if before else None, now)
            if not history.add(now):
                remarks.append("This result could not be kept for later comparison.")
        runs = f"{self._request.max_tokens} tokens at most, {self._repeat} alternating runs"
        about = {"machine": facts.machine, **facts.details, "answers": runs}
        whole = {"type": "result", "pair": pair_title(self._pair.info), "facts": about, "notes": [*notes, *remarks]}
        self._lines.append(json.dumps({**whole, "rows": [row.as_json() for row in table]}))
        if "json" in self._args:
            out(self._lines[-1])
        else:
            out("\n".join([printable(pair_title(self._pair.info)), how(self._request), "", *table_lines(table)]))
            out("\n" + "\n".join(map(printable, [*_sentences(raced, names), *notes, *remarks])))
        if "save" in self._args:
            write(self._args.save, "\n".join(self._lines) + "\n")
        if "card" in self._args:
            self._card(self._args.card, cards.Card(pair_title(self._pair.info), table, about, notes))

    def _card(self, name: str, card: cards.Card) -> None:
        hashes = {}
        params = pair_params(self._options)
        for what, file in (("target", params.target), ("draft", params.draft)):
            if file is not None and not self._cancel():
                self._status.show(f"Hashing the {what} model for the card")
                hashes[f"{what} sha256"] = _sha256(file)
        self._status.clear()
        card = replace(card, facts={**card.facts, **hashes})
        for suffix, text in ((".md", cards.markdown(card)), (".svg", cards.svg(card))):
            write(Path(name + suffix), text)
            self._status.say(f"{name}{suffix} is written.")


def _sentences(raced: Sequence[Raced], names: Sequence[str]) -> list[str]:
    """The verdicts over everything."""
    races = [one.rounds for one in raced]
    lines = []
    for name in names:
        if name == PLAIN:
            continue
        measured, why = measure(races, name, PLAIN), raced[-1].rounds[-1][name].why
        lines.append(f"{name}: {verdict(measured.ratio)}")
        if measured.acceptance is None and why:
            lines.append(f"  nothing was drafted: {why}")
    if SERVER in names:
        lines.append(f"{AUTOMATIC} against the server: {verdict(measure(races, AUTOMATIC, SERVER).ratio)}")
        same = sum(one.rounds[0][PLAIN].text == one.rounds[0][SERVER].text for one in raced)
        lines.append(f"The server's text is plain decoding's on {same} of {len(raced)} prompts.")
    return lines


def _facts(pair: NativePair, request: AnswerRequest, prompts: Sequence[Prompt], told: dict[str, Any]) -> Facts:
    """What this is measured on, for the history and the card."""
    machine, build, info = hardware.look(), devices.build(), pair.info
    suite = json.dumps([[asdict(p) for p in prompts], request.max_tokens, request.sampling.is_greedy])
    details = {
        "llama.cpp": " ".join(part for part in (build.version, build.commit) if part),
        "llama-cpp-python": build.binding,
        "backends": ", ".join(build.backends),
        "driver": ", ".join(f"{gpu.name}: {gpu.driver}" for gpu in machine.gpus if gpu.driver),
        "device": info.device,
        "target": f"{info.target.file}, {info.target.quantisation}",
        "draft": f"{info.draft.file}, {info.draft.quantisation}" if info.draft is not None else "",
        "context": f"{info.n_ctx:,}",
        "threads": str(pair.n_threads),
        "server": ", ".join(map(str, told.values())),
    }
    # The seed is drawn anew where none was given; that changes nothing that is measured.
    sampling = asdict(replace(request.sampling, seed=None)).items()
    greedy = request.sampling.is_greedy
    details["sampling"] = "greedy" if greedy else ", ".join(f"{k} {v:g}" for k, v in sampling if v is not None)
    return Facts(
        machine=", ".join([machine.cpu, *(gpu.name for gpu in machine.gpus)]),
        target=info.target.name,
        draft=info.draft.name if info.draft is not None else "",
        suite=hashlib.sha256(suite.encode()).hexdigest(),
        details={name: value for name, value in details.items() if value},
    )


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
    args: argparse.Namespace,
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
    samples = at_least_one(args, "samples", SAMPLES)
    with suppress(Interrupted):
        for doing in check(pair, checks, prompts, request, draftings, samples, cancel):
            status.show(doing)
    status.clear()
    if "json" in args:
        out(json.dumps({**checks_json(checks), "stopped": cancel()}, ensure_ascii=False))
    else:
        out("\n".join([*lossless_lines(checks), "", statement(checks)]))
    if cancel():
        status.say("Stopped early.")
        return INTERRUPTED
    return 0 if checks.hold else 1


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
