"""Shared by `compare`, `bench` and `tune`: a loaded pair, the sides, progress and facts of the measurement."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app import __version__
from app.cli.interrupt import cancel_on_interrupt
from app.cli.loading import load_here, pair_params
from app.cli.options import Options
from app.cli.output import LOADING, StatusLine
from app.cli.report import pace
from app.cli.setting_flags import SEED, given_flag
from app.compare.history import Facts, History, Result, remark
from app.compare.measure import Spread
from app.compare.race import WARM_UP, Contender, RaceEvent, RaceProgress, in_process
from app.compare.sides import check_sides, sides_of
from app.conversations.message import Message
from app.core.errors import INTERRUPTED, Interrupted, UsageError
from app.core.paths import benchmarks_dir
from app.core.printable import printable
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.hardware import machine as hardware
from app.hardware.busy import busy, taking
from app.hardware.processors import usable_processors
from app.llama import devices
from app.llama.cancel import CancelFlag
from app.llama.installed import computes_on_processors_only
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from app.llama.params import ModelParams
from app.settings.placement import ALL_LAYERS
from app.settings.table import NUMBERS
from app.settings.thinking import Thinking
from app.worker.events import Measuring, PromptProgress, Step
from app.worker.request import AnswerRequest, LoadedPair, with_seed

_FIXED_PARAMS: dict[str, Callable[[str], float]] = {"n_max": int, "n_min": int, "p_min": float}


@dataclass(frozen=True, slots=True)
class Session:
    """A loaded pair with its cancel flag and status line.

    Attributes:
        pair: Freed when the session ends.
        params: How it was loaded.
        cancel: Set by Ctrl+C.
        status: The line that tells how far the work is.
        notices: What was said when it was loaded.
    """

    pair: NativePair
    params: PairParams
    cancel: CancelFlag
    status: StatusLine
    notices: tuple[str, ...] = ()


def with_pair(options: Options, job: Callable[[Session], int]) -> int:
    """Load the pair, do the work on this thread, and free the pair; Ctrl+C is a polite request.

    Args:
        options: What to load.
        job: The work; returns an exit code.
    """
    status, cancel = StatusLine(sys.stderr), CancelFlag()
    try:
        with cancel_on_interrupt(cancel.set):
            status.show(LOADING)
            if company := _company():
                status.say(company)
                status.show(LOADING)
            params = pair_params(options)
            pair = load_here(params, cancel, status)
            try:
                unheard = pair.info.hears.in_vain(options.typed_thinking, options.thinking)
                for sentence in unheard:
                    status.say(sentence)
                return job(Session(pair, params, cancel, status, (*pair.notices, *unheard)))
            finally:
                status.clear()
                pair.close()
    except Interrupted:
        status.say("Stopped.")
        return INTERRUPTED


def _company() -> str:
    """Return a warning if other programs use the CPU, or ""."""
    n = len(usable_processors())
    found = busy(n)
    if found is None or not (told := taking("Other programs take", found.others + found.tandems, n)):
        return ""
    slower = "generation" if computes_on_processors_only() else "work on the CPU"
    return f"{told}, so {slower} is slower; close them and rerun for reliable numbers."


def answer_request(args: argparse.Namespace, options: Options, tokens: int, *messages: Message) -> AnswerRequest:
    """Return the request of every side, with one seed.

    Args:
        args: The flags; a number of tokens among them is meant for this command.
        options: What they and the settings add up to. Settings are for answers to be read, which may be long: of
            these, a number of tokens only makes an answer shorter.
        tokens: Most tokens of an answer, where no flag says otherwise.
        messages: The conversation.
    """
    most = options.max_tokens or tokens
    return AnswerRequest(
        options.conversation(*messages),
        with_seed(options.pair.sampling, SEED),
        max_tokens=most if "max_tokens" in args else min(most, tokens),
        stops=options.stops,
        thinking=options.thinking,
    )


def fixed_params(args: argparse.Namespace, options: Options) -> DraftParams | None:
    """Return the fixed parameters to measure, if any.

    Raises:
        UsageError: They cannot be read, are out of range or given twice, or drafting is off.
    """
    if options.drafting is None:
        raise UsageError("Without drafting there is nothing to compare.", "Leave --no-draft and --drafting off out.")
    if "fixed" in args:
        if named := given_flag(NUMBERS, args):
            raise UsageError(f"--fixed and {named} exclude each other.", "Give all numbers in one of them.")
        return parse_fixed(args.fixed)
    return options.drafting if isinstance(options.drafting, DraftParams) else None


def parse_fixed(text: str) -> DraftParams:
    """Parameters such as "n_max=7,p_min=0.6"."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            given[name.strip()] = _FIXED_PARAMS[name.strip()](value)
        except (KeyError, ValueError):
            raise UsageError(
                f'--fixed is "{printable(text)}"; it must be one or more of {", ".join(_FIXED_PARAMS)} with a number.',
                "For example: --fixed n_max=7,p_min=0.6",
            ) from None
    return DraftParams(**given)


