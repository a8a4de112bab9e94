"""The list of pairs in sections, with details of the chosen one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from textual import events, on
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from app.core.errors import CacheError, HubError
from app.core.printable import printable
from app.core.units import gigabytes
from app.models.pair_size import NO_FILE
from app.models.recommend import Fit
from app.ui.key_names import key
from app.ui.models.state import PairCard, PairsState, SetupProgress, Stage
from app.ui.text import MARK, percent, side_by_side

ADD = ""
"""Stands for a pair's name in the line that adds one."""
RECOMMENDED, LOCAL, REMOTE, DEMO = (
    "★ Recommended for this machine",
    "On this machine",
    "To download",
    "Try offline (tiny)",
)
_CHECKING = "Checking what this machine can run …"
_NAME, _FEWEST_NAME = 18, 12
"""Cells of a pair's name, and of the target's name when models are shortened."""
_SIZE, _STATUS, _FIT, _SPEED = 8, 11, 8, 15
_FEWEST_MODELS = 8
_MEDIUM, _WIDE = 56, 110
"""Widths from which on status and fit have a column each, and the expected speed is shown."""
_DETAILS_WIDTH, _DETAILS_MARGIN = 120, 5
_SHOWS_TITLE = 9
"""Rows from which on the title of the first section is shown with its first pair."""
_GAP = "  "
_SPACER = "  ·  "


class PairLine(Widget):
    """One pair in one line; `ADD` as its name adds another."""

    chosen: reactive[bool] = reactive(False, toggle_class="-chosen")

    @dataclass
    class Clicked(Message):
        pair: str

    def __init__(self, pair: str) -> None:
        super().__init__()
        self.pair = pair
        self._shown: tuple[PairCard | None, SetupProgress | None, int] = (None, None, 0)

    def show(self, card: PairCard | None, job: SetupProgress | None, name_width: int) -> None:
        if (card, job, name_width) != self._shown:
            self._shown = card, job, name_width
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self.pair))

    def render(self) -> Content:
        width = self.size.width
        mark = f" {MARK} " if self.chosen else "   "
        card, job, name_width = self._shown
        if card is None:
            return Content.assemble(mark, ("Add another pair …", "" if self.chosen else "$quiet"))
        name = _cell(Content.styled(printable(card.name), "bold" if self.chosen else ""), name_width)
        columns: list[Content | str] = [mark, name]
        speed = _SPEED + len(_GAP) if width >= _WIDE else 0
        room = width - len(mark) - name_width - _SIZE - _STATUS - _FIT - 4 * len(_GAP) - speed - 1
        if room >= _FEWEST_MODELS:
            columns += [_GAP, _cell(models_text(card, colored=self.chosen, room=room), room)]
        columns += [_GAP, f"{card.size:>{_SIZE}}", _GAP]
        status = status_text(card, job)
        if width >= _MEDIUM:
            columns += [_cell(Content(status), _STATUS), _GAP, _cell(Content(card.word), _FIT)]
        else:
            columns.append(status or card.word)
        if speed:
            columns += [_GAP, Content.styled(printable(card.speed), "$quiet")]
        line = Content.assemble(*columns)
        if card.fit is Fit.TOO_BIG and not self.chosen:
            line = line.stylize("$quiet")
        return line.truncate(width, ellipsis=True)


