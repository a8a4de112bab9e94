"""The side panel, and the status line above the prompt, which replaces it in narrow windows.

An example of the line: `107 tok/s   78% accepted   speedup 3.1×      draft model   2.1k of 32k`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from textual.content import Content
from textual.reactive import reactive

from app.conversations.tree import Node
from app.core.printable import printable
from app.core.units import gigabytes, memory_size
from app.engine.drafting_report import BRIEF, NO_DRAFT, NO_SPEEDUP, PAUSED, acceptance, drafting_now, rate_number
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.models.pair_info import PairInfo
from app.settings.placement import CPU
from app.ui.actions import BY_ID
from app.ui.key_names import key
from app.ui.sidebar.readouts import Readouts, ReadoutView
from app.ui.text import NONE, cell, cut, tokens

Lines = Iterator[tuple[bool, Content]]
"""Lines that belong together, and whether each is shown without details."""
_LABEL_CELLS = 12
_VALUE_CELLS = 6
"""Width of a value before its unit or gauge."""
_ACTIVITY_LINES = 4
"""Lines for an activity below everything else."""
_LAST_ANSWER = "last answer"
_COLUMN_GAP = "   "
_SPEED_CELLS, _BARS_CELLS, _ACCEPTED_CELLS, _SPEEDUP_CELLS = 10, 8, 17, 23
"""Widths of the numbers. Each keeps its place, whatever the others show."""
_MIN_BARS_COLUMNS = 110
"""Width of the window from which the line shows bars."""
_MODE_NAMES = {"automatic": "drafting automatic", "fixed": "drafting fixed", "off": "drafting off"}
_UNDRAFTED_SOURCES = (NO_DRAFT, f"drafting {PAUSED}")
_MIN_CONTEXT_COLUMNS, _FULL_CONTEXT_SHARE = 90, 0.5
"""Width from which the line shows the context, and the used share from which it does so in any window."""


class ReadoutPanel(ReadoutView):
    """The most important numbers of an answer, or all of them if `detailed`; each row keeps its place."""

    detailed: reactive[bool] = reactive(False)
    pair: reactive[PairInfo | None] = reactive(None)

    def __init__(self, readouts: Readouts) -> None:
        super().__init__(readouts)
        self._earlier: Node | None = None
        self._is_last = False

    def show_earlier(self, answer: Node, *, is_last: bool) -> None:
        """Show the stored numbers of an answer until there are new numbers or the panel is clicked."""
        self._earlier, self._is_last = answer, is_last
        self.show()

    def on_click(self) -> None:
        self._earlier = None
        self.show()

    def watch_detailed(self) -> None:
        self.show()

    def watch_pair(self) -> None:
        self.show()

    def readouts_changed(self) -> None:
        if self._readouts.doing or self._readouts.live:
            self._earlier = None
        super().readouts_changed()

    def lines(self, width: int, height: int) -> Sequence[Content]:
        if self._earlier is not None:
            groups = stored_groups(self._earlier, width, is_last=self._is_last)
        else:
            groups = live_groups(self._readouts, self.pair, width, detailed=self.detailed)
        return fitting_lines(groups, width, height)


def live_groups(shown: Readouts, pair: PairInfo | None, width: int, *, detailed: bool) -> Iterator[list[Content]]:
    """Yield the readouts of the running or last answer, always in the same rows: a dash stands for no value."""
    is_last = shown.unmeasured and shown.stats is not None
    yield _drafting(shown, detailed=detailed)
    yield from _answer(
        _LAST_ANSWER if is_last else "this answer", shown.numbers or GenerationStats(), shown, width, detailed=detailed
    )
    if not detailed:
        yield [Content.styled(f"{key('chat.panel')} more, {BY_ID['app.explain'].usage}", "$quiet")]
    elif pair is not None:
        yield list(_models(pair))
    # The last row, so that nothing moves when it appears.
    if shown.doing:
        gauge = [_gauge(shown.share, width, "$quiet")] if shown.share is not None else []
        yield [Content.styled(shown.doing, "$quiet"), *gauge]


def stored_groups(answer: Node, width: int, *, is_last: bool) -> Iterator[list[Content]]:
    """Yield the stored numbers of an earlier answer and its models."""
    numbers, shown = answer.numbers, Readouts()
    shown.used = numbers.context_n
    yield from _answer(_LAST_ANSWER if is_last else "earlier answer", numbers, shown, width, detailed=True)
    if numbers == GenerationStats():
        yield [Content("No numbers were stored.")]
    models = ((answer.stats.get(role), f"${role}") for role in ("target", "draft"))
    yield [Content.styled(printable(name), style) for name, style in models if isinstance(name, str) and name]


def _drafting(shown: Readouts, *, detailed: bool) -> list[Content]:
    """Return the drafting of answers, the latest step of a running answer, and the reason or an empty line."""
    draft, status = shown.next_draft, shown.drafting if shown.live else None
    source, why = drafting_now(status) if status is not None else (f"{NONE:>{_VALUE_CELLS}}", "")
    is_drafting = status is not None and status.source != "off"
    lines = [
        _row(
            "drafting", Content.styled(draft.mode or f"{NONE:>{_VALUE_CELLS}}", "$draft" if draft.is_on else "$quiet")
        ),
        _row("now", Content.styled(source, "$draft" if is_drafting else "$quiet")),
        cut(Content.styled(printable(why), "$quiet"), BRIEF),
    ]
    return [*lines, _row("n_max", Content(f"{draft.n_max:>{_VALUE_CELLS}}"))] if draft.n_max and detailed else lines


def _answer(
    whose: str, numbers: GenerationStats, shown: Readouts, width: int, *, detailed: bool
) -> Iterator[list[Content]]:
    """Yield the groups of an answer, or one of its most important rows; a stored answer has empty readouts."""
    groups = [
        [(True, Content.styled(whose, "$quiet")), *_speed(numbers, shown, width)],
        list(_drafts(numbers, shown, width)),
        list(_context(shown, width)),
        list(_prompt(numbers if not shown.unmeasured else GenerationStats())),
    ]
    if detailed:
        yield from ([line for _, line in group] for group in groups)
    else:
        yield [line for group in groups for is_brief, line in group if is_brief]


def _speed(numbers: GenerationStats, shown: Readouts, width: int) -> Lines:
    value = _rate(numbers.tokens_per_second)
    bars = shown.recent.bars(width - _LABEL_CELLS - value.cell_length - 1)
    yield True, _row("speed", Content.assemble(value, f" {bars}" if bars else ""))
    yield False, _row("recent", _rate(shown.recent.speed if shown.live else None))
    yield False, _row("tokens", _number(f"{numbers.predicted_n:,}" if numbers.predicted_n else None))
    yield False, _row("no draft", _rate(numbers.undrafted_speed, "$target"))
    gain = numbers.speedup
    text = None if gain is None else str(gain).replace(NO_SPEEDUP, "none")
    is_measured = gain is not None and gain.measured
    yield True, _row("speedup", _number(text, style="bold" if is_measured else "$quiet"))


def _drafts(numbers: GenerationStats, shown: Readouts, width: int) -> Lines:
    share = numbers.acceptance
    text = acceptance(numbers.draft_n_accepted, numbers.draft_n) if share is not None else NONE
    yield True, _share_row("acceptance", text, share, width)
    recent = shown.recent.acceptance if shown.live else None
    yield False, _share_row("recent", f"{recent:.0%}" if recent is not None else NONE, recent, width)
    yield True, _row("tokens/step", _number(_decimal(numbers.per_step)))
    yield False, _row("draft length", _number(_decimal(numbers.draft_length), "tokens", "$draft"))
    share, sources = numbers.model_share, [f"{NONE:>{_VALUE_CELLS}}", ""]
    if share is not None:
        sources = [numbers.drafted_by or "", ""]
        if 0 < share < 1:
            sources = [f"{_partial(share)} {numbers.source.label}", f"{_partial(1 - share)} {Source.NGRAM.label}"]
    for label, text in zip(("drafted by", ""), sources, strict=True):
        yield bool(label), _row(label, Content.styled(text, "$draft" if share is not None else "$quiet"))


def _context(shown: Readouts, width: int) -> Lines:
    most = f"/ {tokens(shown.n_ctx)}" if shown.n_ctx else ""
    share = (shown.used or 0) / shown.n_ctx if shown.n_ctx else 0
    yield True, _row("context", _number(shown.used_tokens, most))
    yield False, _row("", _gauge(share, width - _LABEL_CELLS, "$quiet"))


def _prompt(numbers: GenerationStats) -> Lines:
    first_s, speed = numbers.first_token_ms / 1e3, numbers.reading_per_second
    text = f"{first_s:.{2 if first_s < 10 else 1}f}" if first_s else None
    yield True, _row("first token", _number(text, "s"))
    yield False, _row("prefill", _number(f"{speed:,.0f}" if speed else None, "tok/s"))


def _models(pair: PairInfo) -> Iterator[Content]:
    for label, model, style in (("target", pair.target, "$target"), ("draft", pair.draft, "$draft")):
        if model is not None:
            size = f"{gigabytes(model.size_bytes):>{_VALUE_CELLS + 3}} {printable(model.quantization)}"
            yield _row(label, Content.styled(size, style))
    yield _row("device", Content.styled(printable(pair.device), "$quiet"))
    for at, taken in enumerate(pair.memory):
        where = "RAM" if taken.device == CPU else printable(taken.device)
        text = f"{memory_size(taken.n_bytes):>{_VALUE_CELLS + 3}} {where}"
        yield _row("" if at else "memory", Content.styled(text, "$quiet"))


def _rate(speed: float | None, style: str = "") -> Content:
    return _number(rate_number(speed) if speed is not None else None, "tok/s", style)


def _number(text: str | None, unit: str = "", style: str = "") -> Content:
    """Return a number with its unit, or a dash for no number."""
    shown = f"{NONE:>{_VALUE_CELLS}}" if text is None else f"{text:>{_VALUE_CELLS}} {unit}".rstrip()
    return Content.styled(shown, style)


def _decimal(number: float | None) -> str | None:
    return f"{number:.1f}" if number is not None else None


def _partial(share: float) -> str:
    """Return a share as a percentage that is 0% or 100% only if the share is 0 or 1."""
    text = f"{share:.0%}"
    return {"0%": "<1%", "100%": ">99%"}.get(text, text) if 0 < share < 1 else text


def _share_row(label: str, text: str, share: float | None, width: int) -> Content:
    text = f"{text:>{_VALUE_CELLS}} "
    return _row(
        label, Content.assemble((text, "$draft"), _gauge(share or 0, width - _LABEL_CELLS - len(text), "$draft"))
    )


def _gauge(share: float, width: int, style: str) -> Content:
    filled = max(0, min(width, max(round(share * width), int(share > 0))))
    return Content.assemble(("━" * filled, style), ("━" * (width - filled), "$rule"))


def _row(label: str, value: Content) -> Content:
    return Content.assemble((f"{label:{_LABEL_CELLS}}", "$quiet"), value)


def _wrapped(line: Content, width: int) -> list[Content]:
    return [line] if line.cell_length <= width else line.wrap(width)


def fitting_lines(groups: Iterable[list[Content]], width: int, height: int) -> list[Content]:
    """Return the lines of the groups that fit, with a blank line between groups if there is always room."""
    wrapped = [[part for line in group for part in _wrapped(line, width)] for group in groups if group]
    gap = [Content("")] if sum(len(group) + 1 for group in wrapped) + _ACTIVITY_LINES <= height + 1 else []
    lines: list[Content] = []
    for group in wrapped:
        more = [*(gap if lines else []), *group]
        if len(lines) + len(more) <= height:
            lines += more
    return lines


class StatusLine(ReadoutView):
    """Shows numbers on the left and drafts and context on the right, as many as fit, most important first."""

    def lines(self, width: int, height: int) -> Sequence[Content]:
        shown = self._readouts
        numbers = shown.numbers if not shown.doing else None
        if numbers is None:
            left = Content.styled(shown.doing or "", "$quiet").truncate(width, ellipsis=True)
        else:
            left = Content(_COLUMN_GAP).join(self._numbers(numbers, width))
        parts = list(self._right(numbers, width))
        while parts and left.cell_length + sum(len(_COLUMN_GAP) + part.cell_length for part in parts) > width:
            parts.pop(0)
        right = Content(_COLUMN_GAP).join(parts)
        return [left + " " * (width - left.cell_length - right.cell_length) + right]

    def _numbers(self, numbers: GenerationStats, width: int) -> Iterator[Content]:
        speed, gain = numbers.tokens_per_second, numbers.speedup
        columns = [
            (_SPEED_CELLS, Content(f"{NONE if speed is None else rate_number(speed)} tok/s")),
            (
                _ACCEPTED_CELLS,
                Content.styled(numbers.accepted or f"{NONE} accepted", "$draft" if numbers.accepted else "$quiet"),
            ),
            (
                _SPEEDUP_CELLS,
                Content(f"speedup {NONE}" if gain is None else gain.labeled),
            ),
        ]
        if width >= _MIN_BARS_COLUMNS:
            columns.insert(1, (_BARS_CELLS, Content.styled(self._readouts.recent.bars(_BARS_CELLS), "$quiet")))
        for cells, column in columns:
            if cells > width:
                break
            yield cell(column, cells) if column is not columns[-1][1] else column
            width -= cells + len(_COLUMN_GAP)

    def _right(self, numbers: GenerationStats | None, width: int) -> Iterator[Content]:
        """Yield the parts at the right end, most important last."""
        shown, source = self._readouts, self._source()
        if shown.tools:
            yield Content.styled(shown.tools, "$quiet")
        if source:
            drafts = source not in _UNDRAFTED_SOURCES and (numbers is not None or shown.next_draft.is_on)
            yield Content.styled(source, "$draft" if drafts else "$quiet")
        if shown.n_ctx and (width >= _MIN_CONTEXT_COLUMNS or (shown.used or 0) >= _FULL_CONTEXT_SHARE * shown.n_ctx):
            yield Content.styled(f"context {shown.used_tokens} of {tokens(shown.n_ctx)}", "$quiet")

    def _source(self) -> str:
        """Return the draft source of the step or of the finished answer, or the drafting of the next answer."""
        shown = self._readouts
        if shown.doing or shown.drafting is None:
            return _MODE_NAMES.get(shown.next_draft.mode, shown.next_draft.mode)
        if shown.live:
            source, _ = drafting_now(shown.drafting)
            return f"drafting {PAUSED}" if source == PAUSED else source
        numbers = shown.numbers
        return (numbers.drafted_by if numbers is not None else None) or NO_DRAFT
