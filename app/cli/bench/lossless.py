"""`tandem bench --check-lossless`: whether drafting changes what is answered."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from app.cli.bench.task import BenchTask
from app.cli.prose import for_reading
from app.cli.race_session import Session, out
from app.compare.lossless import EVERYTHING, Checks, check, statement
from app.compare.report import checks_json, lossless_lines
from app.compare.sides import Side, check_sides, sides_of
from app.engine.types import Drafting
from app.errors import INTERRUPTED, Interrupted


def check_lossless(session: Session, task: BenchTask) -> int:
    """Compare the texts and tell; returns the exit code, 1 if drafting changes one, or none was drafted."""
    cancel, status = session.cancel, session.status
    checks = Checks()
    with suppress(Interrupted):
        for doing in check(
            session.pair, checks, task.prompts, task.request, _draftings(session, task), task.samples, cancel
        ):
            status.show(doing)
    status.clear()
    whole = json.dumps({**checks_json(checks), "stopped": cancel()}, ensure_ascii=False)
    told = "\n".join([*lossless_lines(checks), "", statement(checks)])
    task.save.add(whole)
    try:
        out(whole if task.as_json else for_reading(told, sys.stdout))
    finally:
        task.save.close()
    if cancel():
        status.say("Stopped early.")
        return INTERRUPTED
    return 0 if checks.hold else 1


def _draftings(session: Session, task: BenchTask) -> list[tuple[str, Drafting]]:
    """Every way of drafting that is held against plain decoding, by name.

    Raises:
        UsageError: The pair lacks what one needs.
    """
    everything = [Side("drafting everything", EVERYTHING)] if session.pair.drafter is not None else []
    _plain, *others = sides_of(task.options.drafting, task.fixed)
    check_sides(session.pair, others)
    return [(side.name, side.drafting) for side in (*everything, *others)]