class PairList(VerticalScroll, can_focus=False):
    """A line per pair; the chosen one has its details below. The last line adds a pair."""

    class Changed(Message):
        """Another pair was chosen."""

    class Taken(Message):
        """The chosen line was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._state = PairsState()
        self._cards: dict[str, PairCard] = {}
        self._lines: dict[str, PairLine] = {}
        self._sections: dict[str, list[str]] = {}
        self._titles: dict[str, Static] = {}
        self._question = ""
        self._details = Static(classes="details")
        self._words: list[str] = []
        self._chosen: str | None = None
        self._moved = False
        """Whether the user chose a pair."""
        self._scrolled_to = 0.0

    @property
    def card(self) -> PairCard | None:
        """The chosen pair; None for the line that adds one."""
        return self._cards.get(self._chosen or ADD)

    @property
    def adds(self) -> bool:
        """Return whether the line that adds a pair is chosen."""
        return self._chosen == ADD

    async def show(self, state: PairsState) -> None:
        """Show the pairs; those to download only once the machine is known."""
        before, self._state = self._state, state
        if state.cards is not before.cards or bool(state.machine) != bool(before.machine):
            self._cards = {card.name: card for card in state.cards if state.machine or card.is_local or card.is_demo}
            await self._arrange(keep=bool(before.machine))
        self._draw()

    def ask(self, question: str) -> None:
        """Show a question about the chosen pair until another is chosen; "" shows none."""
        self._question = question
        self._draw()
        self.call_after_refresh(self._scroll_to_chosen)

    async def choose(self, name: str) -> None:
        self._moved = True
        self._choose(name)

    def filter(self, text: str) -> None:
        """Show only the pairs that contain every word."""
        self._words = text.lower().split()
        self._apply_filter()
        if self._chosen not in self._visible or self.adds:
            self._moved = False
            self._choose(next(iter(self._visible), ADD))
        else:
            self.call_after_refresh(self._scroll_to_chosen)

    def move(self, by: int) -> None:
        """Choose the pair `by` lines below."""
        if visible := self._visible:
            at = visible.index(self._chosen) if self._chosen in visible else 0
            self._moved = True
            self._choose(visible[max(0, min(len(visible) - 1, at + by))])

    def on_resize(self) -> None:
        self._draw()

    def on_mount(self) -> None:
        # Longer details push the chosen line out of view.
        self.watch(self, "virtual_size", self._after_growth, init=False)

    def _after_growth(self) -> None:
        self.call_after_refresh(self._scroll_back)

    def _scroll_back(self) -> None:
        if self.scroll_y == min(self._scrolled_to, self.max_scroll_y):
            self._scroll_to_chosen()

    @on(PairLine.Clicked)
    def _click(self, event: PairLine.Clicked) -> None:
        event.stop()
        if event.pair == self._chosen:
            self.post_message(self.Taken())
        else:
            self._moved = True
            self._choose(event.pair)

    @property
    def _visible(self) -> list[str]:
        return [name for name, line in self._lines.items() if line.display]

    async def _arrange(self, *, keep: bool) -> None:
        """Rebuild the lines if pairs or their sections changed; `keep` the chosen pair."""
        sections = _in_sections(self._cards.values())
        if not self._state.machine:
            sections = {title: sections.get(title, []) for title in (LOCAL, REMOTE, DEMO)}
        if sections != self._sections or not self._lines:
            await self.remove_children()
            self._sections = sections
            self._titles = {title: Static(title, classes="section") for title in sections}
            self._lines = {name: PairLine(name) for names in sections.values() for name in names}
            self._lines[ADD] = PairLine(ADD)
            self._details = Static(classes="details")
            children: list[Widget] = []
            for title, names in sections.items():
                children += [self._titles[title], *(self._lines[name] for name in names)]
            await self.mount(*children, self._lines[ADD], self._details)
        if not self._state.machine:
            self._titles[REMOTE].update(_CHECKING)
        self._apply_filter()
        visible = self._visible
        if not visible:
            return
        stays = (self._moved or (keep and not self.adds)) and self._chosen in visible
        first = next((name for name in visible if name != ADD and self._cards[name].is_open), visible[0])
        self._choose(self._chosen if stays else first)

    def _apply_filter(self) -> None:
        for name, line in self._lines.items():
            line.display = name == ADD or _matches(self._cards[name], self._words)
        for title, names in self._sections.items():
            pending = title == REMOTE and not self._state.machine
            self._titles[title].display = pending or any(self._lines[name].display for name in names)

    def _choose(self, name: str | None) -> None:
        if name != self._chosen:
            self._question = ""
        self._chosen = name
        for known, line in self._lines.items():
            line.chosen = known == name
        if name is not None and name in self._lines:
            self.move_child(self._details, after=self._lines[name])
        self._draw()
        self.post_message(self.Changed())
        self.call_after_refresh(self._scroll_to_chosen)

    def _scroll_to_chosen(self) -> None:
        if self._chosen is not None and self._chosen in self._lines:
            self.scroll_to_widget(self._details, animate=False, immediate=True)
            self.scroll_to_widget(self._lines[self._chosen], animate=False, immediate=True)
            # The title of the first section stays visible.
            if self.size.height >= _SHOWS_TITLE and self._chosen == next(iter(self._visible), None):
                self.scroll_home(animate=False, immediate=True)
            self._scrolled_to = self.scroll_y

    def _draw(self) -> None:
        cards, jobs = self._state.cards, self._state.jobs
        # Hidden pairs count too, so that no column moves when they appear.
        name_width = min(_NAME, max((Content(printable(card.name)).cell_length for card in cards), default=0))
        for name, line in self._lines.items():
            line.show(self._cards.get(name), jobs.get(name), name_width)
        if self._details.is_attached:
            ready = next((card.name for card in cards if card.is_local), "")
            width = min(self.app.size.width, _DETAILS_WIDTH) - _DETAILS_MARGIN
            lines = list(details(self.card, jobs.get(self._chosen or ADD), self._question, ready, width))
            self._details.update(Content("\n").join(lines))


def _in_sections(cards: Iterable[PairCard]) -> dict[str, list[str]]:
    """Return names of pairs by the title of their section; the demo comes last."""
    sections: dict[str, list[str]] = {RECOMMENDED: [], LOCAL: [], REMOTE: [], DEMO: []}
    for card in cards:
        if card.is_demo:
            title = DEMO
        elif card.is_recommended and not card.is_open:
            title = RECOMMENDED
        else:
            title = LOCAL if card.is_local else REMOTE
        sections[title].append(card.name)
    return {title: names for title, names in sections.items() if names}


def models_text(card: PairCard, *, colored: bool, room: int | None = None) -> Content:
    """Return both models in at most `room` cells; the target's name is shortened first."""
    target, draft = printable(card.target), printable(card.draft)
    rest = Content.assemble((" + ", "$quiet"), (draft, "$draft" if colored else "$quiet")) if draft else Content()
    name, space, quant = target.rpartition(" ")
    for_name = room - rest.cell_length - Content(space + quant).cell_length if room is not None else 0
    if for_name >= _FEWEST_NAME:
        target = Content(name).truncate(for_name, ellipsis=True).plain + space + quant
    return Content.styled(target, "$target" if colored else "$quiet") + rest


