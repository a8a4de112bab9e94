"""The active branch of a conversation on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.widget import Widget

from app.conversations.message import Role
from app.conversations.tree import Node, State, Tree, readable
from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.ui.key_names import for_chat
from app.ui.models.fit_options import FitOptionList
from app.ui.models.state import FitOption
from app.ui.transcript.message import AnswerMessage, ErrorNotice, UserMessage, remark_on
from app.ui.transcript.message_view import MessageView
from app.ui.transcript.navigation import MessageNavigation
from app.ui.transcript.parts import Reasoning, Welcome
from app.ui.transcript.window import Item
from app.ui.widgets.rows_view import Passage


def _branch_items(path: Sequence[Node]) -> Iterator[Item]:
    """Yield an item for each message; a prompt at the end is followed by the reason why it has no answer, if known."""
    for node in path:
        yield Item(node, is_answer=node.role is Role.ASSISTANT)
    if path and path[-1].role is Role.USER and (remark_on(path[-1]) or path[-1].ending.failure):
        yield Item(path[-1], is_answer=True)


class MessageList(MessageNavigation):
    """All messages and notices, newest at the bottom."""

    def __init__(self) -> None:
        self._welcome = Welcome()
        super().__init__(self._welcome)
        self._tree = Tree()
        self._pair: PairInfo | None = None
        self._shown: object = None
        """What `show` has shown."""
        self._unread: set[int] = set()
        """Messages that the model no longer reads."""
        self._model = ""
        self._is_running = False
        self._shows_tokens = self._shows_reasoning = False
        self._failure: Item | None = None
        """Why no pair is loaded; it stays below all messages."""

    def on_resize(self) -> None:
        # Its height depends on the height of the window.
        self._welcome.refresh(layout=True)

    # Messages

    async def show(
        self, path: Sequence[Node], running: int | None = None, *, replace: bool = False, follow: bool = False
    ) -> None:
        """Show a branch by replacing only the messages that differ from those shown.

        Args:
            path: Its messages, first one first.
            running: Id of the answer that is being written here; None without one.
            replace: True for another conversation, which replaces all items.
            follow: True to go to the end.
        """
        # The text of a running answer comes by itself.
        now = (path if running is None else (*path[:-1], running), running)
        if not (replace or follow) and now == self._shown:
            return
        self._shown = now
        async with self._changing():
            was_running, last = self._is_running, path[-1] if path else None
            self._is_running = last is not None and last.state is State.WRITING and (last.id == running or last.id < 0)
            items = list(_branch_items(path))
            shown = [] if replace else self._messages
            ended = shown[-1] if was_running and shown else None
            n_same = 0
            for old, new in zip(shown, items, strict=False):
                is_live = (was_running and old is shown[-1]) or (self._is_running and new.node is last)
                if not _is_same(old, new, is_live=is_live):
                    break
                old.node = new.node
                n_same += 1
            fresh = items[n_same:]
            leaving = self._leaving(shown[:n_same], fresh, replace=replace)
            self._put(fresh, self._failure)
            await self._take_out(leaving - {self._failure})
            if follow:
                self._anchor = None
            await self._settle()
            answer = self.answer
            if answer is not None and last is not None and n_same == len(items) and was_running != self._is_running:
                await (answer.resume() if self._is_running else answer.end(last))
            elif ended is not None and fresh and ended in self.items and isinstance(ended.widget, AnswerMessage):
                # The next prompt had waited for the end of this answer.
                assert ended.node is not None
                await ended.widget.end(ended.node)

    def _leaving(self, same: Sequence[Item], fresh: Sequence[Item], *, replace: bool) -> set[Item]:
        """Return the items that give way to new messages below those that stay."""
        if replace:
            return set(self.items)
        leaving = set(self._messages[len(same) :])
        resumes = self._is_running and not fresh
        switches = bool(fresh and leaving) and not self._is_running
        if resumes or switches or (fresh and fresh[0].is_answer):
            # Notices leave with their branch, and none stands between a prompt and its answer.
            return set(self.items[self.items.index(same[-1]) + 1 if same else 0 :])
        return leaving.union(self._marked("offer")) if fresh else leaving

    @property
    def answer(self) -> AnswerMessage | None:
        """The answer at the end of the branch."""
        last = self._last
        return last.widget if last is not None and isinstance(last.widget, AnswerMessage) else None

    @property
    def _messages(self) -> list[Item]:
        return [item for item in self.items if item.node is not None]

    @property
    def _last(self) -> Item | None:
        return next((item for item in reversed(self.items) if item.node is not None), None)

    def _build(self, item: Item) -> Widget:
        assert item.node is not None
        message_view: MessageView
        if item.is_answer:
            message_view = answer = AnswerMessage(
                item.node,
                is_running=self._is_running and item is self._last,
                token_runs=item.token_runs,
                shows_tokens=self._shows_tokens,
                shows_reasoning=self._shows_reasoning,
            )
            item.token_runs = answer.token_runs
        else:
            message_view = UserMessage(item.node)
        self._mark(message_view)
        return message_view

    async def _settle(self) -> None:
        # Unlike a message or a failure, a notice does not replace the first screen.
        notices = self._marked("notice")
        self._welcome.display = all(item in notices for item in self.items)
        await super()._settle()

    # Notices

    async def notice(self, text: str) -> None:
        """Show a notice at the end; while an answer is awaited, above its prompt."""
        async with self._changing():
            await self._add(Passage(printable(for_chat(text)), "notice"), before=self._unanswered)

    async def fail(self, error: AppError, options: Sequence[FitOption] = ()) -> None:
        """Show why no pair could be loaded, in any conversation, until `end_failure`."""
        async with self._changing():
            self._failure = await self._add(ErrorNotice(error, options))

    async def offer(self, options: Sequence[FitOption]) -> None:
        """Offer options after a failed answer, until `end_failure`, another answer or offer."""
        async with self._changing():
            # An earlier offer uses the same keys.
            await self._take_out(self._marked("offer"))
            await self._add(ErrorNotice(AppError("What would make it fit:"), options, classes="offer"))

    async def end_failure(self) -> None:
        """Remove all options; the failure itself stays visible."""
        async with self._changing():
            self._failure = None
            await self._take_out(self._marked("offer"))
            await self.query(FitOptionList).remove()

    async def _add(self, widget: Widget, before: Item | None = None) -> Item:
        item = Item(widget=widget)
        self._put([item], before)
        await self._settle()
        return item

    def _marked(self, name: str) -> set[Item]:
        return {item for item in self.items if item.widget is not None and item.widget.has_class(name)}

    @property
    def _unanswered(self) -> Item | None:
        """The prompt whose answer has no text yet, if any."""
        messages = self._messages
        is_empty = self.answer is None or not self.answer.has_grown
        return messages[-2] if self._is_running and is_empty and len(messages) > 1 else None

    # Branches and models

    def mark(self, tree: Tree, pair: PairInfo | None, model: str) -> None:
        """Update the branch numbers and the model names of all mounted messages; `model` is the one in use."""
        if tree is self._tree and pair is self._pair:
            return
        self._tree, self._pair, self._model = tree, pair, model
        _, read = readable(tree.path)
        self._unread = {node.id for node in tree.path} - {node.id for node in read}
        for message_view in self.message_views:
            if message_view.node not in tree.nodes:
                message_view.node = None
            self._mark(message_view)

    def _mark(self, message_view: MessageView) -> None:
        message_view.pair = self._pair
        node = self._tree.nodes.get(message_view.node) if message_view.node is not None else None
        if node is None:
            return
        siblings = [sibling.id for sibling in self._tree.siblings(node.id)]
        ended_early = node.state.can_continue and not self._tree.replies(node.id)
        model = node.model if self._is_other_model(node) else ""
        message_view.place(siblings.index(node.id) + 1, len(siblings), can_go_on=ended_early, model=model)
        message_view.set_class(node.id in self._unread, "-unread")

    def _is_other_model(self, node: Node) -> bool:
        """Return True if an answer's model differs from the loaded one or from the previous answer's."""
        before = self._tree.answer_before(node.id)
        known = (self._model, before.model if before is not None else "")
        return any(model and model != node.model for model in known)

    # Reasoning and tokens

    def open_thoughts(self) -> bool:
        """Unfold all reasoning, or fold it if any is unfolded; return whether there is any."""
        thoughts = self.query(Reasoning)
        self._shows_reasoning = not any(thought.open for thought in thoughts)
        for thought in thoughts:
            thought.open = self._shows_reasoning
        return bool(thoughts)

    async def show_tokens(self, shown: bool) -> None:
        """Show or hide token sources in every answer generated in this run."""
        async with self._changing():
            self._shows_tokens = shown
            for answer in self.query(AnswerMessage):
                await answer.show_tokens(shown)


def _is_same(old: Item, new: Item, *, is_live: bool) -> bool:
    """Return True if the widget of an item can show another one; live text is compared with nothing."""
    before, now = old.node, new.node
    if before is None or now is None or before.id != now.id or old.is_answer is not new.is_answer:
        return False
    return is_live or (before.state, before.text, before.stats) == (now.state, now.text, now.stats)
