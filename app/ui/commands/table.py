"""The chat's slash commands, in the order of /help, and its entries of the command palette."""

from __future__ import annotations

import re
from asyncio import wrap_future
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from textual.app import SystemCommand
from textual.content import Content

from app.conversations.export import n_left_out, to_json, to_markdown
from app.conversations.message import Message, Role
from app.conversations.titles import fit, one_line
from app.conversations.tree import Conversation
from app.core import atomic
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.core.program import in_background
from app.models.source import home_expanded
from app.ui.commands.command import Chat, Command, Commands, Takes
from app.ui.key_names import key
from app.ui.reading.rows import table
from app.ui.terminal.copying import copy_text

_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,8}")
"""Of a file name; a title may have other dots."""
_NONE = "-"
_BRIEF = 24
"""Columns of a system prompt in a message."""


def _last_answer(chat: Chat) -> str:
    """Return the newest answer with text; "" without one. A model that still thinks has not answered yet."""
    newest = chat.messages.answer
    if newest is not None and (shown := newest.text.strip()):
        return shown
    return next((message.content for message in reversed(_messages(chat)) if message.role is Role.ASSISTANT), "")


def _messages(chat: Chat) -> Sequence[Message]:
    return chat.session.conversation.messages_before(None)


def code_blocks(markdown: str) -> tuple[str, ...]:
    """Return the fenced code of a text without its fences; an unclosed one counts."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(markdown)
    return tuple(token.content.rstrip("\n") for token in tokens if token.type == "fence")


def _copy(chat: Chat, what: str) -> None:
    answer = _last_answer(chat)
    if not answer:
        raise AppError("There is no answer to copy yet.")
    if not what:
        copy_text(chat.app, answer, "the answer")
    elif blocks := code_blocks(answer):
        copy_text(chat.app, blocks[-1], "the last code" if len(blocks) > 1 else "the code")
    else:
        raise AppError("The answer has no code.")


async def _save(chat: Chat, name: str) -> None:
    """Write the conversation to a new file: as JSON if its name says so, else as Markdown."""
    conversation = chat.library.with_conversation(lambda store, number: store.load(number))
    if conversation is None:
        raise AppError("Nothing to save yet.")
    file = home_expanded(name)
    if not file.name:
        raise UsageError(f"{printable(name)} is a folder.", "Name a file in it.")
    if not _SUFFIX.fullmatch(file.suffix):
        file = file.with_name(file.name + ".md")
    chat.hint.say(await wrap_future(in_background(partial(_write_conversation, conversation, file), "save")))


def _write_conversation(conversation: Conversation, file: Path) -> str:
    """Write a conversation; return a sentence about it. The disk may be slow."""
    as_json = file.suffix.lower() == ".json"
    text = to_json([conversation]) if as_json else to_markdown([conversation])
    try:
        atomic.create(file, text.encode())
    except FileExistsError as error:
        raise UsageError(f"{file} exists already.", "Choose another name.") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise AppError(f"{file} cannot be written: {reason}.", "Choose another place.") from error
    n = 0 if as_json else n_left_out(conversation)
    left_out = f" {n:,} message{'s' * (n != 1)} of other branches left out; a .json takes all." if n else ""
    return f"Saved as {file}.{left_out}"


def _title(chat: Chat, title: str) -> None:
    conversation = chat.library.conversation
    if conversation is None:
        raise AppError("This conversation is empty; send a prompt first.")
    chat.hint.say(f'This conversation is called "{printable(chat.library.rename(conversation, title))}".')


def _system(chat: Chat, text: str) -> None:
    now = chat.session.settings.system
    if text and text != _NONE:
        chat.set_setting("answer.system", text)
        chat.hint.say("The system prompt applies from the next prompt on.")
    elif text:
        chat.set_setting("answer.system", None)
        chat.hint.say("Removed the system prompt of this conversation.")
    elif now:
        brief = fit(one_line(now), _BRIEF)
        chat.hint.say(f'System prompt: "{brief}"; /system {_NONE} removes the one of this conversation.')
    else:
        chat.hint.say("There is no system prompt; /system TEXT sets one.")


def _summary(chat: Chat, _: str) -> None:
    if chat.session.summary is None:
        raise AppError("There is no summary of earlier messages.")

    async def change(text: str) -> None:
        chat.session.set_summary(text)
        chat.hint.say("The next answer uses the new summary.")

    chat.input_mode.begin("Change the summary of the earlier messages", chat.session.summary, change)


async def _help(chat: Chat, _: str) -> None:
    texts = [(command.usage, command.help) for command in COMMANDS.known.values()]
    texts += [("@file", "include a file"), (key("app.keys", "f1"), "every key")]
    await chat.messages.show_text(table([Content.styled(name, "$foreground"), Content(does)] for name, does in texts))


def _action(name: str) -> Callable[[Chat, str], None]:
    """Return a command that does what a key of the chat does."""
    return lambda chat, _: getattr(chat, f"action_{name}")()


COMMANDS = Commands(
    [
        Command("new", "start a new conversation", _action("restart")),
        Command("open", "search and open a conversation", _action("conversations")),
        Command("again", "regenerate the last answer", _action("again")),
        Command("stop", "stop the answer; its text stays", _action("stop")),
        Command("copy", "copy the answer or its last code", _copy, Takes.WORDS, "[code]", choices=("code",)),
        Command("save", "save this conversation as Markdown or .json", _save, Takes.PATH, "FILE"),
        Command("models", "choose or add a pair of models", _action("pairs")),
        Command("title", "rename this conversation", _title, Takes.TEXT, "[TEXT]"),
        Command("system", "system prompt for this conversation", _system, Takes.LINES, f"[TEXT|{_NONE}]"),
        Command("summary", "change the summary of earlier messages", _summary),
        Command("help", "list commands and keys", _help),
        Command("quit", "quit Tandem", lambda chat, _: chat.app.action_quit()),
    ],
)


_PALETTE = (
    ("New", "Start a new conversation", "restart"),
    ("Compare", "One prompt with and without the draft", "compare"),
    ("Tokens", "Show the source of each token", "toggle_tokens"),
    ("Numbers", "Show or hide the numbers", "toggle_panel"),
    ("Conversations", "Search, rename, pin or delete", "conversations"),
    ("Messages", "Choose a message to edit or answer again", "choose"),
    ("Settings", "See and change every setting", "settings"),
    ("Models", "Choose, download or add a pair of models", "pairs"),
)


def chat_commands(screen: Chat) -> Iterator[SystemCommand]:
    """Yield the entries of the palette that have something to do now."""
    for name, text, action in _PALETTE:
        if screen.check_action(action, ()) and (action != "choose" or screen.library.conversation is not None):
            yield SystemCommand(name, text, partial(_action(action), screen, ""))
