"""The conversation on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from app.chat.message import Role
from app.chat.tree import Node, State, Tree
from app.engine.text import printable
from app.errors import AppError
from app.ui.widgets.even import Even
from app.ui.widgets.message import AnswerMessage, Problem, UserMessage
from app.ui.widgets.said import Said
from app.ui.widgets.speech import Speech

MOST_SHOWN = 40
"""Messages that are shown at once; every answer is a tree of widgets, and takes its time."""
_REMARKS = {
    State.STOPPED: "stopped",
    State.CUT: "cut before its end",
    State.FAILED: "failed before its end",
    State.WRITING: "another Tandem is writing it",
}


def _widget(node: Node) -> UserMessage | AnswerMessage:
    if node.role is Role.ASSISTANT:
        return AnswerMessage(node.id)
    return UserMessage(node.text, "You" if node.role is Role.USER else "System", node.id)


class MessageList(VerticalScroll, Even, can_focus=False):
    """Everything said, newest at the bottom; stays there while the user does."""

    said = query_one("#said", Said)

    def __init__(self) -> None:
        super().__init__()
        self.answer: AnswerMessage | None = None
        """The answer that is being written, or was last."""
        self._asked: UserMessage | None = None
        self._replaced: tuple[Widget, ...] = ()
        self._earlier: tuple[Node, ...] = ()
        self._tree = Tree()
        self._left = False

    def compose(self) -> ComposeResult:
        yield Said(id="said")

    def on_mount(self) -> None:
        self.anchor()

    # What is said

    async def ask(self, prompt: str) -> AnswerMessage:
        """Add a prompt and the place for its answer, and go there."""
        self._asked, self.answer, self._replaced = UserMessage(prompt), AnswerMessage(), ()
        await self.said.mount(self._asked, self.answer)
        self.anchor()
        return self.answer

    async def ask_again(self, prompt: UserMessage | None = None) -> None:
        """Make a place for another answer; `settle` decides whether it stays or what it takes the place of.

        Args:
            prompt: What is to be answered; None for the last prompt.
        """
        self._asked = prompt if prompt is not None else self._asked
        self._replaced, self.answer = self._below(self._asked), AnswerMessage()
        await self.said.mount(self.answer)
        for widget in self._replaced:
            widget.display = False
        self.anchor()

    async def go_on(self, answer: AnswerMessage) -> None:
        """More of an answer is to come; what stands below it and is no part of the conversation goes."""
        self.answer, self._replaced = answer, ()
        above = [child for child in self._widgets[: self._widgets.index(answer)] if isinstance(child, UserMessage)]
        self._asked = above[-1] if above else None
        await self.said.remove_children(self._below(answer))
        await answer.go_on()
        self.anchor()

    async def settle(self, *, counts: bool) -> bool:
        """The answer has ended.

        Args:
            counts: Whether it is one; if not, the answer that it was to replace is shown again.

        Returns:
            Whether an earlier answer is shown again.
        """
        replaced, self._replaced = self._replaced, ()
        if counts:
            await self.said.remove_children(replaced)
        else:
            for widget in replaced:
                widget.display = True
        return bool(replaced) and not counts

    async def take_back(self) -> None:
        """Remove the last prompt and the place for its answer."""
        for widget in (self._asked, self.answer):
            if widget is not None:
                await widget.remove()
        self._find_last()

    async def notice(self, text: str) -> None:
        """Say something that belongs to no answer."""
        await self.said.mount(Static(printable(text), classes="notice", markup=False), before=self.answer)

    async def tell(self, text: str) -> None:
        """Say something below everything else, in place of what was told before."""
        await self.said.query("#told").remove()
        await self.said.mount(Static(printable(text), classes="notice", id="told", markup=False))
        self.anchor()

    async def fail(self, error: AppError) -> None:
        """Say what could not be done."""
        await self.said.mount(Problem(error))

    async def clear(self) -> None:
        """Begin a new conversation."""
        self._asked = self.answer = None
        self._replaced = ()
        self._earlier = ()
        await self.said.remove_children()

    async def show(self, path: Sequence[Node]) -> None:
        """Show a conversation as far as it was held, in place of what is there."""
        await self.clear()
        at = max(0, len(path) - MOST_SHOWN)
        await self._mount_nodes(path[at:])
        self._find_last()
        self._earlier = tuple(path[:at])
        await self._tell_earlier()
        self.anchor()

    async def _mount_nodes(self, nodes: Sequence[Node], before: Widget | None = None) -> list[Widget]:
        widgets: list[Widget] = [_widget(node) for node in nodes]
        await self.said.mount(*widgets, before=before)
        for widget, node in zip(widgets, nodes, strict=True):
            if isinstance(widget, AnswerMessage):
                await widget.put(node.text, node.reasoning)
                widget.note(_REMARKS.get(node.state, ""))
        return widgets

    async def _tell_earlier(self) -> None:
        await self.said.query("#earlier").remove()
        if n := len(self._earlier):
            text = f"{n:,} earlier message{'s' * (n != 1)}; page up shows them"
            await self.said.mount(Static(text, classes="notice", id="earlier"), before=0)

    async def _show_earlier(self) -> None:
        """Put some of what was left out above the rest, which stays where it is on the screen."""
        at = max(0, len(self._earlier) - MOST_SHOWN)
        nodes, self._earlier = self._earlier[at:], self._earlier[:at]
        first, height = self.said.children[1], self.said.size.height
        await self._mount_nodes(nodes, before=first)
        self.mark(self._tree)
        await self._tell_earlier()

        def stay() -> None:
            self.scroll_to(y=self.scroll_y + self.said.size.height - height, animate=False, immediate=True)

        self.call_after_refresh(stay)

    # Its branches

    async def cut(self, speech: Speech, nodes: Sequence[Node] = ()) -> None:
        """Show other messages in place of one and of all below it."""
        await self.said.remove_children((speech, *self._below(speech)))
        self._replaced = ()
        await self._mount_nodes(nodes)
        self._find_last()

    def mark(self, tree: Tree, exchange: tuple[int | None, int | None] = (None, None)) -> None:
        """Say of every message which branch it is.

        Args:
            tree: The conversation.
            exchange: The ids of the last prompt and of its answer, if something has come of them just now.
        """
        self._tree = tree
        for widget, node_id in zip((self._asked, self.answer), exchange, strict=True):
            if widget is not None and node_id is not None:
                widget.node = node_id
        for speech in self.speeches:
            node = tree.nodes.get(speech.node) if speech.node is not None else None
            if node is None:
                speech.node = None
                continue
            siblings = [sibling.id for sibling in tree.siblings(node.id)]
            ended_early = node.state.can_continue and not tree.has_replies(node.id)
            speech.place(siblings.index(node.id) + 1, len(siblings), can_go_on=ended_early)

    @property
    def speeches(self) -> list[Speech]:
        """The messages that are shown, first one first."""
        return [child for child in self._widgets if isinstance(child, Speech) and child.display]

    def find(self, node: int) -> Speech | None:
        """The message with this id, if it is shown."""
        return next((speech for speech in self.speeches if speech.node == node), None)

    @property
    def _widgets(self) -> list[Widget]:
        return list(self.said.children)

    def _below(self, widget: Widget | None) -> tuple[Widget, ...]:
        """What stands below a message; for none, nothing."""
        if widget is None:
            return ()
        return tuple(child for child in self._widgets[self._widgets.index(widget) + 1 :] if child.display)

    def _find_last(self) -> None:
        last = self.speeches[-1:]
        self.answer = last[0] if last and isinstance(last[0], AnswerMessage) else None
        self._asked = next((each for each in reversed(self.speeches) if isinstance(each, UserMessage)), None)

    # Where the user looks

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
        fits = speech.size.height < self.scrollable_content_region.height
        self.scroll_to_widget(speech, animate=False, immediate=True, top=not fits)
        self._hold()

    def step(self, direction: int) -> bool:
        """Choose the message above (-1) or below (1), at first the last one; returns whether there is one."""
        speeches, chosen = self.speeches, self.chosen
        at = speeches.index(chosen) + direction if chosen is not None else len(speeches) - 1
        if at < 0 and self._earlier:
            self.call_later(self._show_earlier)
            return True
        if 0 <= at < len(speeches):
            self.choose(speeches[at])
        return at < len(speeches)

    @property
    def following(self) -> bool:
        """Whether the view moves with the end of the conversation."""
        return not self._left

    def page(self, direction: int) -> None:
        """Move up (-1) or down (1) by what is in sight; at the end, follow again."""
        if direction < 0 and self._earlier and self.scroll_y == 0:
            self.call_later(self._show_earlier)
            return
        height = self.scrollable_content_region.height
        self.scroll_to(y=self.scroll_y + direction * height, animate=False, immediate=True)
        self._hold()

    def anchor(self, anchor: bool = True) -> None:
        self._left = not anchor
        super().anchor(anchor)

    def release_anchor(self) -> None:
        self._left = True
        super().release_anchor()

    def on_mouse_scroll_down(self) -> None:
        self.call_next(self._hold)

    def _hold(self) -> None:
        # Textual lets go of the end on every scroll, and takes hold again only if something moved.
        if self.is_vertical_scroll_end:
            self.anchor()
