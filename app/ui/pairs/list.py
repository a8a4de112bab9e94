"""The pairs to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import on
from textual.containers import VerticalScroll
from textual.message import Message

from app.ui.pairs.card import ADD, Columns, PairDetails, PairLine, models_text
from app.ui.pairs.setups import Card, Job, State

_LONGEST_NAME = 18


class PairList(VerticalScroll, can_focus=False):
    """A line a pair; the chosen one has its details below it. The last line adds a pair."""

    class Changed(Message):
        """Another pair is the chosen one."""

    class Taken(Message):
        """The chosen line was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._cards: dict[str, Card] = {}
        self._seen: Sequence[Card] | None = None
        self._jobs: Mapping[str, Job] = {}
        self._lines: dict[str, PairLine] = {}
        self._details = PairDetails()
        self._words: list[str] = []
        self._chosen: str | None = None
        self._moved = False

    @property
    def card(self) -> Card | None:
        """The chosen pair; None if it is the line that adds one, or there is none."""
        return self._cards.get(self._chosen or ADD)

    @property
    def adds(self) -> bool:
        """Whether the chosen line is the one that adds a pair."""
        return self._chosen == ADD

    async def show(self, state: State) -> None:
        """Show these pairs and how it stands with them; the chosen one stays so if it was chosen by the user."""
        self._jobs = state.jobs
        if state.cards is not self._seen:
            self._seen = state.cards
            await self._arrange({card.name: card for card in state.cards})
        self._draw()

    async def choose(self, name: str) -> None:
        """Make this pair the chosen one."""
        self._moved = True
        self._choose(name)

    def filter(self, text: str) -> None:
        """Show only the pairs in which every word occurs."""
        self._words = text.lower().split()
        for name, line in self._lines.items():
            line.display = self._matches(name)
        self._moved = bool(self._words)
        if self._chosen not in self._visible or not self._words:
            self._choose(next(iter(self._visible), ADD))

    def move(self, by: int) -> None:
        """Choose the pair so many lines below."""
        visible = self._visible
        if visible:
            at = visible.index(self._chosen) if self._chosen in visible else 0
            self._moved = True
            self._choose(visible[max(0, min(len(visible) - 1, at + by))])

    def on_resize(self) -> None:
        self._draw()

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

    async def _arrange(self, cards: dict[str, Card]) -> None:
        self._cards = cards
        wanted = [*cards, ADD]
        if wanted != list(self._lines):
            await self.remove_children()
            self._lines = {name: PairLine(name) for name in wanted}
            self._details = PairDetails()
            await self.mount(*self._lines.values(), self._details)
            for name, line in self._lines.items():
                line.display = self._matches(name)
        visible = self._visible
        if not visible:
            return  # the screen is going
        self._choose(self._chosen if self._moved and self._chosen in visible else visible[0])

    def _choose(self, name: str | None) -> None:
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

    def _draw(self) -> None:
        cards = self._cards.values()
        columns = Columns(
            name=min(_LONGEST_NAME, max((len(card.name) for card in cards), default=0)),
            models=max((models_text(card, coloured=False).cell_length for card in cards), default=0),
        )
        for name, line in self._lines.items():
            line.show(self._cards.get(name), self._jobs.get(name), columns)
        if self._details.is_attached:
            self._details.show(self.card, self._jobs.get(self._chosen or ADD))
