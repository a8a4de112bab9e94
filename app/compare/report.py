"""Comparisons and benchmarks as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.compare.benchmark import Row
from app.compare.card import drafted
from app.compare.difference import Difference, difference_lines, first_difference, parting_lines
from app.compare.lossless import Checks, statement
from app.compare.measure import UNCLEAR, Measured, factor, figures_of, in_figures, measure, verdict
from app.compare.race import Round, Run
from app.compare.suite import Prompt
from app.conversations.message import Role
from app.core.printable import printable
from app.engine.drafting_report import why_undrafted
from app.hardware.processors import usable_processors
from app.models.pair_info import PairInfo
from app.worker.request import AnswerRequest

_MS = 1e-6
_CROWDED = 0.3
"""Share of the processors that other programs take, from which on figures are those of that moment."""
_SHORT_S = 0.5
"""Of less time nothing is said: counters of the system advance by a hundredth of a second."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prompt, compared.

    Attributes:
        measured: Every contender's figures, the plain one first.
        rounds: Its rounds, at least one.
        differences: The first difference from the plain answer, by contender; None where there is none, and a
            contender is missing where it was not looked for.
    """

    measured: tuple[Measured, ...]
    rounds: tuple[Round, ...]
    differences: Mapping[str, Difference | None]


def compared(rounds: Sequence[Round], differences: Mapping[str, Difference | None]) -> Comparison:
    """Summarize a race; the first contender is the baseline.

    A contender that came later is measured in the rounds that it took part in.
    """
    everybody = max(rounds, key=len)
    names = list(everybody)
    measured = tuple(measure([rounds], name, names[0]) for name in names)
    return Comparison(measured, tuple(rounds), differences)


def comparison_lines(comparison: Comparison) -> list[str]:
    """A table, and for every contender but the plain one what it means."""
    measured, rounds = comparison.measured, comparison.rounds
    wide = max(len(m.name) for m in measured)
    lines = [f"{'':{wide}}  {'speed':>10}  {'TTFT':>7}  {'acceptance':>10}  {'tokens/step':>11}"]
    for m in measured:
        told = figures_of(m)
        line = f"{m.name:{wide}}  {told.speed:>10}  {told.first_token:>7}  {told.acceptance:>10}"
        lines.append(f"{line}  {told.tokens_per_step:>11}".rstrip())
    lines += ["", start(rounds)]
    if (note := unsteady(rounds, measured[0].name)) is not None:
        lines += ["", note]
    for m in measured[1:]:
        lines += ["", f"{m.name}: {verdict(m.ratio, work=m.work)}"]
        lines += [f"  {line}" for line in remarks(comparison, m)]
    return [printable(line) for line in lines]


def remarks(comparison: Comparison, measured: Measured) -> list[str]:
    """Return notes on one side: why it did not draft, and where its text differs."""
    name = measured.name
    runs = [round_[name] for round_ in comparison.rounds if name in round_]
    run = runs[-1]
    lines = [why_undrafted(run.why)] if measured.acceptance is None and run.why else []
    lines += run.notices
    if name in comparison.differences:
        lines += difference_lines(comparison.differences[name], runs[0])
    return lines


def unsteady(rounds: Sequence[Round], name: str) -> str | None:
    """Return a warning if the text without drafts differs from run to run."""
    first, *others = [round_[name] for round_ in rounds]
    if all(first_difference(first, other) is None for other in others):
        return None
    return "Without drafts, the text differs from run to run; differences below may have the same cause."


def crowded(rounds: Iterable[Round]) -> str | None:
    """Return a warning if other programs took much CPU time or changed the thread count."""
    runs = [run for round_ in rounds for run in round_.values()]
    threads = {n for run in runs for n in run.threads}
    if len(threads) > 1:
        return (
            f"Other programs were busy, so the number of CPU threads varied from {min(threads)} to {max(threads)}. "
            "Close them and rerun for reliable numbers."
        )
    wall_s, n = sum(run.wall_s for run in runs), len(usable_processors())
    taken = sum(run.others_s for run in runs) / wall_s if wall_s > _SHORT_S else 0.0
    if taken < _CROWDED * n:
        return None
    of_all = f"{min(taken, n):.1f} of {n} core{'s' * (n != 1)}"
    return f"Other programs used {of_all}; close them and rerun for reliable numbers."


def start(rounds: Sequence[Round]) -> str:
    """Return what is cached when each side starts, as a clause."""
    held = min(run.stats.cache_n for run in rounds[0].values())
    if not held:
        return "each side starts from empty caches and reads the whole prompt"
    return f"each side starts with the {held:,} tokens before the prompt cached"


def seen(request: AnswerRequest) -> str:
    """Return what each side sees besides the prompt, as a clause."""
    *before, _ = request.messages
    n = sum(message.role is not Role.SYSTEM for message in before)
    said = [f"the {n:,} messages before it" if n > 1 else "the message before it"] if n else []
    said += ["the system prompt"] if len(before) > n else []
    return f"each side sees this prompt with {' and '.join(said)}" if said else "each side sees this prompt alone"


def how(request: AnswerRequest) -> str:
    """The sampling in a few words."""
    sampling = request.sampling
    draw = "greedy" if sampling.is_greedy else f"temperature {sampling.temperature:g}, seed {sampling.seed}"
    return f"{draw}, {request.max_tokens} tokens at most"


def pair_title(info: PairInfo) -> str:
    """Both models and where they run."""
    names = " + ".join(f"{m.name} {m.quantization}" for m in (info.target, info.draft) if m is not None)
    return f"{names}, {info.device}"


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Every figure, every run and the texts."""
    out: dict[str, Any] = {}
    for m in comparison.measured:
        runs = [round_[m.name] for round_ in comparison.rounds if m.name in round_]
        difference = comparison.differences.get(m.name)
        out[m.name] = {
            **m.as_json(),
            "sentence": verdict(m.ratio, work=m.work) if m is not comparison.measured[0] else None,
            "same_tokens": difference is None if m.name in comparison.differences else None,
            "difference": difference.as_json() if difference is not None else None,
            "text": runs[0].text,
            "reasoning": runs[0].reasoning,
            "runs": [run_json(run, number, steps=False) for number, run in enumerate(runs, start=1)],
        }
    return out


