"""A comparison as text, JSON and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from app.compare import shown_name
from app.compare.difference import Difference
from app.compare.measure import SideFigures, measure
from app.compare.race import Round, Run
from app.conversations.message import Role
from app.core.columns import text_table
from app.core.errors import AppError
from app.core.printable import printable
from app.core.units import counted
from app.engine.drafting_report import why_undrafted
from app.hardware.cpu import BUSY_CPU_SHARE, usable_processors
from app.models.pair_info import PairInfo
from app.worker.request import AnswerRequest

_SHORT_S = 0.5
"""Shorter times are too coarse for the system's CPU counters."""
_TABLE_HEAD = ("", "speed", "ratio", "first token", "acceptance", "tokens/step")
_MARKDOWN_CHARACTERS = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")


@dataclass(frozen=True)
class Comparison:
    """One prompt, compared; the first side is the baseline.

    Attributes:
        differences: The first difference from the baseline of each compared side; None for the same text.
    """

    rounds: tuple[Round, ...] = ()
    differences: Mapping[str, Difference | None] = field(default_factory=dict)
    stopped: bool = False
    broken: AppError | None = None

    def after(self, earlier: Comparison) -> Comparison:
        """Return both as one comparison; the earlier differences take precedence."""
        return replace(
            self, rounds=earlier.rounds + self.rounds, differences={**self.differences, **earlier.differences}
        )

    @cached_property
    def measured(self) -> tuple[SideFigures, ...]:
        """The figures of every side, baseline first."""
        names = list(self.rounds[0]) if self.rounds else []
        return tuple(measure([self.rounds], name, names[0]) for name in names)

    def runs(self, name: str) -> list[Run]:
        return [round_[name] for round_ in self.rounds]

    def remarks(self, measured: SideFigures) -> list[str]:
        """Return notes on one side: why it did not draft, and where its text differs."""
        name, runs = measured.name, self.runs(measured.name)
        first, last = runs[0], runs[-1]
        lines = [why_undrafted(last.why)] if measured.acceptance is None and last.why else []
        lines += last.notices
        if name in self.differences:
            found, n = self.differences[name], len(first.tokens)
            lines += found.lines if found is not None else [f"identical output, {counted(n, 'token')}"]
        return lines

    @property
    def notes(self) -> list[str]:
        """Return notes on the whole comparison: cached tokens, and what makes it unreliable."""
        return [start(self.rounds), *filter(None, [busy_programs(self.rounds)])]


def busy_programs(rounds: Iterable[Round]) -> str | None:
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
    if taken < BUSY_CPU_SHARE * n:
        return None
    cores = f"{min(taken, n):.1f} of {counted(n, 'core')}"
    return f"Other programs used {cores}; close them and rerun for reliable numbers."


def start(rounds: Sequence[Round]) -> str:
    """Say how many tokens are cached when each side starts."""
    cached = min(run.stats.cache_n for run in rounds[0].values())
    if not cached:
        return "each side starts from empty caches and reads the whole prompt"
    return f"both sides reuse {cached:,} cached tokens"


def seen(request: AnswerRequest) -> str:
    """Say what each side reads before the prompt."""
    *before, _ = request.messages
    n = sum(message.role is not Role.SYSTEM for message in before)
    parts = [f"the {n:,} messages before it" if n > 1 else "the message before it"] if n else []
    parts += ["the system prompt"] if len(before) > n else []
    return f"each side sees this prompt with {' and '.join(parts)}" if parts else "each side sees this prompt alone"


def how(request: AnswerRequest) -> str:
    """Describe the sampling in a few words."""
    sampling = request.sampling
    draw = "greedy" if sampling.is_greedy else f"temperature {sampling.temperature:g}, seed {sampling.seed}"
    return f"{draw}, {request.max_tokens} tokens at most"


