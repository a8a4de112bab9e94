"""`tandem bench --check-lossless`: whether drafting changes what is answered."""

from __future__ import annotations

import json
import sys

from app.cli.bench.task import BenchTask
from app.cli.output import json_for
from app.cli.prose import for_reading
from app.cli.race_session import Session, out
from app.compare.lossless import EVERYTHING, Checks, check, statement
from app.compare.report import checks_json, lossless_lines
from app.compare.sides import Side, check_sides, sides_of
from app.compare.suite import refuse_overlong
from app.core.errors import INTERRUPTED, AppError, Interrupted
from app.engine.types import Drafting


def check_lossless(session: Session, task: BenchTask) -> int:
    """Compare the texts and tell; returns the exit code, 1 if drafting changes one, or none was drafted.

    Raises:
        ContextOverflowError: A prompt does not fit; nothing was checked.
        AppError: The target failed; what was found before is told and saved.
    """
    cancel, status = session.cancel, session.status
    checks = Checks()
    broken: AppError | None = None
    draftings = _draftings(session, task)
    refuse_overlong(session.pair, task.prompts, task.request, cancel)
    try:
        for doing in check(session.pair, checks, task.prompts, task.request, draftings, task.samples, cancel):
            status.show(doing)
    except Interrupted:
        pass
    except AppError as error:
        broken = error
    status.clear()
    if broken is not None and not checks.greedy:
        raise broken
    whole = {**checks_json(checks), "stopped": cancel() or broken is not None}
    told = "\n".join([*lossless_lines(checks), "", statement(checks)])
    task.save.add(json.dumps(whole, ensure_ascii=False))
    try:
        out(json_for(sys.stdout, whole) if task.as_json else for_reading(told, sys.stdout))
    finally:
        task.save.close()
    if broken is not None:
        done = len({found.prompt for found in checks.greedy})
        status.say(f"Broken off after {done} of {len(task.prompts)} prompts.")
        raise broken
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
    _plain, *others = sides_of(task.options.automatic, task.fixed)
    check_sides(session.pair, others)
    return [(side.name, side.drafting) for side in (*everything, *others)]
