"""`tandem compare`: one prompt with and without drafts, side by side."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.cli.command_line import COMPARE_TOKENS, REPEAT
from app.cli.options import read_pair
from app.cli.output import check_writable, print_result, status, write_file
from app.cli.race_session import (
    MORE_ROUNDS,
    RaceSession,
    RaceStatus,
    answer_request,
    fixed_params,
    measured_on,
    save_result,
    with_pair,
)
from app.cli.streams import read_input
from app.compare.job import CompareJob
from app.compare.measure import speeds
from app.compare.race import sides_of
from app.compare.report import Comparison, busy_programs, comparison_json, comparison_lines, how, pair_title
from app.conversations.message import Message, Role
from app.core.errors import INTERRUPTED, UsageError
from app.core.printable import escape_unprintable, printable
from app.core.regular_file import user_text
from app.core.units import counted
from app.engine.interfaces import Controls
from app.settings.layers import automatic
from app.worker.events import JobEnded

_MAX_PROMPT_COLUMNS = 60


def compare(
    prompt: str | None = None,
    repeat: int = REPEAT,
    fixed: str | None = None,
    save: Path | None = None,
    *,
    as_json: bool = False,
    **given: Any,
) -> int:
    """Race on one prompt; return the exit code."""
    loader = read_pair(given, modes=("auto", "fixed"))
    request = answer_request(loader, COMPARE_TOKENS, Message(Role.USER, _read_prompt(prompt)))
    job = CompareJob(request, sides_of(automatic(loader.settings), fixed_params(loader, fixed, given)), repeat)
    if save is not None:
        check_writable(save)
    return with_pair(loader, lambda session: _run(session, job, save, as_json=as_json))


def _run(session: RaceSession, job: CompareJob, save: Path | None, *, as_json: bool) -> int:
    progress, found = RaceStatus(job.rounds), Comparison()
    for event in job.run(session.pair, 0, Controls(session.cancel)):
        if isinstance(event, JobEnded) and isinstance(event.result, Comparison):
            found = event.result
        elif line := progress.line(event):
            status.show(line)
    status.clear()
    n = len(found.rounds)
    if not n:
        status.say("Stopped before every side had answered once.")
        return INTERRUPTED
    facts = measured_on(session, job.request)
    busy = busy_programs(found.rounds)
    is_whole = not found.stopped and found.broken is None
    figures = {"": speeds(found.measured)}
    notes = save_result(facts, figures, is_busy=bool(busy)) if is_whole else []
    info, request = session.pair.info, job.request
    whole = {
        "target": asdict(info.target),
        "draft": asdict(info.draft) if info.draft is not None else None,
        "device": info.device,
        "prompt": request.messages[-1].content,
        "sampling": asdict(request.sampling),
        "max_tokens": request.max_tokens,
        "rounds_asked": job.rounds,
        "rounds_done": n,
        "notices": list(session.notices),
        "facts": facts,
        "notes": [busy, *notes] if busy else notes,
        "contenders": comparison_json(found, MORE_ROUNDS),
    }
    prompt = " ".join(request.messages[-1].content.split())
    shown = prompt if len(prompt) <= _MAX_PROMPT_COLUMNS else prompt[: _MAX_PROMPT_COLUMNS - 1] + "…"
    title = [pair_title(info), f'"{shown}", {how(request)}, {counted(n, "round")}']
    lines = [*map(printable, title), "", *comparison_lines(found, MORE_ROUNDS), *map(printable, notes)]
    try:
        print_result(whole, lines, as_json=as_json)
    finally:
        if save is not None:
            write_file(save, escape_unprintable(json.dumps(whole, ensure_ascii=False, indent=2)) + "\n")
    if found.broken is not None:
        failed = f"Failed after {n} of {job.rounds} rounds."
        status.say(failed if n < job.rounds else "Failed while comparing the texts.")
        raise found.broken
    if found.stopped:
        status.say(f"Stopped after {n} of {job.rounds} rounds.")
    return INTERRUPTED if found.stopped else 0


def _read_prompt(text: str | None) -> str:
    if text == "-":
        text = user_text(read_input(), "Standard input")
    if text is None or not text.strip():
        raise UsageError("Give a prompt.", 'For example: tandem compare "Why is the sky blue?"')
    return text
