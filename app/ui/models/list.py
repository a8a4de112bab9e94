"""The pairs to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import on
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from app.core.printable import printable
from app.ui.models.card import ADD, LONGEST_NAME, Columns, PairDetails, PairLine, models_text
from app.ui.models.section import PairSection
from app.ui.models.state import PairCard, PairsState, SetupProgress


class PairList(VerticalScroll, can_focus=False):
    """A line a pair, what is here first; the chosen one has its details below it. The last line adds a pair."""

    class Changed(Message):
        """Another pair is the chosen one."""

    class Taken(Message):
        """The chosen line was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._cards: dict[str, PairCard] = {}
        self._seen: Sequence[PairCard] | None = None
        self._looking = False
        self._jobs: Mapping[str, SetupProgress] = {}
        self._lines: dict[str, PairLine] = {}
        self._sections: list[PairSection] = []
        self._question = ""
        self._details = PairDetails()
        self._words: list[str] = []
        self._chosen: str | None = None
        self._moved = False
        self._brought_to = 0.0
        """Where the list was scrolled to when the chosen line was brought into view."""

    @property
    def card(self) -> PairCard | None:
        """The chosen pair; None if it is the line that adds one, or there is none."""
        return self._cards.get(self._chosen or ADD)

    @property
    def adds(self) -> bool:
        """Whether the chosen line is the one that adds a pair."""
        return self._chosen == ADD

    async def show(self, state: PairsState) -> None:
        """Show these pairs and how it stands with them; the chosen one stays so.

        Which pairs are the best to download depends on the machine. Until that is known they are left out: a line that
        moves while somebody is about to press enter is worse than one that comes late.
        """
        self._jobs = state.jobs
        if state.cards is not self._seen or self._looking != (not state.machine):
            self._seen, self._looking = state.cards, not state.machine
            shown = [card for card in state.cards if is_here(card) or not self._looking]
            await self._arrange({card.name: card for card in sorted(shown, key=lambda card: not is_here(card))})
        self._draw()

    def ask(self, question: str) -> None:
        """Ask something about the chosen pair, until another one is chosen or nothing is asked any more."""
        self._question = question
        self._draw()
        self.call_after_refresh(self._bring_into_view)

    async def choose(self, name: str) -> None:
        """Make this pair the chosen one."""
        self._moved = True
        self._choose(name)

    def filter(self, text: str) -> None:
        """Show only the pairs in which every word occurs; the chosen one stays so where it is among them."""
        self._words = text.lower().split()
        for name, line in self._lines.items():
            line.display = self._matches(name)
        self._head()
        if self._chosen not in self._visible or self.adds:
            self._moved = False
            self._choose(next(iter(self._visible), ADD))
        else:
            self.call_after_refresh(self._bring_into_view)

    def move(self, by: int) -> None:
        """Choose the pair so many lines below."""
        visible = self._visible
        if visible:
            at = visible.index(self._chosen) if self._chosen in visible else 0
            self._moved = True
            self._choose(visible[max(0, min(len(visible) - 1, at + by))])

    def on_resize(self) -> None:
        self._draw()

    def on_mount(self) -> None:
        # Details that turn out to have more lines push away what they belong to.
        self.watch(self, "virtual_size", self._keep_in_view, init=False)

    def _keep_in_view(self) -> None:
        self.call_after_refresh(self._bring_back)

    def _bring_back(self) -> None:
        # Whoever has scrolled since is looking at something else.
        if self.scroll_y == min(self._brought_to, self.max_scroll_y):
            self._bring_into_view()

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

    def _matches(self, name: str) -> bool:
        if name == ADD:
            return True
        card = self._cards[name]
        text = " ".join((name, card.title, card.target, card.draft, card.good_at, card.licence)).lower()
        return all(word in text for word in self._words)

    async def _arrange(self, cards: dict[str, PairCard]) -> None:
        before, self._cards = self._cards, cards
        wanted = [*cards, ADD]
        if wanted != list(self._lines) or any(is_here(cards[name]) != is_here(one) for name, one in before.items()):
            await self.remove_children()
            self._lines = {name: PairLine(name) for name in wanted}
            self._sections = [PairSection(True), PairSection(False)]
            self._details = PairDetails()
            children: list[Widget] = list(self._lines.values())
            children.insert(sum(map(is_here, cards.values())), self._sections[1])
            await self.mount(self._sections[0], *children, self._details)
            for name, line in self._lines.items():
                line.display = self._matches(name)
            self._head()
        visible = self._visible
        if not visible:
            return  # the screen is going
        stays = self._stays(before) and self._chosen in visible
        self._choose(self._chosen if stays else next((name for name in visible if self._is_open(name)), visible[0]))

    def _is_open(self, name: str) -> bool:
        return name in self._cards and self._cards[name].is_open

    def _stays(self, before: Mapping[str, PairCard]) -> bool:
        """Whether the chosen line is still meant: taken by the user, or a pair that is as near as it was."""
        was, now = before.get(self._chosen or ADD), self.card
        return self._moved or (was is not None and now is not None and is_here(now) >= is_here(was))

    def _head(self) -> None:
        """Say what is below only where there is something."""
        here = [is_here(self._cards[name]) for name in self._visible if name != ADD]
        for section in self._sections:
            first = section.here or True not in here
            section.show(below=section.here in here, looking=self._looking, first=first)

    def _choose(self, name: str | None) -> None:
        if name != self._chosen:
            self._question = ""
        self._chosen = name
        for known, line in self._lines.items():
            line.chosen = known == name
        if name is not None:
            self.move_child(self._details, after=self._lines[name])
        self._draw()
        self.post_message(self.Changed())
        self.call_after_refresh(self._bring_into_view)

    def _bring_into_view(self) -> None:
        if self._chosen is not None and self._chosen in self._lines:
            self.scroll_to_widget(self._details, animate=False, immediate=True)
            self.scroll_to_widget(self._lines[self._chosen], animate=False, immediate=True)
            self._brought_to = self.scroll_y

    def _draw(self) -> None:
        # Of those too that are not shown yet, so that nothing moves to the right when they are.
        cards = self._seen or ()
        columns = Columns(
            name=min(LONGEST_NAME, max((Content(printable(card.name)).cell_length for card in cards), default=0)),
            models=max((models_text(card, coloured=False).cell_length for card in cards), default=0),
        )
        for name, line in self._lines.items():
            line.show(self._cards.get(name), self._jobs.get(name), columns)
        if self._details.is_attached:
            ready = next((card.name for card in cards if is_here(card)), "")
            self._details.show(self.card, self._jobs.get(self._chosen or ADD), self._question, ready)


def is_here(card: PairCard) -> bool:
    """Whether a pair can be chatted with without a download, or is."""
    return card.here or card.set_up or card.is_open
