"""One comparison as Markdown, with the texts, to keep or to show around."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

from app.compare.card import escaped
from app.compare.measure import figures_of, in_figures, verdict
from app.compare.report import Comparison, crowded, how, pair_title, remarks, seen, start, unsteady
from app.core import atomic
from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.worker.request import AnswerRequest

_HEAD = "| | speed | ratio | TTFT | acceptance | tokens/step |\n| --- | ---: | ---: | ---: | ---: | ---: |"


def comparison_markdown(comparison: Comparison, request: AnswerRequest, pair: PairInfo) -> str:
    """A comparison for a forum or an issue.

    Args:
        comparison: What was measured.
        request: What everybody was asked.
        pair: Who answered.
    """
    n = len(comparison.rounds)
    lines = [f"### {escaped(pair_title(pair))}", "", fenced(request.messages[-1].content), "", _HEAD]
    for m in comparison.measured:
        told = figures_of(m)
        ratio = escaped(in_figures(m.ratio, work=m.work)) if m.ratio is not None else ""
        cells = [escaped(m.name), told.speed, ratio, told.first_token, told.acceptance, told.tokens_per_step]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for m in comparison.measured[1:]:
        lines.append(f"- {escaped(m.name)}: {escaped(verdict(m.ratio, '', work=m.work))}")
        lines += [f"  - {escaped(remark)}" for remark in remarks(comparison, m)]
    if (warning := unsteady(comparison.rounds, comparison.measured[0].name)) is not None:
        lines.append(f"- {escaped(warning)}")
    if (company := crowded(comparison.rounds)) is not None:
        lines.append(f"- {escaped(company)}")
    lines.append(f"- {escaped(how(request))}; {n} alternating round{'s' * (n != 1)}, each side alone")
    lines += [f"- {seen(request)}", f"- {escaped(start(comparison.rounds))}"]
    for m in comparison.measured:
        first = next(round_[m.name] for round_ in comparison.rounds if m.name in round_)
        lines += ["", f"#### {escaped(m.name)}", ""]
        lines += ["Reasoning:", "", fenced(first.reasoning), "", "Answer:", ""] if first.reasoning else []
        lines += [fenced(first.text)]
    return "\n".join(lines) + "\n"


def fenced(text: str) -> str:
    """A text in a fence that it cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{printable(text)}\n{fence}"


def save_note(folder: Path, text: str) -> Path:
    """Write a comparison to a new file of this folder.

    Raises:
        AppError: The folder cannot be written to.
    """
    for number in count(1):
        file = folder / ("comparison.md" if number == 1 else f"comparison-{number}.md")
        try:
            atomic.create(file, text.encode(errors="replace"))
        except FileExistsError:
            continue
        except OSError as error:
            raise AppError(f"{file} cannot be written: {error.strerror}.") from error
        return file
    raise AssertionError
