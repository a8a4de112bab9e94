"""A pair as one line of a list, and what more there is to say about the chosen one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from app.core.errors import AppError, CacheError, HubError
from app.core.printable import printable
from app.models.recommend import Fit
from app.ui.key_names import key
from app.ui.models.section import before_start, without_hub
from app.ui.models.state import PairCard, SetupProgress, Stage
from app.ui.text import MARK, percent, side_by_side

ADD = ""
"""Stands for a pair's name in the line that adds one."""
LONGEST_NAME = 18
"""Cells that a name gets in its line; a longer one stands whole in the details."""
_GAP = 2
_SIZE = 8
_WIDE = 110
"""From this width on there is room for reasons."""
_STATE, _REASON = 9, 50
_MODELS, _FEWEST_MODELS, _FEWEST_NAME = 30, 8, 12
"""Cells that the models keep where reasons are long, with fewer of which they say nothing, and a name is no name."""
_WIDEST_DETAILS, _BESIDE_DETAILS = 120, 5
"""Cells of the details at most, and of what is beside their text, the scrollbar included."""
_TOGETHER = " + "


@dataclass(frozen=True, slots=True)
class Columns:
    """Cells for the name and for the models, the same in all lines.

    Attributes:
        name: For the longest name.
        models: For the longest models.
    """

    name: int = 0
    models: int = 0


class PairLine(Widget):
    """One pair in one line.

    Args:
        pair: Its name, or `ADD`.
    """

    chosen: reactive[bool] = reactive(False, toggle_class="-chosen")

    @dataclass
    class Clicked(Message):
        """The line was clicked."""

        pair: str

    def __init__(self, pair: str) -> None:
        super().__init__()
        self.pair = pair
        self._card: PairCard | None = None
        self._job: SetupProgress | None = None
        self._columns = Columns()

    def show(self, card: PairCard | None, job: SetupProgress | None, columns: Columns) -> None:
        """Say something else, if it is something else."""
        if (card, job, columns) != (self._card, self._job, self._columns):
            self._card, self._job, self._columns = card, job, columns
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self.pair))

    def render(self) -> Content:
        width = self.size.width
        mark = f" {MARK} " if self.chosen else "   "
        card = self._card
        if card is None:
            return Content.assemble(mark, ("Another repository …", "" if self.chosen else "$quiet"))
        name = _cell(Content.styled(printable(card.name), "bold" if self.chosen else ""), self._columns.name)
        size = f"{card.size:>{_SIZE}}"
        gap = " " * _GAP
        rest = width - len(mark) - self._columns.name - 3 * _GAP - _SIZE - 1
        room = max(_MODELS, rest - _REASON) if width >= _WIDE else max(0, rest - _STATE)
        columns: list[Content | str] = [mark, name, gap]
        if room >= _FEWEST_MODELS:
            models = min(self._columns.models, room)
            columns += [_cell(models_text(card, coloured=self.chosen, room=models), models), gap]
        if rest + _GAP >= 0:
            columns += [size, gap]
        state, comma, reason = state_text(card, self._job, full=width >= _WIDE).partition(",")
        line = Content.assemble(*columns, state, (comma + reason, "$quiet"))
        if card.fit is Fit.TOO_BIG and not self.chosen:
            line = line.stylize("$quiet")
        return line.truncate(width, ellipsis=True)


class PairDetails(Static):
    """What more there is to say about the chosen pair."""

    def show(self, card: PairCard | None, job: SetupProgress | None, question: str = "", ready: str = "") -> None:
        """Say it.

        Args:
            card: The chosen pair; None for the line that adds one.
            job: Its set-up, if one was asked for.
            question: What the next enter would agree to.
            ready: A pair that needs no hub, for one that cannot be had from there; "" if there is none.
        """
        width = self.app.size.width
        room, full = min(width, _WIDEST_DETAILS) - _BESIDE_DETAILS, width >= _WIDE
        lines = list(_details(card, job, question, room=room, full=full)) if card is not None else list(_ADDING)
        if card is not None and job is not None and _is_of_the_hub(job.error) and not card.here:
            lines.append(Content(printable(without_hub(ready))))
        self.update(Content("\n").join(lines))


def _is_of_the_hub(error: AppError | None) -> bool:
    """Whether another pair is to be had where this one is not: a full disk is none of the hub's doing."""
    return isinstance(error, HubError) and not isinstance(error, CacheError)


_ADDING = [Content.styled("Any two GGUF models of one family, from the hub or from this machine.", "$quiet")]


