"""What those who do the chat's work have in common: its widgets, and what these show."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from app.session.keeper import Keeper
from app.ui.chat.inspector import Inspector
from app.ui.chat.session import ChatSession
from app.ui.chat.workspace import Workspace
from app.ui.composer.included_line import IncludedLine
from app.ui.composer.input import PromptInput
from app.ui.composer.suggestions import Suggestions
from app.ui.conversations.sidebar import Sidebar
from app.ui.keys.bar import KeyBar
from app.ui.listening.listener import Listener
from app.ui.models.downloads import DownloadLines
from app.ui.models.state import PairCard, PairService
from app.ui.sidebar.panel import ReadoutPanel
from app.ui.sidebar.readouts import Readouts
from app.ui.sidebar.status_line import StatusLine
from app.ui.terminal.attention import Attention
from app.ui.text import MARK
from app.ui.transcript.list import MessageList
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint


class BareChatScreen(Screen[None]):
    """The screen, without anything that is done on it: what does it stands in the other modules here.

    Args:
        session: What is being talked about.
        keeper: Has the conversations.
        pairs: The pairs to choose from, or None.
    """

    header = query_one(HeaderLine)
    messages = query_one(MessageList)
    inspector = query_one(Inspector)
    hint = query_one(Hint)
    workspace = query_one(Workspace)
    sidebar = query_one(Sidebar)
    panel = query_one(ReadoutPanel)
    prompt = query_one(PromptInput)
    included = query_one(IncludedLine)

    listener: Listener
    """Told when there will be something to hear."""
    attention: Attention
    """Gets the user's when an answer has ended."""

    def __init__(self, session: ChatSession, keeper: Keeper, pairs: PairService | None) -> None:
        super().__init__()
        self.session = session
        self.keeper = keeper
        self.status = Readouts()
        self._pairs = pairs

    def compose(self) -> ComposeResult:
        yield HeaderLine(self.session.settings.title)
        yield Workspace(self.keeper, self.status)
        if self._pairs is not None:
            yield DownloadLines(self._pairs)
        yield StatusLine(self.status)
        yield (menu := Suggestions())
        with Horizontal(id="entry"):
            yield Static(MARK, id="mark")
            yield PromptInput(menu)
        yield IncludedLine()
        yield KeyBar()

    @property
    def has_pairs(self) -> bool:
        """Whether there are pairs to choose from."""
        return self._pairs is not None

    def roomier_pair(self, n_tokens: int) -> PairCard | None:
        """A pair whose context would hold so many tokens, other than the open one; None where none is known."""
        return self._pairs.look().with_longer_context(n_tokens) if self._pairs is not None else None

    def tell_included(self) -> None:
        """Say what the prompt includes, for the pair that is loaded."""
        self.included.look(self.prompt.text, self.prompt.pastes, self.session.pair)

    def show_ready(self) -> None:
        """Say that a prompt may come, if it may."""
        if self.session.pair is not None:
            self.status.ready(self.session.pair.n_ctx, is_empty=not self.session.said)
