"""Which conversation the chat is in, and going from one to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ui.chat.session import Phase
from app.ui.keeping.keeper import Keeper
from app.ui.keeping.kept import Opened

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker
    from app.ui.screens.chat import ChatScreen


class Whereabouts:
    """Leaves one conversation for another; what is typed stays with the one that is left.

    Args:
        screen: The chat.
        keeper: Has the conversations.
    """

    def __init__(self, screen: ChatScreen, keeper: Keeper) -> None:
        self._screen = screen
        self._keeper = keeper

    async def begin_anew(self) -> None:
        """Begin an empty conversation, and write in it."""
        self._screen.prompt.focus()
        await self._leave()

    async def _leave(self) -> None:
        screen, unsent = self._screen, self._screen.unsent
        screen.steering.leave()
        await screen.asking.take_back()
        await self._go_to(self._keeper.leave(unsent))

    async def open(self, conversation: int | None) -> None:
        """Go on with another conversation; None stays, unless the one that goes on was deleted."""
        screen = self._screen
        if conversation is not None and conversation != self._keeper.conversation:
            unsent = screen.unsent
            screen.steering.leave()
            await screen.asking.take_back()
            if opened := self._keeper.open(conversation, unsent):
                await self._go_to(opened)
        elif self._keeper.is_deleted:
            # The keys stay where the one that brings it back is.
            await self._leave()

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Go on with the conversation that was found, and show the message; None stays."""
        await self.open(found.conversation if found is not None else None)
        if found is not None and found.message is not None:
            await self._screen.messages.seek(found.message)

    async def _go_to(self, opened: Opened) -> None:
        screen, session = self._screen, self._screen.session
        screen.asking.cancel()
        session.restart(opened.said, opened.asked)
        screen.tokens.begin()
        screen.prompt.put(opened.draft)
        await screen.messages.show(opened.path)
        screen.messages.mark(self._keeper.tree)
        await screen.own_settings.enter(opened.settings)
        screen.hint.unseen(False)
        screen.hint.repeating(0)
        await screen.pair_loading.load_next()
        if session.phase is Phase.READY:
            screen.show_ready()
        screen.sidebar.look_again()
        screen.workspace.show_last_numbers(opened.path)
        screen.refresh_bindings()
