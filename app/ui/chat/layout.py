"""The conversation, the list beside it and the numbers, by how wide the terminal is."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.getters import query_one

from app.conversations.message import Role
from app.conversations.tree import Node
from app.session.session import Session
from app.ui.chat.inspector import Inspector
from app.ui.conversations.sidebar import Sidebar
from app.ui.sidebar.numbers import in_a_line, of_document
from app.ui.sidebar.panel import ReadoutPanel
from app.ui.sidebar.readouts import Readouts
from app.ui.transcript.list import MessageList
from app.ui.transcript.message import AnswerMessage
from app.ui.transcript.message_view import MessageView
from app.ui.widgets.hint import Hint

SIDEBAR_FROM = 100
PANEL_FROM = 110
"""Columns from which each shows by itself."""
_MIN_TEXT = 44
"""Columns of the conversation at least."""
_ROOMY_FROM = 160
_NARROW, _WIDE = (28, 32), (36, 40)
"""Cells of the sidebar and of the panel."""
MIN_FOR_SIDEBAR, MIN_FOR_PANEL = (_MIN_TEXT + width for width in _NARROW)
"""Columns from which each can be shown."""


def side_widths(
    columns: int, sidebar: bool | None = None, panel: bool | None = None, *, panel_first: bool = True
) -> tuple[int, int]:
    """Return the cells of the sidebar and of the panel; 0 for one that is hidden.

    Args:
        columns: Width of the terminal.
        sidebar: Whether the list of conversations was chosen; None depends on the width.
        panel: Whether the numbers were chosen.
        panel_first: Whether the panel stays where only one has room.
    """
    for_sidebar, for_panel = _WIDE if columns >= _ROOMY_FROM else _NARROW
    room = columns - _MIN_TEXT
    has_sidebar = room >= for_sidebar and (columns >= SIDEBAR_FROM if sidebar is None else sidebar)
    has_panel = room >= for_panel and (columns >= PANEL_FROM if panel is None else panel)
    if has_sidebar and has_panel and room < for_sidebar + for_panel:
        has_sidebar, has_panel = not panel_first, panel_first
    return for_sidebar * has_sidebar, for_panel * has_panel


class Workspace(Horizontal):
    """Conversations on the left, numbers on the right, as far as there is room.

    The screen's class `-panel` says whether the numbers are shown.

    Args:
        session: Has the conversations and the numbers of their answers.
        readouts: Those of the running answer.
    """

    sidebar = query_one(Sidebar)
    panel = query_one(ReadoutPanel)
    messages = query_one(MessageList)
    hint = query_one(Hint)

    def __init__(self, session: Session, readouts: Readouts) -> None:
        super().__init__()
        self._session = session
        self._readouts = readouts
        self._sidebar: bool | None = None
        self._panel: bool | None = None
        self._panel_first = True
        """The last one asked for stays where only one has room."""

    def compose(self) -> ComposeResult:
        yield Sidebar(self._session.library)
        with Vertical():
            yield MessageList()
            yield Inspector()
            yield Hint()
        yield ReadoutPanel(self._readouts)

    def on_mount(self) -> None:
        self._apply_widths()

    def on_resize(self) -> None:
        self._apply_widths()

    def toggle_sidebar(self) -> None:
        self._sidebar = not self.sidebar.display
        self._panel_first = not self._sidebar
        self._apply_or_explain("conversations", MIN_FOR_SIDEBAR)

    def toggle_panel(self) -> None:
        """Show the numbers, then all of them, then none."""
        if self.panel.display and not self.panel.detailed:
            self.panel.detailed = True
            return
        self.panel.detailed = False
        self._panel = self._panel_first = not self.panel.display
        self._apply_or_explain("numbers", MIN_FOR_PANEL)

    def show_last_numbers(self, path: Sequence[Node]) -> None:
        """Show the numbers of the last answer of a branch, if the panel is shown."""
        answers = [node.id for node in path if node.role is Role.ASSISTANT]
        if answers and self.panel.display:
            self._show_numbers(answers[-1])

    @on(MessageView.Chosen)
    def _show_chosen(self, event: MessageView.Chosen) -> None:
        message_view = event.message_view
        numbers = ""
        if isinstance(message_view, AnswerMessage) and message_view.node is not None:
            numbers = self._show_numbers(message_view.node)
        self.hint.about("\n".join(filter(None, (message_view.beside, numbers))))

    @on(MessageView.Released)
    def _forget_chosen(self) -> None:
        # Another message may be chosen already.
        if self.messages.chosen is None:
            self.hint.about("")

    def _show_numbers(self, message: int) -> str:
        """Show an answer's numbers in the panel; return them as a line where there is no panel."""
        document = self._session.library.stats(message)
        if not self.panel.display:
            return in_a_line(of_document(document))
        self.panel.show_earlier(document, is_last=message == self._session.conversation.tree.leaf)
        return ""

    def _apply_widths(self) -> None:
        # The first frame is laid out before anything is resized.
        sidebar, panel = side_widths(self.app.size.width, self._sidebar, self._panel, panel_first=self._panel_first)
        for widget, width in ((self.sidebar, sidebar), (self.panel, panel)):
            widget.display = width > 0
            widget.styles.width = width
        self.screen.set_class(panel > 0, "-panel")

    def _apply_or_explain(self, name: str, columns: int) -> None:
        self._apply_widths()
        if self.app.size.width < columns:
            self.post_message(Hint.Requested(f"The {name} need a window of {columns} columns."))