def status_text(card: PairCard, job: SetupProgress | None) -> str:
    """Return what is on this machine of a pair, or how far its setup is, in a word or two."""
    if job is not None and job.stage is not Stage.READY and not card.set_up:
        if job.stage is Stage.DOWNLOADING:
            return percent(job.share) if job.downloads else "checking"
        if job.stage is Stage.STOPPED and job.downloads:
            return f"stopped {percent(job.share)}"
        return str(job.stage.value)
    if card.is_open:
        return "loaded"
    if card.is_default:
        return "default"
    return "ready" if card.set_up else "downloaded" if card.here else ""


def question(card: PairCard, job: SetupProgress | None) -> str:
    """Return what to ask before a pair is set up; "" if nothing, or if it was asked."""
    if card.here or job is not None:
        return ""
    if card.fit is Fit.TOO_BIG:
        does = f"download {gigabytes(card.to_come)}" if card.to_come else "set it up"
        return f"Does not fit: {card.reason}. {_enter()} again to {does} anyway"
    return f"Download {gigabytes(card.to_come)}? {_enter()} yes, {_escape()} no" if card.to_come else ""


def details(card: PairCard | None, job: SetupProgress | None, asked: str, ready: str, width: int) -> Iterator[Content]:
    """Yield details of the chosen pair.

    Args:
        card: The pair; None for the line that adds one.
        job: Its setup.
        asked: The question to confirm.
        ready: A pair that needs no download; "" if there is none.
        width: Cells of a line.
    """
    if card is None:
        yield Content.styled("Any two compatible GGUF models, from Hugging Face or from disk.", "$quiet")
        return
    if len(card.name) > _NAME:
        yield Content(printable(card.name))
    if card.title != card.name:
        yield Content(printable(card.title))
    if asked:
        yield Content.styled(printable(asked), "bold")
    elif card.is_open:
        failed = f" Its draft failed to load; {_enter()} reloads both." if card.lacks_draft else ""
        yield Content(f"Currently loaded.{failed}")
    elif not card.set_up:
        yield from _before_setup(card, job)
    if job is not None:
        yield from _setup_result(card, job)
        offline = isinstance(job.error, HubError) and not isinstance(job.error, CacheError)
        if offline and not card.here:
            own = f"{key('pairs.add', 'ctrl+a')} adds local GGUF files."
            yield Content(printable(f"{ready} needs no download; {own}") if ready else own)
    for sentence in filter(None, ("" if job is not None or card.set_up else card.why, card.gain)):
        yield Content.styled(printable(sentence), "$quiet")
    in_question = card.reason and card.reason in asked
    facts = (
        f"{card.word}: {card.reason}" if card.word and not in_question else "",
        f"for {card.good_at}" if card.good_at else "",
        f"license {card.licence}" if card.licence else "",
    )
    for text in (side_by_side(filter(None, map(printable, facts)), width, _SPACER), printable(card.tested_with)):
        if text:
            yield Content.styled(text, "$quiet")


