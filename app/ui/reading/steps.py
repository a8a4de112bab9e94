"""Verify steps as lines: drafted tokens, accepted tokens and their cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from textual.content import Content

from app.core.printable import printable
from app.engine.types import Origin
from app.ui.reading.token_rows import STYLES
from app.ui.text import MARK
from app.worker.events import StepDetails

_MARKS = str.maketrans({"\n": "⏎", "\t": "⇥", " ": "·", "\r": "␍"})


def visible(piece: bytes) -> str:
    """A token on its own: spaces and line ends as marks, part of a character as its bytes."""
    if not piece:
        return "control"
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return piece.hex(" ")
    text = text.translate(_MARKS)
    return text if text == printable(text) else repr(text)[1:-1]


_DRAFT, _TARGET, _QUIET = "$draft", "$target", "$quiet"
_PROBABILITIES = ("draft p", "target p")
_LABELS = ("drafted", _PROBABILITIES[0], "target", _PROBABILITIES[1])
_LABEL_CELLS = 10
_LONGEST_PIECE = 16
_GAP = "   "
_ROOMY = 72
"""Cells from which there is room to say what a number means."""
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


def _drafted_style(details: StepDetails, depth: int) -> str:
    """Return the style of an accepted drafted token."""
    return STYLES[Origin.DRAFT if depth < details.n_model else Origin.NGRAM]


def _column(details: StepDetails, depth: int) -> _Column:
    none = Content("")
    drafted = draft_p = target = target_p = none
    accepted = depth < details.n_accepted
    if depth < len(details.drafted):
        drafted = _piece(details.drafted[depth], _drafted_style(details, depth) if accepted else _QUIET)
        draft_p = Content.styled(probability(details.confidences[depth]), _QUIET)
    if depth < len(details.written):
        target = _piece(details.written[depth], _drafted_style(details, depth) if accepted else _TARGET)
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


def step_rows(rounds: Sequence[StepDetails], chosen: int, width: int) -> Iterator[Content]:
    """Rounds as a row each, in columns: who drafted, what was accepted and what it took.

    Args:
        rounds: Those in sight.
        chosen: The place among them of the one that is explained: that says what it cost, the others what they wrote.
        width: Cells of a row.
    """
    heads = [_head(details, brief=width < _ROOMY) for details in rounds]
    widths = [max(len(head[column]) for head in heads) for column in range(len(heads[0]))] if heads else []
    for at, (details, head) in enumerate(zip(rounds, heads, strict=True)):
        number, source, accepted, took = (cell.ljust(cells) for cell, cells in zip(head, widths, strict=True))
        line = Content.assemble(
            f"{MARK} " if at == chosen else "  ",
            Content.styled(head[0].rjust(len(number)), "bold" if at == chosen else ""),
            _GAP,
            (source, _DRAFT if details.drafted else _QUIET),
            _GAP,
            (accepted, _DRAFT),
            _GAP if accepted else "",
            (head[3].rjust(len(took)), _QUIET),
        )
        room = width - line.cell_length
        more = _cost(details, room) if at == chosen else Content(_GAP) + _written(details)
        yield (line + more).truncate(width, ellipsis=True)


def _head(details: StepDetails, *, brief: bool) -> tuple[str, str, str, str]:
    drafted, by_model = len(details.drafted), details.n_model
    sources = [name for name, count in (("model", by_model), ("n-gram", drafted - by_model)) if count]
    accepted = f"{'' if brief else 'accepted '}{details.n_accepted} of {drafted}" if drafted else ""
    return f"{details.number:,}", " and ".join(sources) or "no draft", accepted, f"{details.total_ns / 1e6:.1f} ms"


def _cost(details: StepDetails, room: int) -> Content:
    """Return what a round brought for its time, as far as it can be said."""
    n, plain_ns = len(details.written), details.plain_ns
    brought = f" for {n} tokens" if n > 1 else ""
    plain = f", plain {plain_ns / 1e6:.1f} ms a token" if plain_ns is not None else ""
    whole = next((words for words in (brought + plain, plain) if len(words) <= room), "")
    return Content.styled(whole, _QUIET)


def _written(details: StepDetails) -> Content:
    styles = (_drafted_style(details, at) if at < details.n_accepted else _TARGET for at in range(len(details.written)))
    pieces = (Content.styled(visible(piece), style) for piece, style in zip(details.written, styles, strict=True))
    return Content(" ").join(pieces)


def _disagreement(details: StepDetails, width: int) -> Content:
    at = details.n_accepted
    if at >= min(len(details.written), len(details.drafted)):
        return Content("")
    wrote, said = visible(details.written[at]), visible(details.drafted[at])
    confidence = details.confidences[at]
    trust = "n-gram" if confidence is None else f"draft p {probability(confidence)}"
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


def step_lines(details: StepDetails, width: int, *, brief: bool = False) -> Iterator[Content]:
    """Return what a round made of its draft, in so many cells.

    Args:
        details: The round.
        width: Cells of a line.
        brief: Whether there is no room for the probabilities of each token.
    """
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
