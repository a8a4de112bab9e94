"""The conversation on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.getters import query_one
from textual.layout import DockArrangeResult
from textual.scrollbar import ScrollBar
from textual.widget import Widget
from textual.widgets import Static

from app.chat.tree import Node, Tree
from app.engine.text import printable
from app.errors import AppError
from app.ui.widgets.absent import AbsentAnswer, AbsentPrompt, absent
from app.ui.widgets.message import AnswerMessage, Problem, UserMessage
from app.ui.widgets.reasoning import Reasoning
from app.ui.widgets.speech import Speech
from app.ui.widgets.window import Entry, Window

_LEAST_AHEAD, _AHEAD, _KEPT = 1, 2, 4
"""Windowfuls above and below what is seen: with fewer mounted there are more to mount, how many are mounted then, and
how far away they stay."""


class MessageList(VerticalScroll, can_focus=False):
    """Everything said, newest at the bottom; stays there while the user does.

    Messages far from what is seen are not mounted. Whatever comes, goes or grows above it, the first entry in sight
    stays where it is on the screen.
    """

    said = query_one("#said", Window)

    def __init__(self) -> None:
        super().__init__()
        self._asked: Entry | None = None
        self._answer: Entry | None = None
        self._replaced: tuple[Entry, ...] = ()
        self._tree = Tree()
        self._shows_tokens = False
        self._left = False
        self._held: tuple[Entry, float] | None = None
        """The first entry in sight, and its top relative to what is seen."""
        self._changes = asyncio.Lock()
        self._renews = False

    def compose(self) -> ComposeResult:
        yield Window()

    def on_mount(self) -> None:
        self.anchor()

    @property
    def answer(self) -> AnswerMessage | None:
        """The answer that is being written, or was last."""
        widget = self._answer.widget if self._answer is not None else None
        return widget if isinstance(widget, AnswerMessage) else None

    # What is said

    async def ask(self, prompt: str) -> AnswerMessage:
        """Add a prompt and the place for its answer, and go there."""
        async with self._changes:
            self._asked, self._replaced = Entry(AbsentPrompt(prompt)), ()
            self.said.entries.append(self._asked)
            return await self._begin_answer()

    async def ask_again(self, prompt: UserMessage | None = None) -> None:
        """Make a place for another answer; `settle` decides whether it stays or what it takes the place of.

        Args:
            prompt: What is to be answered; None for the last prompt.
        """
        async with self._changes:
            self._asked = self._entry_of(prompt) or self._asked
            self._replaced = self._below(self._asked)
            for entry in self._replaced:
                self._hide(entry, True)
            await self._begin_answer()

    async def _begin_answer(self) -> AnswerMessage:
        self._answer = Entry(AbsentAnswer())
        self.said.entries.append(self._answer)
        self.anchor()
        await self._settle()
        assert self.answer is not None
        return self.answer

    async def go_on(self, answer: AnswerMessage) -> None:
        """More of an answer is to come; what stands below it and is no part of the conversation goes."""
        async with self._changes:
            entries, self._answer, self._replaced = self.said.entries, self._entry_of(answer), ()
            assert self._answer is not None
            prompts = [entry for entry in entries[: entries.index(self._answer)] if _is_prompt(entry)]
            self._asked = prompts[-1] if prompts else None
            await self._remove(self._below(self._answer))
            await answer.go_on()
            self.anchor()
            await self._settle()

    async def settle(self, *, counts: bool) -> bool:
        """The answer has ended.

        Args:
            counts: Whether it is one; if not, the answer that it was to replace is shown again.

        Returns:
            Whether an earlier answer is shown again.
        """
        async with self._changes:
            replaced, self._replaced = self._replaced, ()
            if counts:
                await self._remove(replaced)
            else:
                for entry in replaced:
                    self._hide(entry, False)
                await self._settle()
            return bool(replaced) and not counts

    async def take_back(self) -> None:
        """Remove the last prompt and the place for its answer."""
        async with self._changes:
            await self._remove([entry for entry in (self._asked, self._answer) if entry is not None])
            await self._settle_last()

    async def notice(self, text: str) -> None:
        """Say something that belongs to no answer."""
        async with self._changes:
            widget = Static(printable(text), classes="notice", markup=False)
            await self.said.add(Entry(widget=widget), before=self._answer)

    async def tell(self, text: str) -> None:
        """Say something below everything else, in place of what was told before."""
        async with self._changes:
            told = [entry for entry in self.said.entries if entry.widget is not None and entry.widget.id == "told"]
            await self._remove(told)
            widget = Static(printable(text), classes="notice", id="told", markup=False)
            await self.said.add(Entry(widget=widget))
            self.anchor()

    async def fail(self, error: AppError) -> None:
        """Say what could not be done."""
        async with self._changes:
            await self.said.add(Entry(widget=Problem(error)))

    async def clear(self) -> None:
        """Begin a new conversation."""
        await self.show(())

    async def show(self, path: Sequence[Node]) -> None:
        """Show a conversation as far as it was held, in place of what is there."""
        async with self._changes:
            await self._remove(list(self.said.entries))
            self._replaced = ()
            self.said.entries = [Entry(absent(node)) for node in path]
            self.anchor()
            await self._settle_last()

    # Its branches

    async def cut(self, speech: Speech, nodes: Sequence[Node] = ()) -> None:
        """Show other messages in place of one and of all below it."""
        async with self._changes:
            entry, entries = self._entry_of(speech), self.said.entries
            assert entry is not None
            at, held = entries.index(entry), self._held
            fresh = [Entry(absent(node)) for node in nodes]
            entries.extend(fresh)
            self._replaced = ()
            await self._remove(entries[at : len(entries) - len(fresh)])
            if held is not None and held[0] not in self.said.entries and fresh:
                # What takes the place of what is seen is seen there.
                self._held = fresh[0], held[1]
            await self._settle_last()

    def mark(self, tree: Tree, exchange: tuple[int | None, int | None] = (None, None)) -> None:
        """Say of every message which branch it is.

        Args:
            tree: The conversation.
            exchange: The ids of the last prompt and of its answer, if something has come of them just now.
        """
        self._tree = tree
        for entry, node_id in zip((self._asked, self._answer), exchange, strict=True):
            if entry is not None and entry.speech is not None and node_id is not None:
                entry.speech.node = node_id
        for speech in self.speeches:
            if speech.node not in tree.nodes:
                speech.node = None
            self._mark(speech)

    def _mark(self, speech: Speech) -> None:
        node = self._tree.nodes.get(speech.node) if speech.node is not None else None
        if node is None:
            return
        siblings = [sibling.id for sibling in self._tree.siblings(node.id)]
        ended_early = node.state.can_continue and not self._tree.has_replies(node.id)
        speech.place(siblings.index(node.id) + 1, len(siblings), can_go_on=ended_early)

    @property
    def speeches(self) -> list[Speech]:
        """The messages that are mounted, first one first; the last one of all is among them."""
        return [entry.speech for entry in self.said.entries if entry.speech is not None and not entry.hidden]

    async def reach(self, node: int) -> Speech | None:
        """The message with this id, mounted wherever it is; None if it is not shown."""
        entry = next((entry for entry in self.said.entries if entry.node == node and not entry.hidden), None)
        if entry is not None and entry.widget is None:
            async with self._changes:
                await self._settle({entry})
        return entry.speech if entry is not None else None

    def _entry_of(self, widget: Widget | None) -> Entry | None:
        return next((entry for entry in self.said.entries if entry.widget is widget), None) if widget else None

    def _below(self, entry: Entry | None) -> tuple[Entry, ...]:
        """What stands below a message; for none, nothing."""
        if entry is None:
            return ()
        entries = self.said.entries
        return tuple(each for each in entries[entries.index(entry) + 1 :] if not each.hidden)

    def _hide(self, entry: Entry, hidden: bool) -> None:
        entry.hidden = hidden
        if entry.widget is not None:
            entry.widget.display = not hidden

    async def _remove(self, entries: Iterable[Entry]) -> None:
        await self.said.take_out(entries)
        if self._held is not None and self._held[0] not in self.said.entries:
            self._held = None

    async def _settle_last(self) -> None:
        """The last message has become another one."""
        shown = [entry for entry in self.said.entries if _is_prompt(entry) or _is_answer(entry)]
        self._answer = shown[-1] if shown and _is_answer(shown[-1]) else None
        self._asked = next((entry for entry in reversed(shown) if _is_prompt(entry)), None)
        await self._settle()

    # What is mounted

    async def _settle(self, also: Iterable[Entry] = ()) -> None:
        """Mount what is near to what is seen, and unmount what is far."""
        said, height = self.said, self._height
        if not said.entries:
            return
        if self.following or self._held is None:
            at, top = len(said.entries), float(height)
        else:
            at, top = said.entries.index(self._held[0]), self._held[1]
        near = said.around(at, top, -_AHEAD * height, (1 + _AHEAD) * height)
        kept = said.around(at, top, -_KEPT * height, (1 + _KEPT) * height)
        for speech in await said.settle(near, kept, {*self._pinned(), *also}):
            self._mark(speech)
            if self._shows_tokens and isinstance(speech, AnswerMessage):
                await speech.show_tokens(True)

    def _pinned(self) -> set[Entry]:
        """What stays mounted wherever the user looks."""
        selected = {ancestor for widget in self.screen.selections for ancestor in widget.ancestors}
        pinned = {self._asked, self._answer, self.said.entries[-1]}
        for entry in self.said.entries:
            speech = entry.speech
            if speech is not None and (speech in selected or speech.has_focus_within or speech.has_class("-changed")):
                pinned.add(entry)
        return {entry for entry in pinned if entry is not None}

    async def _renew(self) -> None:
        self._renews = False
        async with self._changes:
            # What is blank is not drawn before it is mounted.
            with self.app.batch_update():
                await self._settle()

    def _look(self) -> None:
        """See to it that what is near is mounted."""
        height = self._height
        top = self.scroll_y if self.following or self._held is None else self._top
        if self.said.lacks(top - _LEAST_AHEAD * height, top + (1 + _LEAST_AHEAD) * height) and not self._renews:
            self._renews = True
            self.call_next(self._renew)

    @property
    def _height(self) -> int:
        """Rows that are seen."""
        return self.scrollable_content_region.height

    # Where the user looks

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        arranged = super().arrange(size, optimal)
        for placement in arranged.placements:
            if placement.widget is self.said:
                self.said.arrange(placement.region.size)
                self._hold_still(placement.region.height - size.height)
        return arranged

    def _hold_still(self, furthest: int) -> None:
        """Keep the first entry in sight where it is, before anything is drawn elsewhere."""
        if not self.following and self._held is not None:
            y = min(max(0, round(self._top)), max(0, furthest))
            if y != round(self.scroll_y):
                self.set_scroll(None, y)
                self.set_reactive(Widget.scroll_target_y, y)
                self.vertical_scrollbar.set_reactive(ScrollBar.position, y)
        self._look()

    @property
    def _top(self) -> float:
        """The first row in sight."""
        top = self.said.top_of(self._held[0]) if self._held is not None and not self.following else None
        return top - self._held[1] if top is not None and self._held is not None else self.scroll_y

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.following:
            self._held = self.said.at(self.scroll_y)
        self._look()

    @property
    def chosen(self) -> Speech | None:
        """The message that the keys go to."""
        return next((speech for speech in self.speeches if speech.has_class("-chosen")), None)

    def choose(self, speech: Speech) -> None:
        """Let the keys go to a message, and bring it in sight."""
        for other in self.query(Speech):
            if other is not speech:
                other.choose(False)
        speech.choose(True)
        place, height = self.said.place_of(speech), self._height
        if place is None:
            # It was mounted just now, and comes to the top.
            entry = self._entry_of(speech)
            self.release_anchor()
            self._held = (entry, 0) if entry is not None else None
            self.refresh(layout=True)
            return
        top, bottom = place
        if top < self.scroll_y or bottom - top >= height:
            self._go(top)
        elif bottom > self.scroll_y + height:
            self._go(bottom - height)
        self._hold()

    async def _choose(self, entry: Entry) -> None:
        if entry.widget is None:
            async with self._changes:
                await self._settle({entry})
        if entry.speech is not None:
            self.choose(entry.speech)

    def step(self, direction: int) -> bool:
        """Choose the message above (-1) or below (1), at first the last one; returns whether there is one."""
        entries = [
            entry for entry in self.said.entries if (_is_prompt(entry) or _is_answer(entry)) and not entry.hidden
        ]
        chosen = self._entry_of(self.chosen)
        at = entries.index(chosen) + direction if chosen is not None else len(entries) - 1
        if 0 <= at < len(entries):
            speech = entries[at].speech
            if speech is not None:
                self.choose(speech)
            else:
                self.call_later(self._choose, entries[at])
        return at < len(entries)

    def open_thoughts(self) -> None:
        """Unfold all thinking, or fold it if some is unfolded."""
        thoughts = self.query(Reasoning)
        opened = not any(thought.open for thought in thoughts)
        for thought in thoughts:
            thought.open = opened
        for entry in self.said.entries:
            if entry.widget is None and isinstance(entry.absent, AbsentAnswer):
                entry.absent.opened = opened
                entry.forget_rows()

    async def show_tokens(self, shown: bool) -> None:
        """Show the tokens of every answer that was seen coming, or the answers as they were."""
        async with self._changes:
            self._shows_tokens = shown
            for answer in self.query(AnswerMessage):
                await answer.show_tokens(shown)

    @property
    def following(self) -> bool:
        """Whether the view moves with the end of the conversation."""
        return not self._left

    def page(self, direction: int) -> None:
        """Move up (-1) or down (1) by what is in sight; at the end, follow again."""
        self._go(self._top + direction * self._height)
        self._hold()

    def go_to_beginning(self) -> None:
        """Show the first message."""
        self._go(0)

    def _go(self, y: float) -> None:
        """Show what is from a row on; what is not mounted there is, before it is drawn."""
        y = min(max(0, y), self.max_scroll_y)
        if self.said.lacks(y, y + self._height):
            self.release_anchor()
            self._held = self.said.at(y)
            self._look()
        else:
            self.scroll_to(y=y, animate=False, immediate=True)

    def anchor(self, anchor: bool = True) -> None:
        self._left = not anchor
        super().anchor(anchor)
        self._look()

    def release_anchor(self) -> None:
        if self.following:
            self._held = self.said.at(self.scroll_y)
            # Textual would take hold again where what is mounted above leaves the end in sight for a moment.
            self.anchor(False)
        super().release_anchor()

    def on_mouse_scroll_down(self) -> None:
        self.call_next(self._hold)

    def on_scroll_to(self) -> None:
        self.call_next(self._hold)

    def _hold(self) -> None:
        # Textual lets go of the end on every scroll, and takes hold again only if something moved.
        if self.is_vertical_scroll_end and not self._renews:
            self.anchor()


def _is_prompt(entry: Entry) -> bool:
    return isinstance(entry.widget if entry.widget is not None else entry.absent, UserMessage | AbsentPrompt)


def _is_answer(entry: Entry) -> bool:
    return isinstance(entry.widget if entry.widget is not None else entry.absent, AnswerMessage | AbsentAnswer)