def default_text(cards: Sequence[PairCard], name: str) -> str:
    """Return which pair Tandem opens with after the setup of a pair."""
    default = next((card.name for card in cards if card.is_default), None)
    if default is None:
        return ""
    if default == name:
        return printable(f"Tandem now opens with {name}.")
    pairs, make = key("chat.pairs", "f6"), key("pairs.default", "ctrl+d")
    return printable(f"Tandem still opens with {default}; to change that, press {pairs}, then {make} on {name}.")


def _before_setup(card: PairCard, job: SetupProgress | None) -> Iterator[Content]:
    """Yield what enter would do with a pair that is not set up."""
    if job is not None and job.stage is Stage.ASKING:
        asks = f"Download {gigabytes(job.to_come)}? {_enter()} yes, {_escape()} no"
        yield Content.styled(asks, "bold")
        yield Content(f"{gigabytes(job.free)} free on disk{_already(job.came)}.")
    elif job is not None:
        return
    elif card.here:
        yield Content(f"Press {_enter()} to open it; nothing is downloaded.")
    elif card.size == NO_FILE:
        yield Content("A model file is missing. Restore it or choose another pair.")
    elif card.to_come:
        yield Content(f"Press {_enter()} to download {gigabytes(card.to_come)}{_already(card.came)}.")
    elif card.to_come is None:
        yield Content(f"Press {_enter()} to look up its size on Hugging Face.")


def _setup_result(card: PairCard, job: SetupProgress) -> Iterator[Content]:
    if job.error is not None:
        yield Content(printable(job.error.message))
        if job.error.hint:
            yield Content.styled(printable(job.error.hint), "$quiet")
    if job.looking:
        yield Content.styled(printable(job.looking), "$quiet")
    if job.stage is Stage.STOPPED:
        yield Content(f"Stopped. Press {_enter()} to resume.")
    if job.stage is Stage.READY and not card.is_open:
        yield Content(f"Ready. Press {_enter()} to open it.")
        makes = f"Press {key('pairs.default', 'ctrl+d')} to make it the default."
        yield Content.styled("Tandem opens with it." if card.is_default else makes, "$quiet")
    for warning in job.warnings:
        yield Content.styled(printable(warning), "$quiet")


def _matches(card: PairCard, words: Sequence[str]) -> bool:
    text = " ".join((card.name, card.title, card.target, card.draft, card.good_at, card.licence)).lower()
    return all(word in text for word in words)


def _already(came: int) -> str:
    return f", {gigabytes(came)} are here already" if came else ""


def _enter() -> str:
    return key("pairs.choose", "enter").capitalize()


def _escape() -> str:
    return key("pairs.leave", "esc").capitalize()


def _cell(content: Content, width: int) -> Content:
    return content.truncate(width, ellipsis=True).pad_right(max(0, width - content.cell_length))