def pair_title(info: PairInfo) -> str:
    """Return both models and their device."""
    names = " + ".join(f"{m.name} {m.quantization}".strip() for m in (info.target, info.draft) if m is not None)
    return f"{names}, {info.device}"


def _cells(m: SideFigures, *, spreads: bool) -> tuple[str, ...]:
    speed, *others = m.texts
    return shown_name(m.name), speed, m.ratio_text(spreads=spreads), *others


def comparison_lines(comparison: Comparison, more: str = "") -> list[str]:
    """Return a table, and the verdict on every side except the baseline; `more` as for `SideFigures.verdict`."""
    lines = text_table([_TABLE_HEAD, *(_cells(m, spreads=False) for m in comparison.measured)], left=1)
    lines += ["", *comparison.notes]
    for m in comparison.measured[1:]:
        lines += ["", f"{m.name}: {m.verdict(more)}", *(f"  {line}" for line in comparison.remarks(m))]
    return [printable(line) for line in lines]


def comparison_json(comparison: Comparison, more: str = "") -> dict[str, Any]:
    """Return all figures, runs and texts by side."""
    out: dict[str, Any] = {}
    for m in comparison.measured:
        runs = comparison.runs(m.name)
        difference = comparison.differences.get(m.name)
        out[m.name] = {
            **m.as_json(),
            "sentence": m.verdict(more) if m is not comparison.measured[0] else None,
            "same_tokens": difference is None if m.name in comparison.differences else None,
            "difference": difference.as_json() if difference is not None else None,
            "text": runs[0].text,
            "reasoning": runs[0].reasoning,
            "runs": [run_json(run, number) for number, run in enumerate(runs, start=1)],
        }
    return out


def run_json(run: Run, number: int) -> dict[str, Any]:
    """Return a run for JSON."""
    stats = run.stats
    return {
        "round": number,
        "finish_reason": run.reason.value,
        **stats.timings,
        "first_token_ms": stats.first_token_ms,
        "verify_steps": stats.verify_steps,
        "threads": list(run.threads),
        "notices": list(run.notices),
    }


def comparison_markdown(comparison: Comparison, request: AnswerRequest, pair: PairInfo) -> str:
    """Return a comparison with its texts, for a forum or an issue."""
    n = len(comparison.rounds)
    lines = [f"### {escaped(pair_title(pair))}", "", fenced(request.messages[-1].content), ""]
    lines += [*markdown_table([_TABLE_HEAD, *(_cells(m, spreads=True) for m in comparison.measured)]), ""]
    for m in comparison.measured[1:]:
        lines.append(f"- {escaped(m.name)}: {escaped(m.verdict())}")
        lines += [f"  - {escaped(remark)}" for remark in comparison.remarks(m)]
    rounds = f"{how(request)}; {counted(n, 'alternating round')}, each side alone"
    lines += [f"- {escaped(note)}" for note in (rounds, seen(request), *comparison.notes)]
    for m in comparison.measured:
        first = comparison.runs(m.name)[0]
        lines += ["", f"#### {escaped(shown_name(m.name))}", ""]
        lines += ["Reasoning:", "", fenced(first.reasoning), "", "Answer:", ""] if first.reasoning else []
        lines += [fenced(first.text)]
    return "\n".join(lines) + "\n"


def markdown_table(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table; the first row is the header."""
    head, *rows = ["| " + " | ".join(map(escaped, row)) + " |" for row in cells]
    return [head, "| --- |" + " ---: |" * (len(cells[0]) - 1), *rows]


def fenced(text: str) -> str:
    """Return a text in a code fence longer than any inside it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{printable(text)}\n{fence}"


def escaped(text: str) -> str:
    """Return a text as one line with Markdown escaped."""
    return _MARKDOWN_CHARACTERS.sub(r"\\\1", one_line(text))


def one_line(text: str) -> str:
    # XML 1.0, which cards use, cannot contain these two.
    return " ".join(printable(text).translate({0xFFFE: None, 0xFFFF: None}).split())