def run_json(run: Run, number: int, *, steps: bool) -> dict[str, Any]:
    """Return one run; with `steps`, each verify step."""
    stats = run.stats
    out: dict[str, Any] = {
        "round": number,
        "finish_reason": run.reason.value,
        "cache_n": stats.cache_n,
        "predicted_n": stats.predicted_n,
        "predicted_ms": stats.predicted_ns * _MS,
        "prompt_n": stats.prompt_n,
        # Both models', as in `run --json` and in what a server counts.
        "prompt_ms": (stats.prompt_ns + stats.draft_prompt_ns) * _MS,
        "draft_prompt_ms": stats.draft_prompt_ns * _MS,
        "first_token_ms": stats.first_token_ns * _MS,
        "draft_n": stats.draft_n,
        "draft_n_accepted": stats.draft_n_accepted,
        "verify_steps": stats.verify_steps,
        "threads": list(run.threads),
        "notices": list(run.notices),
    }
    if steps:
        out["steps"] = [
            {"first": s.first, "tokens": s.tokens, "drafted": s.drafted, "accepted": s.accepted, "ms": s.ns * _MS}
            for s in run.steps
        ]
    return out


def round_json(prompt: Prompt, number: int, round_: Round, *, steps: bool) -> list[dict[str, Any]]:
    """Return one object per run of a round."""
    return [
        {
            "type": "run",
            "kind": prompt.kind,
            "prompt": prompt.name,
            "contender": run.contender,
            **run_json(run, number, steps=steps),
        }
        for run in round_.values()
    ]


def table_lines(rows: Sequence[Row], columns: int | None = None) -> list[str]:
    """Return a benchmark as a table of speedups.

    Args:
        rows: One a kind of text.
        columns: Of the terminal: where it is too narrow, ratios go without their spread, then what stands behind them
            goes, last first; None is wide enough.
    """
    if not rows:
        return []
    behind = [head for head in _BEHIND if head != _BOUND or any(row.oracle is not None for row in rows)]
    lines = _table(rows, behind, spreads=True)
    if columns is None or max(map(len, lines)) <= columns:
        return lines
    while max(map(len, lines := _table(rows, behind, spreads=False))) > columns and behind:
        behind.pop()
    return lines


_BOUND = "upper bound"
_BEHIND = ("no draft", _BOUND, "acceptance", "tokens/step")
"""Columns after the ratios, most important first."""


def _table(rows: Sequence[Row], behind: Sequence[str], *, spreads: bool) -> list[str]:
    names = [m.name for m in rows[0].measured[1:]]
    cells = [["", *names, *behind]]
    for row in rows:
        told = _told_behind(row)
        ratios = (
            in_figures(m.ratio, work=m.work, spreads=spreads) if m.ratio is not None else "-" for m in row.measured[1:]
        )
        cells.append([row.kind, *ratios, *(told[head] for head in behind)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # Words behind a ratio would push its figures out of their column.
    sides = ["<"] * (1 + len(names)) + [">"] * len(behind)
    lines = []
    for line in cells:
        padded = (f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True))
        lines.append(printable("  ".join(padded)).rstrip())
    if any(UNCLEAR in cell for line in cells[1:] for cell in line):
        lines += ["", f"{UNCLEAR} too few runs to tell"]
    return lines


def _told_behind(row: Row) -> Mapping[str, str]:
    plain, own = row.measured[0].tokens_per_second, drafted(row)
    told = figures_of(own) if own is not None else None
    cells = (
        f"{plain.median:.1f}" if plain is not None else "",
        f"{factor(row.oracle.median)}×" if row.oracle is not None else "",
        told.acceptance if told is not None else "",
        told.tokens_per_step if told is not None else "",
    )
    return dict(zip(_BEHIND, cells, strict=True))


def lossless_lines(checks: Checks) -> list[str]:
    """Every check in a line or a few."""
    lines = []
    for check in checks.greedy:
        what = f"{check.prompt}, {check.contender}: {check.compared} tokens, {check.drafted} drafted"
        lines.append(f"{what}, {'the same' if check.difference is None else 'a difference'}")
        d = check.difference
        if d is not None:
            lines += [f"  {line}" for line in parting_lines(d)]
    for test in checks.sampled:
        lines.append(
            f"{test.answers} sampled answers each, {test.contender}: chi-square {test.chi_square:.1f}, "
            f"{test.freedom} degrees of freedom, p = {test.p:.2g}, {test.drafted} tokens drafted"
        )
    return [printable(line) for line in lines]


def checks_json(checks: Checks) -> dict[str, Any]:
    """Every check, and the statement."""
    return {
        "greedy": [check.as_json() for check in checks.greedy],
        "sampled": [test.as_json() for test in checks.sampled],
        "lossless": checks.hold,
        "statement": statement(checks),
    }
