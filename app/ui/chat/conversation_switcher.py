"""Going from one conversation to another; what is typed stays with the one that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ui.chat.base import ChatBase
from app.ui.chat.input_mode import InputMode
from app.ui.chat.message_actions import MessageActions
from app.ui.chat.prompt_sender import PromptSender
from app.ui.chat.renderer import Renderer
from app.ui.key_names import key

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker


class ConversationSwitcher:
    """Begins and opens conversations.

    Args:
        screen: The chat.
        renderer: Draws the other conversation.
        sender: Reads files for the one that is left.
        input_mode: What is typed there.
        actions: Shows another branch.
    """

    def __init__(
        self,
        screen: ChatBase,
        renderer: Renderer,
        sender: PromptSender,
        input_mode: InputMode,
        actions: MessageActions,
    ) -> None:
        self._screen = screen
        self._session = screen.session
        self._renderer = renderer
        self._sender = sender
        self._input_mode = input_mode
        self._actions = actions

    async def new(self) -> None:
        """Begin an empty conversation, and type in it."""
        self._screen.prompt.focus()
        self._screen.hint.forget()
        self._screen.sidebar.end_search()
        await self._leave_for(None)

    async def open(self, conversation: int | None) -> None:
        """Open another conversation; None stays, unless the open one was deleted."""
        if conversation is not None and conversation != self._session.library.conversation:
            self._screen.hint.forget()
            await self._leave_for(conversation)
        elif self._session.library.is_deleted:
            await self._leave_for(None)

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Open the conversation that was found, at the message that was found; None stays."""
        if found is not None:
            self._screen.sidebar.end_search()
        await self.open(found.conversation if found is not None else None)
        if found is not None and found.message is not None:
            await self._reveal(found.message)

    async def _reveal(self, message: int) -> None:
        tree = self._session.conversation.tree
        if message in tree.nodes and tree.nodes[message] not in tree.path:
            if self._session.is_busy:
                stops = key("chat.stop", "esc")
                self._screen.hint.say(f"It stands in another branch; {stops} stops what is being asked here.")
                return
            await self._actions.switch(message)
        await self._screen.messages.seek(message)

    async def _leave_for(self, conversation: int | None) -> None:
        session, pending = self._session, self._input_mode.pending_text
        if conversation is None:
            session.new_conversation(pending)
        elif not session.open_conversation(conversation, pending):
            return
        self._sender.give_up_reading()
        self._input_mode.end()
        self._screen.prompt.put(session.conversation.draft)
        await self._renderer.render()
