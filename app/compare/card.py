"""A result to show around: Markdown, and a picture drawn from the figures. Nothing on it was not measured."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from app.compare.benchmark import Row
from app.compare.measure import NOISE, UNCLEAR, UNDRAFTED, Measured, Spread, factor, figures_of, in_figures, outcome
from app.core.printable import printable

# Teal is the draft, amber the target.
_DRAFT, _TARGET = "#0f766e", "#b45309"
_TEXT, _DIM, _LINE, _PAPER = "#1c1917", "#6b6560", "#e7e2dc", "#fdfcfa"
_WIDTH, _MARGIN, _LABEL, _FIGURES = 760, 32, 190, 130
_ROW, _BAR = 22, 12
_FONTS = "ui-sans-serif, system-ui, Helvetica, Arial, sans-serif"
_WORDS = f"{UNCLEAR}: too few runs; a tie: within {NOISE:.0%}; {UNDRAFTED}: nothing was drafted"
_BARS, _MARK = "bars: speedup against no draft, with its range", "upright mark: upper bound of these drafts"
_MARKS = {"tie": " a tie", "unclear": UNCLEAR}
_TITLE = 66
_LONGEST = 110
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")


@dataclass(frozen=True, slots=True)
class Card:
    """The contents of a card.

    Attributes:
        title: The pair.
        rows: The table; of each row every contender, the plain one first.
        facts: Machine, build, files with their sha256, settings, by a name for people.
        notes: Sentences below the table, such as that the run was stopped early.
    """

    title: str
    rows: Sequence[Row]
    facts: Mapping[str, str]
    notes: Sequence[str] = field(default_factory=tuple)


def markdown(card: Card) -> str:
    """The card as text for a forum or an issue."""
    names = [m.name for m in card.rows[0].measured] if card.rows else []
    lines = [f"### {escaped(card.title)}", ""]
    head = [
        "kind of text",
        *(f"{escaped(name)} tok/s" for name in names),
        *(f"{escaped(name)} ratio" for name in names[1:]),
    ]
    head += ["acceptance", "tokens/step", *["upper bound"] * _bounded(card)]
    lines += ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for row in card.rows:
        cells = [escaped(row.kind), *(_speed(m.tokens_per_second) for m in row.measured)]
        cells += [escaped(in_figures(m.ratio, work=m.work)) if m.ratio is not None else "" for m in row.measured[1:]]
        told = figures_of(best) if (best := drafted(row)) is not None else None
        cells += [
            told.acceptance if told is not None else "",
            told.tokens_per_step if told is not None else "",
        ]
        if _bounded(card):
            cells.append(f"{factor(row.oracle.median)}×" if row.oracle is not None else "")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Medians; in brackets the lowest and highest of the alternating rounds;"]
    lines += [f"{_WORDS}. Acceptance and tokens/step are those of automatic drafting.", ""]
    lines += [f"- {escaped(name)}: {escaped(value)}" for name, value in card.facts.items()]
    lines += [f"- {escaped(note)}" for note in card.notes]
    return "\n".join(lines) + "\n"


def _bounded(card: Card) -> bool:
    """Return whether the card has an upper bound."""
    return any(row.oracle is not None for row in card.rows)


def drafted(row: Row) -> Measured | None:
    """The contender whose acceptance is told: automatic drafting, else the last one."""
    return next((m for m in row.measured if m.name == "automatic"), row.measured[-1] if row.measured else None)


def svg(card: Card) -> str:
    """Draw the card as SVG: one bar per contender from 0 to its speedup, and a line at 1."""
    title = textwrap.wrap(_one_line(card.title), _TITLE)[:3]
    top = _MARGIN + 36 + 24 * max(1, len(title))
    longest = max((m.ratio.high for row in card.rows for m in row.measured if m.ratio), default=1.0)
    longest = max([longest, *(row.oracle.median for row in card.rows if row.oracle is not None)])
    room = _WIDTH - 2 * _MARGIN - _LABEL - _FIGURES
    scale = room / max(1.2, longest)
    body: list[str] = []
    y = top
    for row in card.rows:
        body += _group(row, y, scale)
        y += _ROW * max(1, len(row.measured) - 1) + 10
    one = _MARGIN + _LABEL + scale
    body.append(f'<line x1="{one:.1f}" y1="{top - 8}" x2="{one:.1f}" y2="{y - 8}" stroke="{_TARGET}"/>')
    body.append(_text(one, top - 14, "no draft", fill=_TARGET, size=11, anchor="middle"))
    legend = f"{_BARS}; {_MARK}" if _bounded(card) else _BARS
    facts = [legend, _WORDS, *(f"{name}: {value}" for name, value in card.facts.items()), *card.notes]
    y += 12
    for fact in facts:
        body.append(_text(_MARGIN, y, fact, fill=_DIM, size=11))
        y += 16
    height = y + _MARGIN - 12
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONTS}" role="img">',
        f"<title>{_xml(card.title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" rx="10" fill="{_PAPER}" stroke="{_LINE}"/>',
        *(_text(_MARGIN, _MARGIN + 12 + 24 * i, line, size=16, weight=600) for i, line in enumerate(title)),
    ]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def _group(row: Row, y: int, scale: float) -> list[str]:
    """One kind of text: its name and a bar for everybody but the plain one."""
    out = [_text(_MARGIN, y + 10, row.kind, size=13, weight=600 if row.kind == "all" else 400)]
    left = _MARGIN + _LABEL
    for index, m in enumerate(row.measured[1:]):
        at = y + index * _ROW
        out.append(_text(left - 10, at + 10, m.name, fill=_DIM, size=11, anchor="end"))
        if m.ratio is None:
            out.append(_text(left, at + 10, "not measured", fill=_DIM, size=11))
            continue
        width = m.ratio.median * scale
        what = outcome(m.ratio, work=m.work)
        drafts = what != "same" and (m.drafter != "none" or m.name == "automatic")
        color = _DRAFT if drafts else _DIM
        low, high = left + m.ratio.low * scale, left + m.ratio.high * scale
        out.append(f'<rect x="{left}" y="{at}" width="{width:.1f}" height="{_BAR}" rx="2" fill="{color}"/>')
        if m.ratio.n > 1:
            out.append(
                f'<line x1="{low:.1f}" y1="{at + _BAR / 2}" x2="{high:.1f}" y2="{at + _BAR / 2}" stroke="{_TEXT}"/>'
            )
        if row.oracle is not None and m.name == "automatic":
            bound = left + row.oracle.median * scale
            out.append(f'<rect x="{bound:.1f}" y="{at - 1}" width="2" height="{_BAR + 2}" fill="{_DIM}"/>')
        figures = UNDRAFTED if what == "same" else f"{factor(m.ratio.median)}×{_MARKS.get(what, '')}"
        if m.tokens_per_second is not None:
            figures += f", {m.tokens_per_second.median:.1f} tok/s"
        out.append(_text(_WIDTH - _MARGIN, at + 10, figures, size=12, anchor="end"))
    return out


def _text(
    x: float, y: float, text: str, *, fill: str = _TEXT, size: int = 12, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{_xml(text)}</text>'
    )


def _xml(text: str) -> str:
    """Text that cannot end an element or hide from its reader, and is no longer than a line."""
    line = _one_line(text)
    return escape(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…", quote=True)


def escaped(text: str) -> str:
    """A text as one line that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    # XML 1.0 has no place for the last two, and printable() lets the first two pass.
    return " ".join(printable(text).translate({0xFFFE: None, 0xFFFF: None}).split())


def _speed(speed: Spread | None) -> str:
    return f"{speed.median:.1f}" if speed is not None else ""
