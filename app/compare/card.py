"""A benchmark as a table, as Markdown, and as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape

from app.compare import AUTOMATIC, shown_name
from app.compare.benchmark import ResultRow
from app.compare.measure import NOISE, UNCLEAR, factor
from app.compare.report import escaped, markdown_table, one_line
from app.core.columns import text_table
from app.engine.drafting_report import NO_DRAFT

# Teal is the draft, amber the target.
_DRAFT_COLOR, _TARGET_COLOR = "#0f766e", "#b45309"
_TEXT_COLOR, _DIM_COLOR, _LINE_COLOR, _PAPER_COLOR = "#1c1917", "#6b6560", "#e7e2dc", "#fdfcfa"
_WIDTH, _MARGIN, _LABEL_WIDTH, _FIGURES = 760, 32, 190, 130
_ROW_HEIGHT, _BAR_HEIGHT = 22, 12
_FONT_FAMILIES = "ui-sans-serif, system-ui, Helvetica, Arial, sans-serif"
_WORDS_EXPLAINED = f"{UNCLEAR}: too few runs; a tie: within {NOISE:.0%}; {NO_DRAFT}: nothing was drafted"
_MAX_TITLE_CHARACTERS = 66
_MAX_LINE_CHARACTERS = 110
_RESULT_MARKS = {"tie": " a tie", "unclear": UNCLEAR}
_MORE_COLUMNS = ("acceptance", "tokens/step")


def table_lines(rows: Sequence[ResultRow], columns: int | None = None) -> list[str]:
    """Return a benchmark as a table of speedups; narrow terminals get no ranges."""
    lines = _table(rows, spreads=True)
    if columns is not None and max(map(len, lines)) > columns:
        lines = _table(rows, spreads=False)
    if any(UNCLEAR in line for line in lines[1:]):
        lines += ["", f"{UNCLEAR} too few runs to tell"]
    return lines


def _table(rows: Sequence[ResultRow], *, spreads: bool) -> list[str]:
    names = [m.name for m in rows[0].measured[1:]]
    cells = [["", *names, NO_DRAFT, *_MORE_COLUMNS]]
    for row in rows:
        ratios = (m.ratio_text(spreads=spreads) or "-" for m in row.measured[1:])
        plain = row.measured[0].texts[0].removesuffix(" tok/s")
        cells.append([row.kind, *ratios, plain, *row.of(AUTOMATIC).texts[2:]])
    return text_table(cells, left=1 + len(names))


def markdown(title: str, rows: Sequence[ResultRow], facts: Mapping[str, str], notes: Sequence[str]) -> str:
    """Return the share card of a pair for a forum or an issue: table, facts by name, and notes."""
    names = [shown_name(m.name) for m in rows[0].measured]
    cells = [
        ["kind of text", *(f"{name} tok/s" for name in names), *(f"{name} ratio" for name in names[1:]), *_MORE_COLUMNS]
    ]
    for row in rows:
        speeds = (m.texts[0].removesuffix(" tok/s") for m in row.measured)
        cells.append([row.kind, *speeds, *(m.ratio_text() for m in row.measured[1:]), *row.of(AUTOMATIC).texts[2:]])
    lines = [f"### {escaped(title)}", "", *markdown_table(cells), ""]
    lines += ["Medians; in brackets the lowest and highest of the alternating rounds;"]
    lines += [f"{_WORDS_EXPLAINED}. Acceptance and tokens/step are those of automatic drafting.", ""]
    lines += [f"- {escaped(name)}: {escaped(value)}" for name, value in facts.items()]
    lines += [f"- {escaped(note)}" for note in notes]
    return "\n".join(lines) + "\n"


def svg(title: str, rows: Sequence[ResultRow], facts: Mapping[str, str], notes: Sequence[str]) -> str:
    """Draw the share card: one bar per side from 0 to its speedup, and a line at 1."""
    heading = textwrap.wrap(one_line(title), _MAX_TITLE_CHARACTERS)[:3]
    top = _MARGIN + 36 + 24 * max(1, len(heading))
    longest = max((m.ratio.high for row in rows for m in row.measured if m.ratio), default=1.0)
    scale = (_WIDTH - 2 * _MARGIN - _LABEL_WIDTH - _FIGURES) / max(1.2, longest)
    body: list[str] = []
    y = top
    for row in rows:
        body += _bars(row, y, scale)
        y += _ROW_HEIGHT * max(1, len(row.measured) - 1) + 10
    one = _MARGIN + _LABEL_WIDTH + scale
    body.append(f'<line x1="{one:.1f}" y1="{top - 8}" x2="{one:.1f}" y2="{y - 8}" stroke="{_TARGET_COLOR}"/>')
    body.append(_text(one, top - 14, "no draft", fill=_TARGET_COLOR, size=11, anchor="middle"))
    legend = "bars: speedup against no draft, with its range"
    y += 12
    for fact in (legend, _WORDS_EXPLAINED, *(f"{name}: {value}" for name, value in facts.items()), *notes):
        body.append(_text(_MARGIN, y, fact, fill=_DIM_COLOR, size=11))
        y += 16
    height = y + _MARGIN - 12
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONT_FAMILIES}" role="img">',
        f"<title>{_xml(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" rx="10" fill="{_PAPER_COLOR}" stroke="{_LINE_COLOR}"/>',
        *(_text(_MARGIN, _MARGIN + 12 + 24 * i, line, size=16, weight=600) for i, line in enumerate(heading)),
    ]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def _bars(row: ResultRow, y: int, scale: float) -> list[str]:
    out = [_text(_MARGIN, y + 10, row.kind, size=13, weight=600 if row.kind == "all" else 400)]
    left = _MARGIN + _LABEL_WIDTH
    for index, m in enumerate(row.measured[1:]):
        at = y + index * _ROW_HEIGHT
        out.append(_text(left - 10, at + 10, m.name, fill=_DIM_COLOR, size=11, anchor="end"))
        if m.ratio is None:
            out.append(_text(left, at + 10, "not measured", fill=_DIM_COLOR, size=11))
            continue
        drafts = not m.is_idle and (m.drafter != "none" or m.name == "automatic")
        width, color = m.ratio.median * scale, _DRAFT_COLOR if drafts else _DIM_COLOR
        out.append(f'<rect x="{left}" y="{at}" width="{width:.1f}" height="{_BAR_HEIGHT}" rx="2" fill="{color}"/>')
        if m.ratio.n > 1:
            low, high, middle = left + m.ratio.low * scale, left + m.ratio.high * scale, at + _BAR_HEIGHT / 2
            out.append(f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" stroke="{_TEXT_COLOR}"/>')
        ratio = NO_DRAFT if m.is_idle else f"{factor(m.ratio.median)}×{_RESULT_MARKS.get(m.outcome, '')}"
        figures = ", ".join(filter(None, (ratio, m.texts[0])))
        out.append(_text(_WIDTH - _MARGIN, at + 10, figures, size=12, anchor="end"))
    return out


def _text(
    x: float, y: float, text: str, *, fill: str = _TEXT_COLOR, size: int = 12, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{_xml(text)}</text>'
    )


def _xml(text: str) -> str:
    line = one_line(text)
    return escape(line if len(line) <= _MAX_LINE_CHARACTERS else line[: _MAX_LINE_CHARACTERS - 1] + "…", quote=True)
