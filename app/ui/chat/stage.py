"""What those who do the chat's work have in common: its widgets, and what these show."""

from __future__ import annotations

from textual.getters import query_one
from textual.screen import Screen

from app.ui.chat.inspector import Inspector
from app.ui.chat.session import ChatSession
from app.ui.chat.workspace import Workspace
from app.ui.conversations.sidebar import Sidebar
from app.ui.listening.listener import Listener
from app.ui.messages.list import MessageList
from app.ui.prompt.input import PromptInput
from app.ui.readouts.panel import ReadoutPanel
from app.ui.readouts.state import Readouts
from app.ui.terminal.attention import Attention
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint


class Stage(Screen[None]):
    """The screen, without anything that is done on it: what does it stands in the other modules here.

    Args:
        session: What is being talked about.
        has_pairs: Whether there are pairs to choose from.
    """

    header = query_one(HeaderLine)
    messages = query_one(MessageList)
    inspector = query_one(Inspector)
    hint = query_one(Hint)
    workspace = query_one(Workspace)
    sidebar = query_one(Sidebar)
    panel = query_one(ReadoutPanel)
    prompt = query_one(PromptInput)

    listener: Listener
    """Told when there will be something to hear."""
    attention: Attention
    """Gets the user's when an answer has ended."""

    def __init__(self, session: ChatSession, *, has_pairs: bool) -> None:
        super().__init__()
        self.session = session
        self.has_pairs = has_pairs
        self.status = Readouts()

    def show_ready(self) -> None:
        """Say that a prompt may come, if it may."""
        if self.session.pair is not None:
            self.status.ready(self.session.pair.n_ctx)
