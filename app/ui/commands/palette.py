"""Entries of the command palette in the chat."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import SystemCommand

from app.conversations.tree import Summary
from app.core.printable import printable
from app.session.library import Library
from app.ui.commands.chat import Chat
from app.ui.key_names import key


def chat_commands(screen: Chat, library: Library) -> Iterator[SystemCommand]:
    """Yield the commands that have something to do now."""
    yield SystemCommand("New", "Start a new conversation", screen.action_restart)
    yield SystemCommand("Compare", "One prompt with and without the draft", screen.action_compare)
    yield SystemCommand("Tokens", "Show the source of each token", screen.action_toggle_tokens)
    yield SystemCommand("Numbers", "Show or hide the numbers", screen.action_toggle_panel)
    if screen.check_action("conversations", ()):
        yield SystemCommand("Conversations", "Search conversations", screen.action_conversations)
        summary = library.summary(library.conversation)
        if summary is not None:
            yield from _conversation_commands(screen, library, summary)
        if library.can_undelete:
            yield SystemCommand("Undelete", "Restore the last deleted conversation", lambda: _undelete(screen, library))
    if screen.check_action("settings", ()):
        yield SystemCommand("Settings", "See and change every setting", screen.action_settings)
    if screen.check_action("pairs", ()):
        yield SystemCommand("Models", "Choose, download or add a pair of models", screen.action_pairs)


def _conversation_commands(screen: Chat, library: Library, summary: Summary) -> Iterator[SystemCommand]:
    """Yield what can be done with the open conversation."""
    title = f'"{printable(summary.title)}"' if summary.title else "This conversation"

    def pin() -> None:
        library.pin(summary.id, not summary.pinned)
        screen.hint.say(f"{title} is {'no longer ' if summary.pinned else ''}pinned.")

    async def delete() -> None:
        library.delete(summary.id)
        await screen.open_conversation(None)
        screen.hint.say(f"{title} is deleted; {key('app.commands', 'ctrl+p')}, Undelete restores it.")

    def rename() -> None:
        takes, leaves = key("prompt.send", "enter"), key("chat.leave_task", "esc")
        hint = f"Renaming the conversation: {takes} saves the title, {leaves} keeps the old one."
        screen.input_mode.begin(hint, summary.title, save_title)

    async def save_title(text: str) -> None:
        named = library.rename(summary.id, text)
        screen.hint.say(f'The conversation is called "{printable(named)}".')

    yield SystemCommand("Messages", "Choose a message to edit or answer again", screen.action_choose)
    yield SystemCommand("Rename", "Give this conversation another title", rename)
    if summary.pinned:
        yield SystemCommand("Unpin", "Unpin this conversation", pin)
    else:
        yield SystemCommand("Pin", "Keep this conversation at the top of the list", pin)
    yield SystemCommand("Delete", "Delete this conversation; Undelete restores it", delete)


async def _undelete(screen: Chat, library: Library) -> None:
    conversation = library.undelete()
    if conversation is not None:
        await screen.open_conversation(conversation)
