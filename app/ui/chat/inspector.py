"""The verify steps of the last answer: a row per step, newest first, and the details of the chosen step."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from app.core.printable import printable
from app.engine.events import StepDetails
from app.engine.sources import Source
from app.ui.key_names import key
from app.ui.reading.token_rows import COLORLESS, STYLES, legend
from app.ui.text import MARK

_MAX_STEPS = 2_000
_EMPTY_TEXT = "The verify steps of the next answer appear here; left and right select one."
FIRST_TOKEN = "The first token comes with the prompt, before step 1."
_DETAIL_LINES, _BRIEF_LINES = 5, 3
"""Lines below the rows: all details of the chosen step, or all except the probabilities."""
_AROUND_LEGEND = 3
"""Spaces around the legend in the title of the border."""
_MIN_LINES_FOR_GAP = 10
"""Height from which a blank line separates rows and details."""


class Inspector(Widget):
    """Explains the newest step until the user goes back, or clicks on another step."""

    DEFAULT_CSS = "Inspector { display: none; border-title-align: right; border-title-color: $quiet; }"

    def __init__(self) -> None:
        super().__init__()
        self.steps: deque[StepDetails] = deque(maxlen=_MAX_STEPS)
        """The newest steps, oldest first."""
        self._newer = 0
        """Steps after the chosen step."""
        self._n_before = 0
        """Steps of earlier requests for the same answer; each request counts from 1."""
        self.drafter = Source.MODEL.label
        """Name of the source other than n-grams."""

    class StepSelected(Message):
        """The user chose a step, whose tokens should be marked in the text."""

    def on_resize(self) -> None:
        self._show()

    def open(self, shown: bool) -> None:
        """Show or hide the inspector."""
        self.display = shown
        self._show()

    def begin(self) -> None:
        """Forget the steps of the last answer."""
        self.steps.clear()
        self._newer = self._n_before = 0
        self._show()

    def add(self, steps: Iterable[StepDetails]) -> None:
        """Append steps; a chosen earlier step stays chosen. The numbers continue where an answer continues."""
        added, was_empty = list(steps), not self.steps
        for step in added:
            last = self.steps[-1].number if self.steps else 0
            self._n_before = last if self._n_before + step.number <= last else self._n_before
            self.steps.append(replace(step, number=self._n_before + step.number))
        if added and was_empty:
            # The keys that choose a step work from now on.
            self.screen.refresh_bindings()
        if self._newer:
            self._newer = min(self._newer + len(added), len(self.steps) - 1)
        if self.display:
            self._show()

    def step(self, by: int) -> None:
        """Go to later steps, or to earlier steps if negative; stay at the newest."""
        self._newer = max(0, min(self._newer - by, len(self.steps) - 1))
        self._show()
        self.post_message(self.StepSelected())

    def select(self, index: int) -> None:
        """Choose a step by its index, oldest first."""
        self.step(index - (len(self.steps) - 1 - self._newer))

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and place.y < min(self._n_rows, len(self.steps)):
            self.step(self._above - place.y)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.step(-1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.step(1)

    @property
    def index(self) -> int | None:
        """Index of the explained step, if any."""
        return len(self.steps) - 1 - self._newer if self.steps else None

    @property
    def details(self) -> StepDetails | None:
        """The explained step."""
        return self.steps[-1 - self._newer] if self.steps else None

    @property
    def _is_brief(self) -> bool:
        return self.size.height <= _DETAIL_LINES

    @property
    def _n_rows(self) -> int:
        height = self.size.height
        return max(1, height - (_BRIEF_LINES if self._is_brief else _DETAIL_LINES + (height >= _MIN_LINES_FOR_GAP)))

    @property
    def _above(self) -> int:
        n_rows, older = self._n_rows, len(self.steps) - 1 - self._newer
        return min(self._newer, max(n_rows // 2, n_rows - 1 - older))

    def _show(self) -> None:
        details = self.details
        number = f"step {details.number:,} of {self.steps[-1].number:,}" if details is not None else ""
        closes = f"{key('chat.tokens')} closes"
        title = Content(f" {'   '.join(words for words in (number, closes) if words)} ")
        styles = COLORLESS if self.app.no_color else STYLES
        names = legend(styles, self.size.width - title.cell_length - _AROUND_LEGEND, self.drafter)
        self.border_title = Content.assemble(" ", names, "  ", title) if names else title
        self.refresh()

    def render(self) -> Content:
        details = self.details
        if details is None:
            return Content.styled(f"{_EMPTY_TEXT} {FIRST_TOKEN}", "$quiet")
        width, above = self.size.width, self._above
        newest_first = list(reversed(self.steps))
        first = self._newer - above
        rows = step_rows(newest_first[first : first + self._n_rows], above, width)
        gap = [Content("")] * (self.size.height >= _MIN_LINES_FOR_GAP)
        return Content("\n").join([*rows, *gap, *step_lines(details, width, brief=self._is_brief)])


_WHITESPACE_MARKS = str.maketrans({"\n": "⏎", "\t": "⇥", " ": "·", "\r": "␍"})
_DRAFT_STYLE, _TARGET_STYLE, _QUIET_STYLE = "$draft", "$target", "$quiet"
_PROBABILITY_LABELS = ("draft p", "target p")
_ROW_LABELS = ("drafted", _PROBABILITY_LABELS[0], "target", _PROBABILITY_LABELS[1])
_LABEL_CELLS = 10
_LONGEST_PIECE = 16
_COLUMN_GAP = "   "
_COLUMN_CELLS, _BRIEF_COLUMN_CELLS = (5, 11, 17, 9), (5, 11, 8, 9)
"""Widths of a step's number, source, accepted tokens and time, which stay in place when steps arrive."""
_MIN_WIDTH_FOR_EXPLANATIONS = 72
"""Width from which numbers are explained."""


