"""One verify round as lines: what was drafted, what the target made of it, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from textual.content import Content

from app.events import RoundDetails
from app.ui.reading.pieces import visible

_DRAFT, _TARGET, _QUIET = "$draft", "$target", "$quiet"
_PROBABILITIES = ("draft p", "target p")
_LABELS = ("drafted", _PROBABILITIES[0], "target", _PROBABILITIES[1])
_LABEL_CELLS = 10
_LONGEST_PIECE = 16
_GAP = "   "
_UNSEEN = "not computed while this was closed"


def probability(p: float | None) -> str:
    """Two digits without the nought in front; a dash for what is no probability."""
    if p is None:
        return "-"
    if p < 0.005:
        return "<.01"
    return "1.0" if p >= 0.995 else f"{p:.2f}".lstrip("0")


@dataclass(frozen=True, slots=True)
class _Column:
    """One depth of the round, a cell a line."""

    cells: tuple[Content, Content, Content, Content]

    @property
    def width(self) -> int:
        return max(cell.cell_length for cell in self.cells) + 1


def _piece(piece: bytes, style: str) -> Content:
    return Content.styled("[" + Content(visible(piece)).truncate(_LONGEST_PIECE, ellipsis=True).plain + "]", style)


def _column(details: RoundDetails, depth: int) -> _Column:
    none = Content("")
    drafted = draft_p = target = target_p = none
    accepted = depth < details.n_accepted
    if depth < len(details.drafted):
        drafted = _piece(details.drafted[depth], _DRAFT if accepted else _QUIET)
        draft_p = Content.styled(probability(details.confidences[depth]), _QUIET)
    if depth < len(details.written):
        target = _piece(details.written[depth], _DRAFT if accepted else _TARGET)
        if details.chosen:
            target_p = Content.styled(probability(details.chosen[depth]), _QUIET)
    return _Column((drafted, draft_p, target, target_p))


def _in_sight(columns: list[_Column], end: int, room: int) -> tuple[int, int]:
    """The columns that fit, the one before `end` among them: that is where the round was decided."""
    start, used = 0, sum(column.width for column in columns[:end])
    while used > room and start < end - 1:
        used -= columns[start].width
        start += 1
    while end < len(columns) and used + columns[end].width <= room:
        used += columns[end].width
        end += 1
    return start, end


def _headline(details: RoundDetails, newest: int, width: int) -> Content:
    n, drafted, by_model = len(details.written), len(details.drafted), details.n_model
    sources = [name for name, count in (("model", by_model), ("look-up", drafted - by_model)) if count]
    plain = f", plain {details.plain_ns / 1e6:.1f} ms a token" if details.plain_ns is not None else ""
    took = f"{details.total_ns / 1e6:.1f} ms"
    whole = f"{took} for {n} tokens" if n > 1 else took
    short = f"{details.number:,}"
    numbered = f"{short} of {newest:,}"
    wholes = ((numbered, whole + plain), (numbered, took + plain), (short, took + plain), (short, took), (short, ""))
    for number, cost in wholes:
        parts = [
            Content(f"round {number}"),
            Content.styled(" and ".join(sources) or "no draft", _DRAFT if sources else _QUIET),
            Content.styled(f"accepted {details.n_accepted} of {drafted}", _DRAFT) if drafted else Content(""),
            Content.styled(cost, _QUIET),
        ]
        line = Content(_GAP).join(part for part in parts if part)
        if line.cell_length <= width:
            break
    return line


def _disagreement(details: RoundDetails, width: int) -> Content:
    at = details.n_accepted
    if at >= min(len(details.written), len(details.drafted)):
        return Content("")
    wrote, said = visible(details.written[at]), visible(details.drafted[at])
    confidence = details.confidences[at]
    trust = "looked up" if confidence is None else f"draft p {probability(confidence)}"
    doubt = f", target p {probability(details.declined)}" if details.declined is not None else ""
    choice = f" (p {probability(details.chosen[at])})" if details.chosen else ""
    for more in (f" ({trust}{doubt})", f" ({trust})", ""):
        line = Content.assemble(
            ("the target wrote ", _QUIET),
            (wrote, _TARGET),
            (f"{choice}; the draft said ", _QUIET),
            (said, _DRAFT),
            (more, _QUIET),
        )
        if line.cell_length <= width:
            break
    return line.truncate(width, ellipsis=True)


def round_lines(details: RoundDetails, newest: int, width: int, *, brief: bool = False) -> Iterator[Content]:
    """A round in so many cells.

    Args:
        details: The round.
        newest: Number of the newest one.
        width: Cells of a line.
        brief: Whether there is no room for the probabilities of each token.
    """
    yield _headline(details, newest, width)
    depths = max(len(details.drafted), len(details.written))
    columns = [_column(details, depth) for depth in range(depths)]
    start, end = _in_sight(columns, min(depths, details.n_accepted + 1), width - _LABEL_CELLS - 3)
    for line, label in enumerate(_LABELS):
        if (line < 2 and not details.drafted) or (brief and label in _PROBABILITIES):
            continue
        if label == _LABELS[-1] and not details.chosen:
            yield Content.styled(label.ljust(_LABEL_CELLS) + _UNSEEN, _QUIET).truncate(width, ellipsis=True)
            continue
        cells = [column.cells[line] for column in columns[start:end]]
        padded = [c.pad_right(col.width - c.cell_length) for c, col in zip(cells, columns[start:end], strict=True)]
        before, after = "… " if start else "", "…" if end < depths else ""
        yield Content.assemble((label.ljust(_LABEL_CELLS) + before, _QUIET), *padded, (after, _QUIET))
    yield _disagreement(details, width)
