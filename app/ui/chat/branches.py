"""The branches of a conversation, on the screen."""

from __future__ import annotations

from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.session import Phase
from app.ui.keeping.keeper import Keeper
from app.ui.keeping.kept import Opened


class Branches:
    """For the chat screen.

    Args:
        screen: The chat.
        keeper: Has the conversation with its branches.
    """

    def __init__(self, screen: BareChatScreen, keeper: Keeper) -> None:
        self._screen = screen
        self._keeper = keeper

    async def show(self, opened: Opened | None, instead: int) -> None:
        """Show another branch from the place of a message on, and go on from its end.

        Args:
            opened: What the store says of the branch; None leaves everything as it is.
            instead: The message.
        """
        if opened is None:
            return
        screen, session, tree = self._screen, self._screen.session, self._keeper.tree
        session.restart(opened.said, opened.asked, answered=opened.answered)
        screen.inspector.begin()
        screen.hint.forget()
        siblings = {sibling.id for sibling in tree.siblings(instead)}
        depth = next((at for at, node in enumerate(opened.path) if node.id in siblings), 0)
        speech = await screen.messages.reach(instead)
        if speech is None:
            await screen.messages.show(opened.path)
        else:
            await screen.messages.cut(speech, opened.path[depth:])
        screen.messages.mark(tree)
        if session.phase is Phase.READY:
            screen.show_ready()
        screen.workspace.show_last_numbers(opened.path)
        screen.refresh_bindings()