def visible(piece: bytes) -> str:
    """Return a token with marks for spaces and line ends, or the bytes of an incomplete character."""
    if not piece:
        return "end of answer"
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return piece.hex(" ")
    text = text.translate(_WHITESPACE_MARKS)
    return text if text == printable(text) else repr(text)[1:-1]


def probability(p: float | None) -> str:
    """Return two digits without the leading zero, or "-" for None."""
    if p is None:
        return "-"
    if p < 0.005:
        return "<.01"
    return "1.0" if p >= 0.995 else f"{p:.2f}".lstrip("0")


def _piece(piece: bytes, style: str) -> Content:
    return Content.styled("[" + Content(visible(piece)).truncate(_LONGEST_PIECE, ellipsis=True).plain + "]", style)


def _drafted_style(details: StepDetails, depth: int) -> str:
    return STYLES.of(details.sources[depth])


# The list of steps


def step_rows(steps: Sequence[StepDetails], chosen: int, width: int) -> Iterator[Content]:
    """Yield a row for each step: source, accepted tokens and time.

    The row at the index `chosen` also shows its cost; the others show their tokens.
    """
    brief = width < _MIN_WIDTH_FOR_EXPLANATIONS
    heads = [_head(details, brief=brief) for details in steps]
    widths = _BRIEF_COLUMN_CELLS if brief else _COLUMN_CELLS
    for at, (details, (number, source, accepted, took)) in enumerate(zip(steps, heads, strict=True)):
        line = Content.assemble(
            f"{MARK} " if at == chosen else "  ",
            Content.styled(number.rjust(widths[0]), "bold" if at == chosen else ""),
            _COLUMN_GAP,
            (source.ljust(widths[1]), _DRAFT_STYLE if details.drafted else _QUIET_STYLE),
            _COLUMN_GAP,
            (accepted.ljust(widths[2]), _DRAFT_STYLE),
            _COLUMN_GAP,
            (took.rjust(widths[3]), _QUIET_STYLE),
        )
        more = _cost(details, width - line.cell_length) if at == chosen else Content(_COLUMN_GAP) + _written(details)
        yield (line + more).truncate(width, ellipsis=True)


def _head(details: StepDetails, *, brief: bool) -> tuple[str, str, str, str]:
    drafted = len(details.drafted)
    sources = [s.label if len(s.label) <= _COLUMN_CELLS[1] else s.brief for s in dict.fromkeys(details.sources)]
    accepted = f"{'' if brief else 'accepted '}{details.n_accepted} of {drafted}" if drafted else ""
    source = sources[0] if len(sources) == 1 else "both" if sources else "no draft"
    return f"{details.number:,}", source, accepted, f"{details.total_ns / 1e6:.1f} ms"


def _cost(details: StepDetails, room: int) -> Content:
    n, plain_ns = len(details.written), details.plain_ns
    each = f", {details.total_ns / 1e6 / n:.1f} ms per token" if n > 1 else ""
    plain = f", without draft {plain_ns / 1e6:.1f} ms{'' if each else ' per token'}" if plain_ns is not None else ""
    return Content.styled(next((text for text in (each + plain, each) if len(text) <= room), ""), _QUIET_STYLE)


