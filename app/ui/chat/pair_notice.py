"""Notice that the loaded model differs from the one that wrote the conversation."""

from __future__ import annotations

from app.conversations.message import Role
from app.session.keeper import Keeper
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.key_names import key


class PairNotice:
    """Show the notice once per opened conversation, as soon as a pair is loaded.

    Only the target counts: a draft model changes no answer.

    Args:
        screen: The chat.
        keeper: Knows the conversation's model and the loaded one.
    """

    def __init__(self, screen: BareChatScreen, keeper: Keeper) -> None:
        self._screen = screen
        self._keeper = keeper
        self._due = False

    async def conversation_opened(self) -> None:
        """Compare the conversation's model with the loaded one, now or when one is loaded."""
        self._due = True
        await self.update()

    async def update(self) -> None:
        """Show the notice if it is due, or remove one that named another pair."""
        if self._screen.session.pair is None:
            return
        path, now = self._keeper.tree.path, self._keeper.models["target"]
        used = next((node.model for node in reversed(path) if node.role is Role.ASSISTANT and node.model), now)
        text = ""
        if self._due and used != now:
            change = f" {key('chat.pairs', 'f6')} changes the pair." if self._screen.has_pairs else ""
            text = f"This conversation used {used}. Now answering: {now}.{change}"
        self._due = False
        await self._screen.messages.show_pair_notice(text)
