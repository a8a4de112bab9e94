"""The line that says what is going on, and how fast, where the readout panel has no room."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widget import Widget

from app.ui.readouts.state import Readouts
from app.ui.text import percent, tokens

_MOST_BARS, _FEWEST_BARS = 8, 4
_GAP = "  "
_ALWAYS = 0

_WHOLE_NAMES = {"automatic": "automatic drafting", "model": "draft model"}
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
        parts, width = list(self._parts()), self.size.width
        # What can be spared goes first where the line is short.
        for spared in sorted({rank for rank, _ in parts}, reverse=True):
            line = Content(_GAP).join([part for _, part in parts])
            if line.cell_length <= width or spared == _ALWAYS:
                break
            parts = [(rank, part) for rank, part in parts if rank != spared]
        line = Content(_GAP).join([part for _, part in parts])
        # The bars behind the speed take what is left, so that nothing else has to go for them.
        bars = self._bars(min(_MOST_BARS, width - line.cell_length - 1))
        if bars:
            rest = [part for _, part in parts[1:]]
            line = Content(_GAP).join([Content.assemble(parts[0][1], " ", (bars, "$quiet")), *rest])
        return line.truncate(width, ellipsis=True)

    def _bars(self, room: int) -> str:
        shown = self._readouts
        return shown.recent.bars(room) if room >= _FEWEST_BARS and not shown.doing and shown.stats is not None else ""

    def _parts(self) -> Iterator[tuple[int, Content]]:
        """What there is to say; the larger its rank, the sooner it is spared."""
        shown = self._readouts
        if shown.doing:
            yield _ALWAYS, Content.styled(shown.doing, "$quiet")
        else:
            yield from self._numbers()
        if shown.drafting is not None and not shown.doing:
            source = shown.drafting.source
            yield 2, Content.styled("drafting off" if source == "off" else source, SOURCE_STYLES[source == "off"])
        elif shown.source_name:
            # A word alone says enough among the numbers of an answer only.
            name = shown.source_name
            name = _WHOLE_NAMES.get(name, name) if shown.doing else name
            yield 2, Content.styled(name, SOURCE_STYLES[not shown.is_drafting])
        if shown.n_ctx:
            yield 4, Content.styled(f"ctx {tokens(shown.used)}/{tokens(shown.n_ctx)}", "$quiet")

    def _numbers(self) -> Iterator[tuple[int, Content]]:
        numbers = self._readouts.numbers
        if numbers is None:
            return
        yield _ALWAYS, Content(f"{numbers.speed or 0.0:.1f} t/s")
        if numbers.speedup is not None:
            yield 1, Content(f"{numbers.ratio} {numbers.verdict}".rstrip())
        if numbers.acceptance is not None:
            yield 3, Content.styled(f"accepted {percent(numbers.acceptance)}", "$draft")
        if numbers.per_check is not None:
            yield 5, Content(f"{numbers.per_check:.1f} per check")
