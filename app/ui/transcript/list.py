"""The conversation on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widget import Widget

from app.conversations.tree import Node, Tree
from app.core.errors import AppError
from app.core.printable import printable
from app.ui.models.fit_options import FitOption, FitOptionList
from app.ui.reading.rows import Row
from app.ui.transcript.branch import BranchView
from app.ui.transcript.column import Entry
from app.ui.transcript.foldable import Reasoning
from app.ui.transcript.message import AnswerMessage, Offer, Problem, UserMessage
from app.ui.transcript.message_data import AnswerData, MessageData, PromptData
from app.ui.transcript.message_view import MessageView
from app.ui.widgets.passage import Passage


class MessageList(BranchView, can_focus=False):
    """All messages and notices, newest at the bottom."""

    def __init__(self) -> None:
        super().__init__()
        self._tree = Tree()
        self._shows_tokens = False
        self._pair_notice: Entry | None = None
        self._model = ""

    # What is said

    async def notice(self, text: str) -> None:
        """Show a notice at the end; while an answer is awaited, above its prompt."""
        async with self._changing():
            await self._put(Passage(printable(text), "notice"), before=self._expecting)

    async def show_pair_notice(self, text: str) -> None:
        """Replace the notice that the loaded model differs from the conversation's; "" removes it."""
        async with self._changing():
            if self._pair_notice is not None and self.column.holds(self._pair_notice):
                await self._take_out([self._pair_notice])
            notice = Passage(printable(text), "notice")
            self._pair_notice = await self._put(notice, before=self._expecting) if text else None

    async def tell(self, rows: Sequence[Row]) -> None:
        """Show program text such as /help at the end, replacing the last one."""
        words = Passage(classes="notice")
        words.id = "told"
        words.put(0, rows)
        async with self._changing():
            told = [entry for entry in self.column.mounted if entry.widget is not None and entry.widget.id == "told"]
            await self._take_out(told)
            entry = await self._put(words)
            self.anchor()
            if sum(row.height(self.said.message_width) for row in rows) > self._height:
                # Too long for the window: show its beginning.
                self._bring_up(entry)

    async def fail(self, error: AppError) -> None:
        """Show why no pair could be loaded, in any conversation, until `end_failure`."""
        async with self._changing():
            self._failure = await self._put(Problem(error))

    async def offer(self, ways: tuple[FitOption, ...]) -> None:
        """Offer options after a failed answer, until `end_failure`, another answer or offer."""
        async with self._changing():
            # The offer of an earlier attempt uses the same keys.
            await self._take_out(self._offers)
            await self._put(Offer(ways))

    async def end_failure(self) -> None:
        """Remove all options; the failure itself stays visible."""
        async with self._changing():
            self._failure = None
            await self._take_out(self._offers)
            await self.query(FitOptionList).remove()

    async def _put(self, widget: Widget, before: Entry | None = None) -> Entry:
        entry = Entry(widget=widget)
        self.said.put([entry], before)
        await self._settle()
        return entry

    # Its branches

    def mark(self, tree: Tree) -> None:
        """Update the branch numbers of all mounted messages."""
        self._tree = tree
        for message_view in self.message_views:
            if message_view.node not in tree.nodes:
                message_view.node = None
            self._mark(message_view)

    def _mark(self, message_view: MessageView) -> None:
        node = self._tree.nodes.get(message_view.node) if message_view.node is not None else None
        if node is None:
            return
        siblings = [sibling.id for sibling in self._tree.siblings(node.id)]
        ended_early = node.state.can_continue and not self._tree.has_replies(node.id)
        message_view.place(siblings.index(node.id) + 1, len(siblings), can_go_on=ended_early)
        message_view.label.name_model(node.model if self._is_other_model(node) else "")

    def _is_other_model(self, node: Node) -> bool:
        """Return whether an answer's model differs from the loaded one or from the previous answer's."""
        before = self._tree.answer_before(node.id)
        known = (self._model, before.model if before is not None else "")
        return any(model and model != node.model for model in known)

    def name_models(self, loaded: str) -> None:
        """Update the model names on answers for the newly loaded model."""
        self._model = loaded
        for message_view in self.message_views:
            self._mark(message_view)

    @property
    def message_views(self) -> list[MessageView]:
        """The mounted messages in order; the last message is always mounted."""
        return [
            entry.message_view for entry in self.column.mounted if entry.message_view is not None and not entry.hidden
        ]

    async def reach(self, node: int) -> MessageView | None:
        """Mount and return the message with this id; None if it is not on the branch."""
        entry = self._entry_with(node)
        return await self._reach(entry) if entry is not None else None

    async def seek(self, node: int) -> None:
        """Scroll the message with this id to the top, if it is on the branch."""
        async with self._changing():
            entry = self._entry_with(node)
            if entry is not None:
                self._bring_up(entry)
                await self._settle()

    async def _reach(self, entry: Entry) -> MessageView | None:
        if entry.widget is None:
            async with self._changing():
                await self._settle({entry})
        return entry.message_view

    def _entry_with(self, node: int) -> Entry | None:
        return next((entry for entry in self.column.entries if entry.node == node and not entry.hidden), None)

    # What is mounted

    def _present(self, data: MessageData) -> MessageView:
        if isinstance(data, PromptData):
            message_view: MessageView = UserMessage(data)
        else:
            message_view = AnswerMessage(data, tokens=self._shows_tokens)
        self._mark(message_view)
        return message_view

    # The chosen message

    @property
    def chosen(self) -> MessageView | None:
        """The selected message, which has the focus."""
        return next((message_view for message_view in self.message_views if message_view.has_class("-chosen")), None)

    def choose(self, message_view: MessageView) -> None:
        """Select a message and scroll it into view."""
        if not message_view.is_attached:
            # It was removed after the click.
            return
        for other in self.query(MessageView):
            if other is not message_view:
                other.choose(False)
        message_view.choose(True)
        entry = self.column.entry_of(message_view)
        if entry is not None:
            self._show(entry)

    async def step(self, direction: int) -> bool:
        """Select the message above (-1) or below (1), at first the last; return False below the last."""
        chosen = self.column.entry_of(self.chosen)
        # An answer that never came has no actions; its prompt is above it.
        entries = [entry for entry in self.column.entries if (entry.is_said or entry is chosen) and not entry.hidden]
        at = entries.index(chosen) + direction if chosen is not None else len(entries) - 1
        if 0 <= at < len(entries) and (message_view := await self._reach(entries[at])) is not None:
            self.choose(message_view)
        return at < len(entries)

    def open_thoughts(self) -> None:
        """Unfold all reasoning, or fold it if any is unfolded."""
        thoughts = self.query(Reasoning)
        opened = not any(thought.open for thought in thoughts)
        for thought in thoughts:
            thought.open = opened
        for entry in self.column.entries:
            if entry.widget is None and isinstance(entry.data, AnswerData):
                entry.data.opened = opened
                entry.forget_rows()
        self.column.fit_again()
        self.said.resize()

    async def show_tokens(self, shown: bool) -> None:
        """Show or hide token sources in every answer generated in this run."""
        async with self._changing():
            self._shows_tokens = shown
            for answer in self.query(AnswerMessage):
                await answer.show_tokens(shown)
