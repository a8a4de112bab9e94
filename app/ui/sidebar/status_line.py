"""The line that says what is going on, and how fast, where the readout panel has no room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.widget import Widget

from app.engine.drafting_report import NO_DRAFT, NO_DRAFT_USED, source_name
from app.engine.types import DraftingStatus
from app.ui.sidebar.numbers import Numbers
from app.ui.sidebar.state import Readouts
from app.ui.text import tokens

_MOST_BARS, _FEWEST_BARS = 8, 3
_GAP = " · "
_ALWAYS = 0
_WHOLE_NAMES = {"automatic": "automatic drafting", "model": "draft model"}
_UNDRAFTED = (NO_DRAFT, NO_DRAFT_USED)
SOURCE_STYLES = ("$draft", "$quiet")
"""While drafting, and while not."""


class StatusLine(Widget):
    """As many of the readouts as fit on one line, each of them whole.

    Args:
        readouts: What is shown.
    """

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts

    def on_mount(self) -> None:
        self._readouts.watch(self.refresh)

    def render(self) -> Content:
        width, has_bars = self.size.width, bool(self._bars(_FEWEST_BARS))
        # The bars behind the speed take what is left, so that nothing but how long the context is has to go for them.
        for brief in (False, True):
            parts = _spared(list(self._parts(brief=brief)), width)
            bars = self._bars(min(_MOST_BARS, width - Content(_GAP).join(parts).cell_length - 1))
            if bars or not has_bars:
                break
        if bars:
            parts[0] = Content.assemble(parts[0], " ", (bars, "$quiet"))
        return Content(_GAP).join(parts).truncate(width, ellipsis=True)

    def _bars(self, room: int) -> str:
        """Speeds as bars; they have all the room from the first one on."""
        shown = self._readouts
        if room < _FEWEST_BARS or shown.doing or shown.stats is None:
            return ""
        bars = shown.recent.bars(room)
        return f"{bars:<{room}}" if bars else ""

    def _parts(self, *, brief: bool) -> Iterator[tuple[int, Content]]:
        """What there is to say; the larger its rank, the sooner it is spared. Briefly, without the context's length."""
        shown = self._readouts
        if shown.doing:
            yield _ALWAYS, Content.styled(shown.doing, "$quiet")
        else:
            yield from self._numbers()
        if shown.drafting is not None and not shown.doing:
            name = _drafting_now(shown.drafting)
            # Of an answer that has ended it is not the last round that counts.
            name = name if shown.live else _drafters(shown.numbers)
            yield 2, Content.styled(name, SOURCE_STYLES[name in _UNDRAFTED])
        elif shown.source_name:
            # A word alone says enough among the numbers of an answer only.
            name = shown.source_name
            name = _WHOLE_NAMES.get(name, name) if shown.doing else name
            yield 2, Content.styled(name, SOURCE_STYLES[not shown.is_drafting])
        if shown.n_ctx:
            most = "" if brief else f"/{tokens(shown.n_ctx)}"
            yield 4, Content.styled(f"ctx {shown.used_tokens}{most}", "$quiet")

    def _numbers(self) -> Iterator[tuple[int, Content]]:
        numbers = self._readouts.numbers
        if numbers is None:
            return
        yield _ALWAYS, Content(numbers.pace)
        if numbers.speedup is not None:
            yield 1, Content(numbers.speedup.brief)
        if numbers.acceptance is not None:
            yield 3, Content.styled(numbers.accepted, "$draft")


def _drafting_now(status: DraftingStatus) -> str:
    return NO_DRAFT if status.source == "off" else source_name(status.source)


def _drafters(numbers: Numbers | None) -> str:
    """Return the draft sources of a finished answer."""
    return numbers.drafted_by if numbers is not None and numbers.drafted_by else NO_DRAFT_USED


def _spared(parts: Sequence[tuple[int, Content]], width: int) -> list[Content]:
    """The parts without those that can be spared first, as far as the line is too short for them."""
    for spared in sorted({rank for rank, _ in parts}, reverse=True):
        if Content(_GAP).join([part for _, part in parts]).cell_length <= width or spared == _ALWAYS:
            break
        parts = [(rank, part) for rank, part in parts if rank != spared]
    return [part for _, part in parts]
