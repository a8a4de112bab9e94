"""The active branch of a conversation as a column of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.conversations.tree import Node, State
from app.ui.transcript.column import Entry
from app.ui.transcript.message import AnswerMessage, Offer, Problem
from app.ui.transcript.message_data import AnswerData, MessageData, branch_data
from app.ui.transcript.view import View
from app.ui.transcript.welcome import Welcome


class BranchView(View):
    """Shows a branch by replacing only the messages that differ from those shown."""

    def __init__(self) -> None:
        self._welcome = Entry(widget=Welcome())
        super().__init__(self._welcome)
        self._is_running = False
        self._failure: Entry | None = None
        """Why no pair is loaded; it stays below all messages."""

    def on_resize(self) -> None:
        # The column is laid out again for another width only; the welcome depends on the height too.
        if (welcome := self._welcome.widget) is not None and not self._welcome.hidden:
            welcome.refresh(layout=True)

    @property
    def answer(self) -> AnswerMessage | None:
        """The answer at the end of the branch."""
        last = next(reversed(self._messages), None)
        return last.widget if last is not None and isinstance(last.widget, AnswerMessage) else None

    async def show(
        self, path: Sequence[Node], running: int | None = None, *, replace: bool = False, follow: bool = False
    ) -> None:
        """Show a branch.

        Args:
            path: Its messages, first one first.
            running: Id of the answer that is being written here; None without one.
            replace: Whether it is another conversation, which replaces all that is shown.
            follow: Whether to go to its end.
        """
        async with self._changing():
            was_running, self._is_running = self._is_running, bool(path) and _is_running(path[-1], running)
            items = list(branch_data(path, is_running=self._is_running))
            shown = [] if replace else self._messages
            n_same = 0
            for entry, (data, node) in zip(shown, items, strict=False):
                is_live = (was_running and entry is shown[-1]) or (self._is_running and node is path[-1])
                if not entry.shows(data, node, is_live=is_live):
                    break
                entry.message = node
                n_same += 1
            leaving = self._leaving(shown[:n_same], items[n_same:], replace=replace)
            fresh = [Entry(data, message=node) for data, node in items[n_same:]]
            if self._failure is not None and (fresh or self._failure in leaving):
                leaving.add(self._failure)
                assert isinstance(self._failure.widget, Problem)
                self._failure = Entry(widget=self._failure.widget.again())
                fresh.append(self._failure)
            self.said.put(fresh)
            await self._take_out(leaving)
            if follow:
                self.anchor()
            await self._settle()
            if n_same and n_same == len(items) and was_running != self._is_running:
                await self._continue_or_end(shown[n_same - 1], items[-1][0])

    def _leaving(self, same: Sequence[Entry], new: Sequence[tuple[MessageData, Node]], *, replace: bool) -> set[Entry]:
        """Return the entries that give way to new messages below those that stay."""
        entries = [entry for entry in self.column.entries if entry is not self._welcome]
        if replace:
            return set(entries)
        leaving = set(self._messages[len(same) :])
        resumes = self._is_running and not new
        switches = bool(new and leaving) and not self._is_running
        if resumes or switches or (new and isinstance(new[0][0], AnswerData)):
            # Notices go with their branch, and none stands between a prompt and its answer.
            last = same[-1].number if same else -1
            return {entry for entry in entries if entry.number > last}
        return leaving.union(self._offers) if new else leaving

    async def _continue_or_end(self, entry: Entry, data: MessageData) -> None:
        if isinstance(entry.widget, AnswerMessage) and isinstance(data, AnswerData):
            await (entry.widget.resume() if self._is_running else entry.widget.end(data))

    @property
    def _messages(self) -> list[Entry]:
        return [entry for entry in self.column.entries if entry.data is not None]

    @property
    def _offers(self) -> list[Entry]:
        """Actions offered for the last failure."""
        return [entry for entry in self.column.mounted if isinstance(entry.widget, Offer)]

    def _pinned(self) -> set[Entry]:
        return set(self._messages[-2:])

    @property
    def _expecting(self) -> Entry | None:
        """The prompt whose answer has no word yet; None without one."""
        messages = self._messages
        is_empty = self.answer is None or not self.answer.has_grown
        return messages[-2] if self._is_running and is_empty and len(messages) > 1 else None

    def _hide(self, entries: Sequence[Entry], hidden: bool) -> None:
        self.column.hide(entries, hidden)
        for entry in entries:
            if entry.widget is not None:
                entry.widget.display = not hidden
        self.said.resize()

    async def _settle(self, also: Iterable[Entry] = ()) -> None:
        shown = (entry for entry in self.column.entries if entry is not self._welcome and not entry.hidden)
        begun = not all(map(_is_notice, shown))
        if begun != self._welcome.hidden:
            self._hide([self._welcome], begun)
        await super()._settle(also)


def _is_running(node: Node, running: int | None) -> bool:
    return node.state is State.WRITING and (node.id == running or node.id < 0)


def _is_notice(entry: Entry) -> bool:
    """Return whether it is a notice of the program, and neither requested text nor a failure."""
    widget = entry.widget
    return widget is not None and widget.has_class("notice") and widget.id is None