def models_text(card: PairCard, *, coloured: bool, room: int | None = None) -> Content:
    """Both models; in their two colours, or quiet.

    Args:
        card: The pair.
        coloured: Whether in colours.
        room: Cells there are; where both need more, the target's name is cut before its quantisation and the draft.
    """
    target, draft = printable(card.target), printable(card.draft)
    rest = Content.assemble((_TOGETHER, "$quiet"), (draft, "$draft" if coloured else "$quiet")) if draft else Content()
    name, space, quant = target.rpartition(" ")
    for_name = room - rest.cell_length - Content(space + quant).cell_length if room is not None else 0
    if for_name >= _FEWEST_NAME:
        target = Content(name).truncate(for_name, ellipsis=True).plain + space + quant
    return Content.styled(target, "$target" if coloured else "$quiet") + rest


def state_text(card: PairCard, job: SetupProgress | None, *, full: bool) -> str:
    """How it stands with a pair, in a word or, where there is room, with the reason."""
    if job is not None and job.stage is not Stage.READY and not card.set_up:
        if job.stage is Stage.DOWNLOADING:
            return percent(job.share) if job.downloads else "checking"
        if job.stage is Stage.STOPPED and job.downloads:
            return f"stopped, {percent(job.share)}" if full else "stopped"
        return str(job.stage.value)
    if card.here or card.is_open:
        words = [word for word, is_so in (("open", card.is_open), ("default", card.is_default)) if is_so] or ["here"]
        words += [card.word] if card.word not in ("", Fit.FITS.value) else []
        return ", ".join(words) if full else words[0]
    return printable(f"{card.word}, {card.reason}" if full and card.reason else card.word)


def default_text(cards: Sequence[PairCard], name: str) -> str:
    """Which pair Tandem opens with, now that this one is set up, as a sentence."""
    default = next((card.name for card in cards if card.is_default), None)
    if default is None:
        return ""
    if default == name:
        return printable(f"Tandem opens with {name} from now on.")
    pairs, make = key("chat.pairs", "f6"), key("pairs.default", "ctrl+d")
    return printable(f"Tandem still opens with {default}; {pairs}, then {make} on {name} changes that.")


def _details(card: PairCard, job: SetupProgress | None, question: str, *, room: int, full: bool) -> Iterator[Content]:
    name = Content(printable(card.name))
    if name.cell_length > LONGEST_NAME:
        yield name
    if card.title != card.name:
        yield Content(printable(card.title))
    # What is asked stands out from what speaks for it.
    asked = question or (job is not None and job.stage is Stage.ASKING)
    if question:
        yield Content.styled(printable(question), "bold")
    elif card.is_open:
        enter = key("pairs.choose", "enter")
        without = f" without its draft, which failed; {enter} loads both anew." if card.lacks_draft else "."
        yield Content(f"The chat has this pair{without}")
    elif not card.set_up:
        yield from before_start(card, job)
    if job is not None:
        yield from _news(card, job)
    elif card.why and not card.set_up:
        yield Content.styled(printable(card.why), "$quiet" if asked else "")
    if card.gain:
        yield Content.styled(printable(card.gain), "$quiet" if asked else "")
    fit = f"{card.word}: {card.reason}" if card.word else ""
    if (full and not card.here and len(fit) <= _REASON) or (card.reason and card.reason in question):
        fit = ""  # the line above says it already
    use = f"good at {card.good_at}" if card.good_at else ""
    licence = f"licence {card.licence}" if card.licence else ""
    for fact in (fit, side_by_side(filter(None, (use, licence)), room, "  ·  "), card.tested_with):
        if fact:
            yield Content.styled(printable(fact), "$quiet")


def _news(card: PairCard, job: SetupProgress) -> Iterator[Content]:
    """What came of a set-up."""
    enter = key("pairs.choose", "enter")
    if job.error is not None:
        yield Content(printable(job.error.message))
        if job.error.hint:
            yield Content.styled(printable(job.error.hint), "$quiet")
    if job.looking:
        yield Content.styled(printable(job.looking), "$quiet")
    if job.stage is Stage.STOPPED:
        yield Content(f"Stopped. What was downloaded is kept; {enter} goes on.")
    if job.stage is Stage.READY and not card.is_open:
        yield Content(f"Set up; {enter} opens it.")
        makes = f"{key('pairs.default', 'ctrl+d')} makes it the one that Tandem opens with."
        default = "Tandem opens with it." if card.is_default else makes
        yield Content.styled(default, "$quiet")
    for warning in job.warnings:
        yield Content.styled(printable(warning), "$quiet")


def _cell(content: Content, width: int) -> Content:
    return content.truncate(width, ellipsis=True).pad_right(max(0, width - content.cell_length))
