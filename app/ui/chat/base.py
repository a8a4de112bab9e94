"""The widgets of the chat screen, and the session that they show."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from app.session.session import Session
from app.ui.chat.inspector import Inspector
from app.ui.chat.layout import Workspace
from app.ui.composer.completion import Suggestions
from app.ui.composer.input import PromptInput
from app.ui.conversations.sidebar import Sidebar
from app.ui.event_queue import EventDispatcher
from app.ui.keys import KeyBar
from app.ui.models.downloads import DownloadLines
from app.ui.models.service import PairService
from app.ui.sidebar.panel import ReadoutPanel, StatusLine
from app.ui.sidebar.readouts import Readouts
from app.ui.text import MARK
from app.ui.transcript.list import MessageList
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint


class ChatBase(Screen[None]):
    """The screen as the other modules of this package see it.

    Args:
        session: What it shows.
        pairs: The pairs to choose from; None without a choice.
    """

    header = query_one(HeaderLine)
    messages = query_one(MessageList)
    inspector = query_one(Inspector)
    hint = query_one(Hint)
    workspace = query_one(Workspace)
    sidebar = query_one(Sidebar)
    panel = query_one(ReadoutPanel)
    prompt = query_one(PromptInput)

    dispatcher: EventDispatcher

    def __init__(self, session: Session, pairs: PairService | None) -> None:
        super().__init__()
        self.session = session
        self.library = session.library
        self.status = Readouts()
        self.shows_tokens = False
        self._pairs = pairs

    def compose(self) -> ComposeResult:
        yield HeaderLine(self.session.settings.title)
        yield Workspace(self.session, self.status)
        if self._pairs is not None:
            yield DownloadLines(self._pairs)
        yield StatusLine(self.status)
        yield (menu := Suggestions())
        with Horizontal(id="entry"):
            yield Static(MARK, id="mark")
            yield PromptInput(menu, self.library)
        yield KeyBar()

    @property
    def has_pairs(self) -> bool:
        """Return whether there are pairs to choose from."""
        return self._pairs is not None
