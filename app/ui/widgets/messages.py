"""The conversation on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalGroup, VerticalScroll
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from app.chat.message import Role
from app.chat.tree import Node, State
from app.engine.text import printable
from app.errors import AppError
from app.ui.widgets.message import AnswerMessage, Problem, UserMessage

_MOST = 40
"""Messages that are shown at once; every answer is a tree of widgets, and takes its time."""
_REMARKS = {
    State.STOPPED: "stopped",
    State.CUT: "cut before its end",
    State.FAILED: "failed before its end",
    State.WRITING: "another Tandem is writing it",
}


def _widget(node: Node) -> UserMessage | AnswerMessage:
    if node.role is Role.ASSISTANT:
        return AnswerMessage()
    return UserMessage(node.text, "You" if node.role is Role.USER else "System")


class MessageList(VerticalScroll, can_focus=False):
    """Everything said, newest at the bottom; stays there while the user does."""

    said = query_one("#said", VerticalGroup)

    def __init__(self) -> None:
        super().__init__()
        self.answer: AnswerMessage | None = None
        """The answer that is being written, or was last."""
        self._asked: UserMessage | None = None
        self._replaced: AnswerMessage | None = None
        self._earlier: tuple[Node, ...] = ()
        self._left = False

    def compose(self) -> ComposeResult:
        yield VerticalGroup(id="said")

    def on_mount(self) -> None:
        self.anchor()

    # What is said

    async def ask(self, prompt: str) -> AnswerMessage:
        """Add a prompt and the place for its answer, and go there."""
        self._asked, self.answer, self._replaced = UserMessage(prompt), AnswerMessage(), None
        await self.said.mount(self._asked, self.answer)
        self.anchor()
        return self.answer

    async def ask_again(self) -> None:
        """Make a place for another answer to the last prompt; `settle` decides which of the two stays."""
        self._replaced, self.answer = self.answer, AnswerMessage()
        await self.said.mount(self.answer, after=self._replaced)
        if self._replaced is not None:
            self._replaced.display = False
        self.anchor()

    async def settle(self, *, counts: bool) -> bool:
        """The answer has ended.

        Args:
            counts: Whether it is one; if not, the answer that it was to replace is shown again.

        Returns:
            Whether an earlier answer is shown again.
        """
        replaced, self._replaced = self._replaced, None
        if replaced is None:
            return False
        if counts:
            await replaced.remove()
        else:
            replaced.display = True
        return not counts

    async def take_back(self) -> None:
        """Remove the last prompt and the place for its answer."""
        for widget in (self._asked, self.answer):
            if widget is not None:
                await widget.remove()
        self._asked = self.answer = None

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
        self._asked = self.answer = self._replaced = None
        self._earlier = ()
        await self.said.remove_children()

    async def show(self, path: Sequence[Node]) -> None:
        """Show a conversation as far as it was held, in place of what is there."""
        await self.clear()
        at = max(0, len(path) - _MOST)
        shown = await self._mount_nodes(path[at:])
        if shown and isinstance(shown[-1], AnswerMessage):
            self.answer = shown[-1]
        self._asked = next((widget for widget in reversed(shown) if isinstance(widget, UserMessage)), None)
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
        at = max(0, len(self._earlier) - _MOST)
        nodes, self._earlier = self._earlier[at:], self._earlier[:at]
        first, height = self.said.children[1], self.said.size.height
        await self._mount_nodes(nodes, before=first)
        await self._tell_earlier()

        def stay() -> None:
            self.scroll_to(y=self.scroll_y + self.said.size.height - height, animate=False, immediate=True)

        self.call_after_refresh(stay)

    # Where the user looks

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
