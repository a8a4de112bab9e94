"""Entries of the command palette in the chat."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual.app import SystemCommand

from app.core.printable import printable
from app.session.library import Library
from app.ui.commands.chat import Chat
from app.ui.key_names import key

_UNTITLED = "This conversation"


def chat_commands(screen: Chat, library: Library) -> Iterator[SystemCommand]:
    """Yield the commands that have something to do now.

    Args:
        screen: The chat.
        library: Has the conversations.
    """
    yield SystemCommand("New", "Begin a new conversation", screen.action_restart)
    yield SystemCommand("Compare", "One prompt with and without the draft", screen.action_compare)
    yield SystemCommand("Tokens", "Show the source of each token", screen.action_toggle_tokens)
    yield SystemCommand("Numbers", "Show or hide the numbers", screen.action_toggle_panel)
    if screen.check_action("conversations", ()):
        yield SystemCommand("Conversations", "Look for a conversation", screen.action_conversations)
        yield from ConversationCommands(screen, library)
    if screen.check_action("settings", ()):
        yield SystemCommand("Settings", "See and change every setting", screen.action_settings)
    if screen.check_action("pairs", ()):
        yield SystemCommand("Models", "Choose, download or add a pair of models", screen.action_pairs)


class ConversationCommands:
    """Rename, pin, delete and restore the open conversation.

    Args:
        screen: The chat.
        library: Has the conversations.
    """

    def __init__(self, screen: Chat, library: Library) -> None:
        self._screen = screen
        self._library = library

    def __iter__(self) -> Iterator[SystemCommand]:
        """Yield the commands that have something to do now."""
        summary = self._library.summary(self._library.conversation)
        if summary is not None:
            yield SystemCommand("Messages", "Choose a message to edit or answer again", self._screen.action_choose)
            yield SystemCommand("Rename", "Give this conversation another title", self.rename)
            if summary.named:
                yield SystemCommand("Title from the text", "Name it after its first prompt again", self.unname)
            if summary.pinned:
                yield SystemCommand("Unpin", "Unpin this conversation", self.pin)
            else:
                yield SystemCommand("Pin", "Keep this conversation at the top of the list", self.pin)
            yield SystemCommand("Delete", "Delete this conversation; Undelete restores it", self.delete)
        if self._library.can_undelete:
            yield SystemCommand("Undelete", "Restore the last deleted conversation", self.undelete)

    def rename(self) -> None:
        """Edit the title in the input line."""
        summary = self._library.summary(self._library.conversation)
        if summary is not None:
            takes, leaves = key("prompt.send", "enter"), key("chat.leave_task", "esc")
            hint = f"Renaming the conversation: {takes} takes the title, {leaves} leaves it as it was."
            self._screen.input_mode.begin(hint, summary.title, self._take_title)

    def unname(self) -> None:
        """Use the title made from the first prompt."""
        if self._library.conversation is not None:
            self._tell_title(self._library.rename(self._library.conversation, ""))

    def pin(self) -> None:
        """Pin or unpin it."""
        summary = self._library.summary(self._library.conversation)
        if summary is not None:
            self._library.pin(summary.id, not summary.pinned)
            self._screen.hint.say(f"{_title(summary.title)} is {'no longer ' if summary.pinned else ''}pinned.")

    async def delete(self) -> None:
        """Delete it and begin an empty one."""
        summary = self._library.summary(self._library.conversation)
        if summary is not None:
            self._library.delete(summary.id)
            await self._screen.open_conversation(None)
            commands = key("app.commands", "ctrl+p")
            self._screen.hint.say(f"{_title(summary.title)} is deleted; {commands}, Undelete brings it back.")

    async def undelete(self) -> None:
        """Restore the last deleted conversation and open it."""
        conversation = self._library.undelete()
        if conversation is not None:
            await self._screen.open_conversation(conversation)

    async def _take_title(self, text: str, _: Callable[[], None]) -> None:
        if self._library.conversation is not None:
            self._tell_title(self._library.rename(self._library.conversation, text))

    def _tell_title(self, title: str) -> None:
        self._screen.hint.say(f"The conversation is called {_title(title)}.")


def _title(title: str) -> str:
    return f'"{printable(title)}"' if title else _UNTITLED
