"""`tandem tune`: measure what batches cost here, show it, and keep it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

from app.cli.options import Options, read_options
from app.cli.output import StatusLine, for_reading
from app.cli.race_session import Session, with_pair
from app.cli.result_file import append, check_writable
from app.cli.tune_charts import Drafters, best_setting, cost_lines, heat_map_lines, thread_lines, verdict
from app.compare.advice import HeatMap, heat_map
from app.compare.race import Steps
from app.compare.recording import record
from app.compare.replay import Trace
from app.conversations.message import Message, Role
from app.core.errors import Interrupted, PairError, UsageError
from app.engine.auto.threads import ThreadTimes
from app.engine.types import AutoDraft
from app.hardware.cpu import thread_candidates
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair

_SPARED_LOOKS = 3
_BUDGET_NS = 20_000_000_000
_PASSES = 3
_SAMPLE = "Write a Python function that checks whether a string is a palindrome, and explain it in two sentences."
_SAMPLE_TOKENS = 96
_DEPTH = 12

T = TypeVar("T")


def tune(args: argparse.Namespace) -> int:
    """Measure a pair; see the module."""
    options = read_options(args, modes=("auto",), use_recommended=False)
    drafting = options.drafting
    if not isinstance(drafting, AutoDraft):
        raise UsageError("tandem tune measures for automatic drafting; leave the drafting flags out.")
    _refuse_idle(args, options, drafting)

    def job(session: Session) -> int:
        pair, cancel, status = session.pair, session.cancel, session.status
        _refuse_alone(args, pair)
        status.say(_announced(args, pair, drafting))
        times = _threads(pair, options, cancel, status)
        return _tune(pair, args, options, drafting, cancel, status, times)

    return with_pair(options, job)


def _announced(args: argparse.Namespace, pair: NativePair, drafting: AutoDraft) -> str:
    """What is about to be measured: it takes a minute, of which a pipe sees nothing."""
    parts = ["what batches of tokens cost"]
    if "model" in pair.info.sources(drafting) and not getattr(args, "quick", False):
        parts.append(f"an answer of {_SAMPLE_TOKENS} tokens that the draft follows")
    return f"Measuring {' and '.join(parts)}; ctrl+c ends it."


def _refuse_idle(args: argparse.Namespace, options: Options, drafting: AutoDraft) -> None:
    """Refuse before anything is loaded what could only be ignored, or fail when everything was measured."""
    following = _follows(args)
    if following and "quick" in args:
        raise UsageError("--quick follows no answer; leave it out for a heat map or a trace.")
    if following and options.pair.draft is None:
        raise UsageError(
            "A heat map or a trace needs a draft model.", "Name one with --draft, or choose a pair that has one."
        )
    if following and not drafting.model:
        raise UsageError(
            "A heat map or a trace follows the draft model, which is left out.", "Leave --draft-source lookup out."
        )
    if "heat_map" in args and not args.heat_map.strip():
        raise UsageError("The prompt is empty.")
    if "save_trace" in args:
        check_writable(args.save_trace)


def _follows(args: argparse.Namespace) -> bool:
    """Whether an answer was asked to be followed by the draft model."""
    return "heat_map" in args or "save_trace" in args


def _refuse_alone(args: argparse.Namespace, pair: NativePair) -> None:
    """Refuse what needs a draft before anything is measured; why there is none, its notice has said."""
    if _follows(args) and pair.drafter is None:
        raise PairError(
            "A heat map or a trace follows the draft model, and this target runs without one.",
            "Mend that, or leave --heat-map and --save-trace out to measure the target alone.",
        )


def _threads(pair: NativePair, options: Options, cancel: CancelFlag, status: StatusLine) -> ThreadTimes | None:
    """Find the best number of threads, unless it was given or nothing is left to the processor."""
    candidates = thread_candidates()
    if not options.tuned_threads or not pair.uses_processor or len(candidates) < 2:
        return None
    return _follow(pair.measure_threads(candidates, cancel), "Measuring threads", cancel, status)


def _tune(
    pair: NativePair,
    args: argparse.Namespace,
    options: Options,
    drafting: AutoDraft,
    cancel: CancelFlag,
    status: StatusLine,
    times: ThreadTimes | None,
) -> int:
    sources = pair.info.sources(drafting)
    drafters = Drafters(model="model" in sources, lookup="ngram" in sources)
    learned, pair.memory = pair.memory, None
    calibration = pair.calibrate(cancel, budget_ns=_BUDGET_NS, passes=_PASSES)
    _follow(_with_adapted_threads(calibration, pair), "Measuring batches", cancel, status)
    assert pair.memory is not None
    learned_behind = not pair.memory.costs.profile.cells
    if learned is not None:
        pair.memory = learned.with_costs(pair.memory.costs)
    # Measured with care: no answer has to wait for another look soon.
    pair.memory.n_looks = _SPARED_LOOKS
    pair.remember()
    trace: Trace | None = None
    heat: HeatMap | None = None
    try:
        if drafters.model and not getattr(args, "quick", False):
            trace = _follow(
                _with_adapted_threads(_record(pair, args, options, cancel), pair),
                "Following a sample answer",
                cancel,
                status,
            )
            costs, min_match = pair.memory.costs.snapshot(), drafting.min_match
            heat = heat_map(trace, costs, lookup=drafters.lookup, min_match=min_match)
            if "save_trace" in args:
                append(args.save_trace, json.dumps(trace.as_json(), separators=(",", ":")))
    finally:
        # What was measured in minutes does not go with an answer that could not be followed, or a full disk.
        status.clear()
        if getattr(args, "json", False):
            print(json.dumps(_as_json(pair, heat, times)))
        else:
            whole = trace is not None and hasattr(args, "heat_map")
            report = _report(pair, drafters, heat, times, whole=whole, learned_behind=learned_behind)
            print(for_reading("\n".join(report), sys.stdout))
        if pair.unkept is not None:
            status.say(_lost(pair.unkept))
    return 0


def _lost(error: OSError) -> str:
    where = f" in {Path(error.filename).parent}" if error.filename else ""
    return (
        f"This could not be kept{where}: {error.strerror or error}. The next answer measures again; "
        "tandem doctor names the folders."
    )


def _record(
    pair: NativePair, args: argparse.Namespace, options: Options, cancel: CancelFlag
) -> Generator[float, None, Trace]:
    return record(
        pair,
        options.conversation(Message(Role.USER, getattr(args, "heat_map", None) or _SAMPLE)),
        name="tune",
        kind="sample",
        n_tokens=_SAMPLE_TOKENS,
        depth=min(_DEPTH, pair.target.n_rollback),
        cancelled=cancel,
        thinking=options.thinking,
    )


def _with_adapted_threads(work: Generator[float, None, T], pair: NativePair) -> Generator[float, None, T]:
    """Adapt the thread count to other programs after every piece of work, as answers do."""
    steps = Steps(work)
    for share in steps:
        pair.yield_cpu()
        yield share
    return steps.result


def _follow(work: Generator[float, None, T], what: str, cancel: CancelFlag, status: StatusLine) -> T:
    """Show the progress of a piece of work and give its result."""
    steps = Steps(work)
    for share in steps:
        status.show(f"{what} {share:4.0%}")
    if cancel():
        raise Interrupted
    return steps.result


def _report(
    pair: NativePair,
    drafters: Drafters,
    heat: HeatMap | None,
    times: ThreadTimes | None,
    *,
    whole: bool,
    learned_behind: bool,
) -> list[str]:
    assert pair.memory is not None
    names = " + ".join(f"{m.name} {m.quantisation}" for m in (pair.info.target, pair.info.draft) if m is not None)
    lines = [f"{names}, {pair.info.device}", ""]
    if times is not None:
        lines += [*thread_lines(times), ""]
    lines += cost_lines(pair.memory.costs, drafters)
    lines += ["", *verdict(pair.memory.costs, drafters, learned_behind=learned_behind)]
    if heat is not None:
        lines += ["", *heat_map_lines(heat), ""] if whole else []
        lines.append(best_setting(heat, "this answer" if whole else "a sample answer"))
    elif whole and drafters.model:
        lines.append("The answer is a single token, so there was nothing to draft.")
    return lines


def _as_json(pair: NativePair, heat: HeatMap | None, times: ThreadTimes | None) -> dict[str, Any]:
    assert pair.memory is not None
    profile = pair.memory.costs.profile
    out: dict[str, Any] = {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "target": pair.info.target.file,
        "draft": pair.info.draft.file if pair.info.draft else None,
        "device": pair.info.device,
        "rows_ms": {str(n): ns / 1e6 for n, ns in sorted(profile.rows.items())},
        "draft_ms": profile.draft_ns / 1e6,
        "context_ns": {str(n): ns for n, ns in sorted(profile.cells.items())},
    }
    if times is not None:
        out["threads"] = {"generation": times.best.generation, "prompt": times.best.prompt}
        out["threads_ms"] = {
            "generation": {str(n): ns / 1e6 for n, ns in sorted(times.generation.items())},
            "prompt": {str(n): ns / 1e6 for n, ns in sorted(times.prompt.items())},
        }
    if heat is not None:
        params, best = heat.best
        out["best_fixed"] = {"n_max": params.n_max, "p_min": params.p_min, "speedup": best}
        out["automatic_speedup"] = heat.automatic
        out["oracle_speedup"] = heat.oracle
        out["heat_map"] = {
            "n_tokens": heat.n_tokens,
            "n_max": heat.n_max,
            "p_min": heat.p_min,
            "speedups": heat.speedups,
        }
    return out
