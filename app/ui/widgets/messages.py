"""The conversation on the screen."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalGroup, VerticalScroll
from textual.getters import query_one
from textual.widgets import Static

from app.engine.text import printable
from app.errors import AppError
from app.ui.widgets.message import AnswerMessage, Problem, UserMessage


class MessageList(VerticalScroll, can_focus=False):
    """Everything said, newest at the bottom; stays there while the user does."""

    said = query_one("#said", VerticalGroup)

    def __init__(self) -> None:
        super().__init__()
        self.answer: AnswerMessage | None = None
        """The answer that is being written, or was last."""
        self._asked: UserMessage | None = None
        self._replaced: AnswerMessage | None = None
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

    async def fail(self, error: AppError) -> None:
        """Say what could not be done."""
        await self.said.mount(Problem(error))

    async def clear(self) -> None:
        """Begin a new conversation."""
        self._asked = self.answer = self._replaced = None
        await self.said.remove_children()

    # Where the user looks

    @property
    def following(self) -> bool:
        """Whether the view moves with the end of the conversation."""
        return not self._left

    def page(self, direction: int) -> None:
        """Move up (-1) or down (1) by what is in sight; at the end, follow again."""
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
