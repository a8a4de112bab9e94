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
from app.cli.output import for_reading
from app.cli.race_session import Session, with_pair
from app.cli.tune_charts import Drafters, cost_lines, thread_lines, verdict
from app.compare.race import Steps
from app.compare.report import pair_title
from app.core.errors import Interrupted, UsageError
from app.engine.auto.threads import ThreadTimes
from app.engine.types import AutoDraft
from app.hardware.cpu import thread_candidates
from app.llama.pair import NativePair

_SPARED_RECHECKS = 3
_BUDGET_NS = 20_000_000_000
_PASSES = 3

T = TypeVar("T")


def tune(args: argparse.Namespace) -> int:
    """Measure a pair; returns the exit code."""
    options = read_options(args, modes=("auto",), use_recommended=False)
    drafting = options.drafting
    if not isinstance(drafting, AutoDraft):
        raise UsageError("Tuning measures automatic drafting only.", "Leave the drafting options out.")
    as_json: bool = getattr(args, "json", False)
    return with_pair(options, lambda session: _tune(session, options, drafting, as_json=as_json))


def _tune(session: Session, options: Options, drafting: AutoDraft, *, as_json: bool) -> int:
    pair, status = session.pair, session.status
    status.say("Measuring the cost of verify steps; Ctrl+C stops.")
    times: ThreadTimes | None = None
    candidates = thread_candidates()
    if options.tuned_threads and pair.uses_cpu and len(candidates) > 1:
        times = _follow(session, pair.measure_threads(candidates, session.cancel), "Measuring threads")
    learned, pair.memory = pair.memory, None
    calibration = pair.calibrate(session.cancel, budget_ns=_BUDGET_NS, passes=_PASSES)
    _follow(session, calibration, "Measuring batches")
    assert pair.memory is not None
    if learned is not None:
        pair.memory = learned.with_costs(pair.memory.costs)
    # A careful measurement: answers need not measure again soon.
    pair.memory.n_rechecks = _SPARED_RECHECKS
    pair.remember()
    status.clear()
    if as_json:
        print(json.dumps(_as_json(pair, times)))
    else:
        sources = pair.info.sources(drafting)
        drafters = Drafters(model="model" in sources, lookup="ngram" in sources)
        print(for_reading("\n".join(_report(pair, drafters, times)), sys.stdout))
    if (error := pair.save_error) is not None:
        where = f" in {Path(error.filename).parent}" if error.filename else ""
        status.say(
            f"The measurements could not be saved{where}: {error.strerror or error}. The next answer measures again; "
            "tandem doctor lists the folders."
        )
    return 0


def _follow(session: Session, work: Generator[float, None, T], what: str) -> T:
    """Show the progress of a measurement; return its result. Raises Interrupted."""
    steps = Steps(work)
    for share in steps:
        session.status.show(f"{what} {share:4.0%}")
    if session.cancel():
        raise Interrupted
    return steps.result


def _report(pair: NativePair, drafters: Drafters, times: ThreadTimes | None) -> list[str]:
    assert pair.memory is not None
    lines = [pair_title(pair.info), ""]
    if times is not None:
        lines += [*thread_lines(times), ""]
    lines += cost_lines(pair.memory.costs, drafters)
    return [*lines, "", *verdict(pair.memory.costs, drafters)]


def _as_json(pair: NativePair, times: ThreadTimes | None) -> dict[str, Any]:
    assert pair.memory is not None
    profile = pair.memory.costs.profile
    out: dict[str, Any] = {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "target": pair.info.target.file,
        "draft": pair.info.draft.file if pair.info.draft else None,
        "device": pair.info.device,
        "rows_ms": {str(n): ns / 1e6 for n, ns in sorted(profile.batch_ns.items())},
        "draft_ms": profile.draft_ns / 1e6,
        "context_ns": {str(n): ns for n, ns in sorted(profile.context_ns.items())},
    }
    if times is not None:
        out["threads"] = {"generation": times.best.generation, "prompt": times.best.prompt}
        out["threads_ms"] = {
            "generation": {str(n): ns / 1e6 for n, ns in sorted(times.generation.items())},
            "prompt": {str(n): ns / 1e6 for n, ns in sorted(times.prompt.items())},
        }
    return out
