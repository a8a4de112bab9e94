"""Shared by `compare`, `bench` and `tune`: a loaded pair, progress, and the facts and history of a measurement."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from app import __version__
from app.cli.output import LOADING, status
from app.cli.report import ignored_flags
from app.cli.setting_flags import SEED, Given, given_flag, in_flags
from app.cli.streams import cancel_on_interrupt
from app.compare import shown_name
from app.compare.measured_pairs import Speeds, save
from app.compare.race import WARM_UP, RunBegan
from app.conversations.message import Message
from app.core.errors import INTERRUPTED, Interrupted, UsageError
from app.core.log import guarded_stderr
from app.core.paths import benchmarks_dir, log_file
from app.core.printable import printable
from app.engine.events import PromptProgress, Step
from app.engine.sources import Source
from app.engine.types import DraftParams, SamplingParams
from app.hardware import machine as hardware
from app.hardware.cpu import busy_cpus, busy_text, usable_processors
from app.llama import devices
from app.llama.cancel import CancelFlag
from app.llama.installed import is_cpu_only_build
from app.llama.pair import NativePair
from app.llama.params import PairParams
from app.settings.layers import Origin, Thinking, automatic, drafting
from app.settings.placement import ALL_LAYERS
from app.settings.table import NUMBERS
from app.worker.engine_worker import Progress
from app.worker.events import Event, JobProgressed, Measuring
from app.worker.loading import measured_params
from app.worker.pair_loader import PairLoader
from app.worker.request import AnswerRequest, with_seed

MORE_ROUNDS = "--repeat {}"
"""Placeholder for the flag that sets the number of rounds."""
_FIXED_PARAMS: dict[str, Callable[[str], float]] = {"n_max": int, "n_min": int, "p_min": float}


@dataclass(frozen=True, slots=True)
class RaceSession:
    """A loaded pair, how it was loaded, and the notices from loading; Ctrl+C sets `cancel`."""

    pair: NativePair
    params: PairParams
    cancel: CancelFlag
    notices: tuple[str, ...]
    progress: Progress


def with_pair(loader: PairLoader, job: Callable[[RaceSession], int], *, load_mtp: bool = False) -> int:
    """Load the pair, run the job on this thread, and free the pair; return the exit code.

    `load_mtp` also loads the target's MTP layer if the pair has another draft.
    """
    cancel = CancelFlag()

    def progress(share: float) -> bool:
        status.show(f"{LOADING} {share:4.0%}")
        return not cancel()

    # A crash is explained from the log.
    with guarded_stderr(log_file()):
        try:
            with cancel_on_interrupt(cancel.set):
                status.show(LOADING)
                if warning := _busy_warning():
                    status.say(warning)
                    status.show(LOADING)
                params = measured_params(loader, load_mtp=load_mtp)
                pair = NativePair(params, cancel, progress)
                try:
                    thinking = pair.info.thinking_support
                    notices = (*map(in_flags, pair.notices), *ignored_flags(thinking, loader.settings))
                    for notice in notices:
                        status.say(notice)
                    return job(RaceSession(pair, params, cancel, notices, progress))
                finally:
                    pair.close()
        except Interrupted:
            status.say("Stopped.")
            return INTERRUPTED
        finally:
            status.clear()


def _busy_warning() -> str | None:
    n = len(usable_processors())
    found = busy_cpus(n)
    if found is None or not (text := busy_text("Other programs take", found, n)):
        return None
    slower = "generation" if is_cpu_only_build() else "work on the CPU"
    return f"{text}, so {slower} is slower; close them and rerun for reliable numbers."


def answer_request(loader: PairLoader, tokens: int, *messages: Message) -> AnswerRequest:
    """Return the request that every side answers, with the same seed and at most `tokens` tokens.

    --max-tokens sets another limit; the settings can only lower it.
    """
    request = AnswerRequest.of(loader.settings, messages)
    is_typed = loader.settings.origin("answer.max_tokens") is Origin.FLAG
    most = request.max_tokens or tokens
    return replace(
        request,
        sampling=with_seed(request.sampling, SEED),
        drafting=None,
        max_tokens=most if is_typed else min(most, tokens),
        stop_on_repeat=False,
    )


def fixed_params(loader: PairLoader, fixed: str | None, given: Given) -> DraftParams | None:
    """Return the fixed parameters to measure, if any: from --fixed, or from the settings. Raises UsageError."""
    mode = drafting(loader.settings)
    if mode is None:
        raise UsageError("Without drafting there is nothing to compare.", "Leave --no-draft and --drafting off out.")
    if fixed is not None:
        if named := given_flag(NUMBERS, given):
            raise UsageError(f"--fixed and {named} exclude each other.", "Give all numbers in one of them.")
        return parse_fixed(fixed)
    return mode if isinstance(mode, DraftParams) else None


def parse_fixed(text: str) -> DraftParams:
    """Parse parameters such as "n_max=7,p_min=0.6". Raises UsageError."""
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


class RaceStatus:
    """Follow a race of `repeat` rounds and describe each of its events."""

    def __init__(self, repeat: int) -> None:
        self._repeat = repeat
        self._side = ""

    def line(self, event: Event) -> str | None:
        """Return the progress line after an event; None if it does not change."""
        match event:
            case JobProgressed(what=RunBegan(side, number)):
                turn = "warming up" if number == WARM_UP else f"round {number} of {self._repeat}"
                self._side = f"{shown_name(side)}, {turn}"
            case Measuring():
                return event.line().capitalize()
            case PromptProgress():
                return f"{self._side}: {event.line()}"
            case Step():
                return f"{self._side}: {event.stats.pace}"
        return None


def save_result(facts: Mapping[str, str], speeds: Speeds, *, is_busy: bool) -> list[str]:
    """Store the speeds of a pair unless other programs took much CPU time; return notes about the result."""
    if is_busy:
        return ["Not added to Tandem's history, because other programs were busy."]
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return [] if save(benchmarks_dir(), facts, when, speeds) else ["The result could not be saved."]


def measured_on(session: RaceSession, request: AnswerRequest) -> dict[str, str]:
    """Return the machine, build, files and settings of a measurement by name."""
    pair, params = session.pair, session.params
    machine, build, info = hardware.detect(), devices.build(), pair.info
    n_models = 1 if info.draft is None else 2
    layers = [("target", params.model.n_gpu_layers), ("draft", params.draft_model.n_gpu_layers)]
    n_threads, n_for_prompts = params.threads.generation, params.threads.prompt
    auto = automatic(params.settings)
    sources = [(info.draft_kind or Source.MODEL).label] * auto.model
    sources += [f"n-gram from {auto.min_match} tokens"] * auto.lookup
    facts = {
        "machine": ", ".join([machine.cpu, *(gpu.name for gpu in machine.gpus)]),
        "Tandem": __version__,
        "llama.cpp": " ".join(part for part in (build.version, build.commit) if part),
        "llama-cpp-python": build.binding,
        "backends": ", ".join(build.backends),
        "driver": ", ".join(f"{gpu.name}: {gpu.driver}" for gpu in machine.gpus if gpu.driver),
        "device": info.device,
        "target": f"{info.target.file}, {info.target.quantization}",
        "draft": ", ".join(filter(None, (info.draft.file or info.draft.name, info.draft.quantization)))
        if info.draft
        else "",
        "context": f"{info.n_ctx:,}",
        "KV cache": ", draft ".join(dict.fromkeys([params.kv_type, params.draft_kv_type][:n_models])),
        "flash attention": params.settings["model.flash_attn"],
        "GPU layers": ", ".join(f"{name} {n}" for name, n in layers[:n_models] if n != ALL_LAYERS),
        "threads": str(n_threads),
        "threads for prompts": str(n_for_prompts) if n_for_prompts != n_threads else "",
        "automatic drafting": " and ".join(sources),
        "sampling": "greedy" if request.sampling.is_greedy else _values(request.sampling),
        "thinking": _values(request.thinking),
        # ASCII, since printing removes control characters.
        "stops at": ", ".join(map(json.dumps, request.stops)),
    }
    return {name: value for name, value in facts.items() if value or name == "machine"}


def _values(settings: SamplingParams | Thinking) -> str:
    values = ((name, value) for name, value in asdict(settings).items() if value is not None)
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)
