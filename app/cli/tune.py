"""`tandem tune`: measure what a verify step costs here, show it, and save it."""

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
from app.cli.tune_charts import Drafters, cost_lines, thread_lines, verdict
from app.compare.race import Steps
from app.core.errors import Interrupted, UsageError
from app.engine.auto.threads import ThreadTimes
from app.engine.types import AutoDraft
from app.hardware.cpu import thread_candidates
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair

_SPARED_LOOKS = 3
_BUDGET_NS = 20_000_000_000
_PASSES = 3

T = TypeVar("T")


def tune(args: argparse.Namespace) -> int:
    """Measure a pair; see the module."""
    options = read_options(args, modes=("auto",), use_recommended=False)
    drafting = options.drafting
    if not isinstance(drafting, AutoDraft):
        raise UsageError("Tuning measures automatic drafting only.", "Leave the drafting options out.")

    def job(session: Session) -> int:
        pair, cancel, status = session.pair, session.cancel, session.status
        status.say("Measuring the cost of verify steps; Ctrl+C stops.")
        times = _threads(pair, options, cancel, status)
        return _tune(pair, args, options, drafting, cancel, status, times)

    return with_pair(options, job)


def _threads(pair: NativePair, options: Options, cancel: CancelFlag, status: StatusLine) -> ThreadTimes | None:
    """Measure the best thread count, unless it is set or the CPU computes nothing."""
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
    _follow(calibration, "Measuring batches", cancel, status)
    assert pair.memory is not None
    learned_behind = not pair.memory.costs.profile.cells
    if learned is not None:
        pair.memory = learned.with_costs(pair.memory.costs)
    # A careful measurement: answers need not measure again soon.
    pair.memory.n_looks = _SPARED_LOOKS
    pair.remember()
    status.clear()
    if getattr(args, "json", False):
        print(json.dumps(_as_json(pair, times)))
    else:
        print(for_reading("\n".join(_report(pair, drafters, times, learned_behind=learned_behind)), sys.stdout))
    if pair.unkept is not None:
        status.say(_lost(pair.unkept))
    return 0


def _lost(error: OSError) -> str:
    where = f" in {Path(error.filename).parent}" if error.filename else ""
    return (
        f"The measurements could not be saved{where}: {error.strerror or error}. The next answer measures again; "
        "tandem doctor lists the folders."
    )


def _follow(work: Generator[float, None, T], what: str, cancel: CancelFlag, status: StatusLine) -> T:
    """Show the progress of a piece of work and give its result."""
    steps = Steps(work)
    for share in steps:
        status.show(f"{what} {share:4.0%}")
    if cancel():
        raise Interrupted
    return steps.result


def _report(pair: NativePair, drafters: Drafters, times: ThreadTimes | None, *, learned_behind: bool) -> list[str]:
    assert pair.memory is not None
    names = " + ".join(f"{m.name} {m.quantization}" for m in (pair.info.target, pair.info.draft) if m is not None)
    lines = [f"{names}, {pair.info.device}", ""]
    if times is not None:
        lines += [*thread_lines(times), ""]
    lines += cost_lines(pair.memory.costs, drafters)
    return [*lines, "", *verdict(pair.memory.costs, drafters, learned_behind=learned_behind)]


def _as_json(pair: NativePair, times: ThreadTimes | None) -> dict[str, Any]:
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
    return out
