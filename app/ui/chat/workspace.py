"""The conversation and what stands beside it."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.getters import query_one

from app.conversations.message import Role
from app.conversations.tree import Node
from app.session.keeper import Keeper
from app.ui.chat.arrangement import LEAST_FOR_PANEL, LEAST_FOR_SIDEBAR, Arrangement
from app.ui.chat.inspector import Inspector
from app.ui.conversations.sidebar import Sidebar
from app.ui.sidebar.numbers import in_a_line, of_document
from app.ui.sidebar.panel import ReadoutPanel
from app.ui.sidebar.readouts import Readouts
from app.ui.transcript.list import MessageList
from app.ui.transcript.message import AnswerMessage
from app.ui.transcript.speech import Speech
from app.ui.widgets.even import Even
from app.ui.widgets.hint import Hint


class Middle(Vertical, Even):
    """The conversation, and what stands right below it."""


class Workspace(Horizontal, Even):
    """Conversations on the left, readouts on the right, as far as there is room and the user wants them.

    The class `-panel` of the screen says whether the readouts are shown.

    Args:
        keeper: Has the conversations and the numbers of their answers.
        readouts: Those of the running answer.
    """

    sidebar = query_one(Sidebar)
    panel = query_one(ReadoutPanel)
    messages = query_one(MessageList)
    hint = query_one(Hint)

    def __init__(self, keeper: Keeper, readouts: Readouts) -> None:
        super().__init__()
        self._keeper = keeper
        self._readouts = readouts
        self._arrangement = Arrangement()

    def compose(self) -> ComposeResult:
        yield Sidebar(self._keeper)
        with Middle():
            yield MessageList()
            yield Inspector()
            yield Hint()
        yield ReadoutPanel(self._readouts)

    def on_mount(self) -> None:
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    def toggle_sidebar(self) -> None:
        self._arrangement = self._arrangement.with_sidebar(not self.sidebar.display)
        self._arrange_or_say("conversations", LEAST_FOR_SIDEBAR)

    def toggle_panel(self) -> None:
        """Show the numbers, then all of them, then none."""
        if self.panel.display and not self.panel.detailed:
            self.panel.detailed = True
            return
        self.panel.detailed = False
        self._arrangement = self._arrangement.with_panel(not self.panel.display)
        self._arrange_or_say("numbers", LEAST_FOR_PANEL)

    def show_last_numbers(self, path: Sequence[Node]) -> None:
        """Show those of the last answer of a conversation that was opened, where there is a place for them."""
        answers = [node.id for node in path if node.role is Role.ASSISTANT]
        if answers and self.panel.display:
            self._show_numbers(answers[-1])

    @on(Speech.Chosen)
    def _show_chosen(self, event: Speech.Chosen) -> None:
        speech = event.speech
        numbers = ""
        if isinstance(speech, AnswerMessage) and speech.node is not None:
            numbers = self._show_numbers(speech.node)
        self.hint.about("\n".join(filter(None, (speech.beside, numbers))))

    @on(Speech.Released)
    def _forget_chosen(self) -> None:
        # The next one may have said that it is chosen already.
        if self.messages.chosen is None:
            self.hint.about("")

    def tell_last(self, text: str) -> None:
        """Say something of the last message for as long as it is that, unless another one is chosen."""
        if self.messages.chosen is None:
            self.hint.about(text)

    def _show_numbers(self, message: int) -> str:
        """Show what was measured when an answer was given; returns it in a line where there is no panel.

        Args:
            message: Its id in the store.
        """
        document = self._keeper.stats(message)
        if not self.panel.display:
            return in_a_line(of_document(document))
        self.panel.show_earlier(document, is_last=message == self._keeper.tree.leaf)
        return ""

    def _arrange(self) -> None:
        # The first frame is laid out before anything is resized.
        sidebar, panel = self._arrangement.widths(self.app.size.width)
        for widget, width in ((self.sidebar, sidebar), (self.panel, panel)):
            widget.display = width > 0
            widget.styles.width = width
        self.screen.set_class(panel > 0, "-panel")

    def _arrange_or_say(self, what: str, least: int) -> None:
        self._arrange()
        if self.app.size.width < least:
            self.post_message(Hint.Wanted(f"The {what} need a window of {least} columns."))