def _written(details: StepDetails) -> Content:
    return Content(" ").join(
        Content.styled(visible(piece), _drafted_style(details, depth) if depth < details.n_accepted else _TARGET_STYLE)
        for depth, piece in enumerate(details.written)
    )


# One step


def step_lines(details: StepDetails, width: int, *, brief: bool = False) -> Iterator[Content]:
    """Yield the drafted and the verified tokens of a step, and where the two models disagreed.

    `brief` leaves out the probabilities.
    """
    depths = max(len(details.drafted), len(details.written))
    columns = [_column(details, depth) for depth in range(depths)]
    widths = [max(cell.cell_length for cell in column) + 1 for column in columns]
    start, end = _visible_columns(widths, min(depths, details.n_accepted + 1), width - _LABEL_CELLS - 3)
    for line, label in enumerate(_ROW_LABELS):
        if (line < 2 and not details.drafted) or (brief and label in _PROBABILITY_LABELS):
            continue
        if label == _ROW_LABELS[-1] and not details.chosen:
            unseen = f"recorded only while {key('chat.tokens')} is open"
            yield Content.styled(label.ljust(_LABEL_CELLS) + unseen, _QUIET_STYLE).truncate(width, ellipsis=True)
            continue
        cells = [columns[depth][line] for depth in range(start, end)]
        padded = [cell.pad_right(room - cell.cell_length) for cell, room in zip(cells, widths[start:end], strict=True)]
        before, after = "… " if start else "", "…" if end < depths else ""
        yield Content.assemble((label.ljust(_LABEL_CELLS) + before, _QUIET_STYLE), *padded, (after, _QUIET_STYLE))
    yield _disagreement(details, width)


def _column(details: StepDetails, depth: int) -> tuple[Content, Content, Content, Content]:
    drafted = draft_p = target = target_p = Content("")
    accepted = _drafted_style(details, depth) if depth < details.n_accepted else ""
    if depth < len(details.drafted):
        drafted = _piece(details.drafted[depth], accepted or _QUIET_STYLE)
        draft_p = Content.styled(probability(details.confidences[depth]), _QUIET_STYLE)
    if depth < len(details.written):
        target = _piece(details.written[depth], accepted or _TARGET_STYLE)
        if details.chosen:
            target_p = Content.styled(probability(details.chosen[depth]), _QUIET_STYLE)
    return drafted, draft_p, target, target_p


def _visible_columns(widths: Sequence[int], end: int, room: int) -> tuple[int, int]:
    """Return the columns that fit, including the column before `end`, which decided the step."""
    start, used = 0, sum(widths[:end])
    while used > room and start < end - 1:
        used -= widths[start]
        start += 1
    while end < len(widths) and used + widths[end] <= room:
        used += widths[end]
        end += 1
    return start, end


def _disagreement(details: StepDetails, width: int) -> Content:
    at = details.n_accepted
    if at >= min(len(details.written), len(details.drafted)):
        return Content("")
    confidence = details.confidences[at]
    trust = "n-gram" if confidence is None else f"draft p {probability(confidence)}"
    doubt = f", target p {probability(details.declined)}" if details.declined is not None else ""
    choice = f" (p {probability(details.chosen[at])})" if details.chosen else ""
    line = Content.assemble(
        ("the target wrote ", _QUIET_STYLE),
        (visible(details.written[at]), _TARGET_STYLE),
        (f"{choice}; the draft said ", _QUIET_STYLE),
        (visible(details.drafted[at]), _DRAFT_STYLE),
        (f" ({trust}{doubt})", _QUIET_STYLE),
    )
    return line.truncate(width, ellipsis=True)


# The place of a step in the text

_N_ANCHOR_STEPS = 4
"""Number of first steps whose text is searched for if more text follows the last step."""
_MAX_GAP_CHARS = 64
"""Longest text between two steps, in characters: reasoning marks, which belong to no step."""


def step_spans(text: str, steps: Iterable[StepDetails]) -> Sequence[tuple[int, int]]:
    """Return the start and end of each step's text in an answer; an empty span if it is not found."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    pieces = [decode(b"".join(step.written)) for step in steps]
    whole = "".join(pieces)
    at = len(text) - len(whole) if text.endswith(whole) else text.find("".join(pieces[:_N_ANCHOR_STEPS]))
    spans: list[tuple[int, int]] = []
    at = max(0, at)
    for piece in pieces:
        start = text.find(piece, at, at + len(piece) + _MAX_GAP_CHARS)
        spans.append((start, start + len(piece)) if start >= 0 else (at, at))
        at = spans[-1][1]
    return spans