def contenders_of(pair: LoadedPair, options: Options, fixed: DraftParams | None) -> list[Contender]:
    """Decoding without drafts, the fixed parameters if there are any, and automatic drafting."""
    sides = sides_of(options.automatic, fixed)
    check_sides(pair, sides)
    return [in_process(pair, side.name, side.drafting) for side in sides]


def progress_line(event: RaceProgress, repeat: int) -> str | None:
    """Return the status of a race, or None."""
    if not isinstance(event, RaceEvent):
        return None
    turn = "warming up" if event.round == WARM_UP else f"round {event.round} of {repeat}"
    match event.event:
        case Measuring() as measuring:
            return f"{measuring.what.capitalize()} {measuring.share:4.0%}"
        case PromptProgress() as progress:
            return f"{event.contender}, {turn}: {progress.line()}"
        case Step(stats=stats):
            return f"{event.contender}, {turn}: {pace(stats)}"
    return None


def against_earlier(facts: Facts, speeds: Mapping[str, Mapping[str, Spread]], *, is_crowded: bool = False) -> list[str]:
    """Keep speeds in this machine's history; returns what earlier ones make of them, as lines.

    Args:
        facts: What they were measured on.
        speeds: By kind of text and contender.
        is_crowded: Whether other programs had a part in them. Such speeds tell nothing of what was before, and kept
            they would be noise in which real losses go unseen.
    """
    if is_crowded:
        return ["Not compared with earlier results and not saved."]
    history = History(benchmarks_dir(), facts)
    now = Result(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), facts.details, speeds)
    lines = remark(history.results(), now)
    return lines if history.add(now) else [*lines, "This result could not be saved for later comparison."]


def out(text: str) -> None:
    """Standard output."""
    print(text, flush=True)


def measured_on(
    pair: NativePair,
    params: PairParams,
    request: AnswerRequest,
    automatic: AutoDraft,
    suite: Iterable[Any] = (),
    told: dict[str, Any] | None = None,
) -> Facts:
    """Machine, build, files and settings.

    Args:
        pair: What is measured.
        params: How it was loaded.
        request: How it answers.
        automatic: How automatic drafting takes part.
        suite: What tells the prompts from others, besides the messages of the request.
        told: What a server said about itself.
    """
    machine, build, info = hardware.look(), devices.build(), pair.info
    whole = json.dumps(
        [[*(m.content for m in request.messages), *suite], request.max_tokens, request.sampling.is_greedy]
    )
    details = {
        "Tandem": __version__,
        "llama.cpp": " ".join(part for part in (build.version, build.commit) if part),
        "llama-cpp-python": build.binding,
        "backends": ", ".join(build.backends),
        "driver": ", ".join(f"{gpu.name}: {gpu.driver}" for gpu in machine.gpus if gpu.driver),
        "device": info.device,
        "target": f"{info.target.file}, {info.target.quantization}",
        "draft": f"{info.draft.file}, {info.draft.quantization}" if info.draft is not None else "",
        "context": f"{info.n_ctx:,}",
        "KV cache": _both(params.kv_type, params.draft_kv_type if info.draft is not None else ""),
        "flash attention": params.flash_attention,
        "GPU layers": _layers(params.model, params.draft_model if info.draft is not None else None),
        "threads": str(pair.n_threads),
        "threads for prompts": str(params.n_threads_batch or "") if params.n_threads_batch != params.n_threads else "",
        "automatic drafting": _automatic(automatic),
        "sampling": _sampling(request.sampling),
        "thinking": _thinking(request.thinking),
        # In ASCII and with what a terminal would obey in letters, for that is dropped where it is printed.
        "stops at": ", ".join(map(json.dumps, request.stops)),
        "server": ", ".join(map(str, (told or {}).values())),
    }
    return Facts(
        machine=", ".join([machine.cpu, *(gpu.name for gpu in machine.gpus)]),
        target=info.target.name,
        draft=info.draft.name if info.draft is not None else "",
        suite=hashlib.sha256(whole.encode()).hexdigest(),
        details={name: value for name, value in details.items() if value},
    )


def _both(target: str, draft: str) -> str:
    return f"{target}, draft {draft}" if draft and draft != target else target


def _layers(target: ModelParams, draft: ModelParams | None) -> str:
    """Return the requested GPU layers; "" for all."""
    given = [(name, model) for name, model in (("target", target), ("draft", draft)) if model is not None]
    return ", ".join(f"{name} {model.n_gpu_layers}" for name, model in given if model.n_gpu_layers != ALL_LAYERS)


def _automatic(auto: AutoDraft) -> str:
    parts = ["draft model"] * auto.model + [f"n-gram from {auto.min_match} tokens"] * auto.lookup
    return " and ".join(parts)


def _sampling(sampling: SamplingParams) -> str:
    given = ((name, value) for name, value in asdict(sampling).items() if value is not None)
    return "greedy" if sampling.is_greedy else ", ".join(f"{name} {value:g}" for name, value in given)


def _thinking(asked: Thinking) -> str:
    """Return the requested thinking; "" for the template's default."""
    wanted = {None: "", True: "on", False: "off"}[asked.wanted]
    effort = f"effort {asked.effort}" if asked.effort is not None and asked.wanted is not False else ""
    return ", ".join(filter(None, [wanted, effort]))
