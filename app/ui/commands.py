"""Slash commands and the command palette: parse a line, complete it, tell it from text, and run it."""

from __future__ import annotations

import re
from asyncio import wrap_future
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from textual.app import App, SystemCommand
from textual.content import Content

from app.conversations.attached import compose, replace_references, split
from app.conversations.message import Role
from app.conversations.titles import fit, one_line
from app.conversations.tree import Conversation
from app.core import atomic
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.core.program import in_background
from app.models.source import home_expanded
from app.session.session import Session
from app.settings.kinds import Value
from app.ui.key_names import key
from app.ui.reading.rows import table
from app.ui.terminal.copying import copy_text
from app.ui.transcript.list import MessageList
from app.ui.widgets.hint import Hint

# A path such as /usr/bin has a second slash, and is no command.
# Possessive quantifiers: a paste may have a thousand spaces.
_LINE = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?:[ \t]++(?P<argument>[^\n]*+))?\s*+")
_LINES = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?=\s)(?P<argument>.*)", re.DOTALL)
_BEGUN = re.compile(r"/[A-Za-z\w-]*")
_AS_TEXT = "To send it as text, put a space before it."
PATH = "FILE"
"""Name of an argument that is a path."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: Without the slash.
        help: One line.
        run: Called with the chat and the stripped argument; raises AppError.
        argument: Name of the argument in help, in brackets if it is optional; "" for none.
        choices: The only possible arguments, if any.
        has_lines: Whether the argument may have several lines.
    """

    name: str
    help: str
    run: Callable[[Chat, str], Awaitable[None] | None]
    argument: str = ""
    choices: tuple[str, ...] = ()
    has_lines: bool = False

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.argument}".rstrip()

    @property
    def needs_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")


class Commands:
    """The commands of the chat, in the order in which help lists them."""

    def __init__(self, known: Iterable[Command]) -> None:
        self.known: Mapping[str, Command] = {command.name: command for command in known}

    def matching(self, line: str) -> Sequence[Command]:
        """Return the commands that match a partly typed name; those that begin with it come first."""
        if not _BEGUN.fullmatch(line):
            return ()
        typed = line[1:].casefold()
        begin = [command for name, command in self.known.items() if name.startswith(typed)]
        return begin + [command for name, command in self.known.items() if typed in name and command not in begin]

    def argument_of(self, text: str) -> tuple[Command, str] | None:
        """Return the command whose argument is being typed, and the argument so far."""
        name, space, argument = text[1:].partition(" ")
        command = self.known.get(name) if text.startswith("/") and space and "\n" not in text else None
        return None if command is None else (command, argument.lstrip())

    def read(self, text: str) -> tuple[Command, str]:
        """Return the command and the argument of a line.

        Raises:
            UsageError: There is no such command, or its argument is wrong.
        """
        question, pastes = split(text)
        parts = self._parts(question)
        assert parts is not None
        name, argument = parts
        command = self.known.get(name)
        if command is None:
            raise UsageError(f"There is no command /{name}; /help lists them.", _AS_TEXT)
        if argument and not command.argument:
            raise UsageError(f"/{name} takes no argument.", _AS_TEXT)
        if command.has_lines:
            argument = replace_references(argument, {paste.reference: paste.text for paste in pastes})
        elif pastes or "\n" in argument:
            raise UsageError(f"/{name} takes one line.", _AS_TEXT)
        wrong = bool(command.choices) and bool(argument) and argument not in command.choices
        if wrong or (command.needs_argument and not argument):
            raise UsageError(f"Usage: {command.usage}")
        return command, argument

    def is_command(self, text: str) -> bool:
        """Return whether a text is a command: one line, or several if its first word is a command that takes text."""
        question, attachments = split(text)
        return self._parts(question) is not None and not any(each.is_file for each in attachments)

    def as_typed(self, message: str) -> str:
        """Return what to type for a message: a space in front makes a command text."""
        question, attachments = split(message)
        return compose(" " + question, attachments) if self._parts(question) else message

    def _parts(self, question: str) -> tuple[str, str] | None:
        """Return the name and argument of a command; None for text."""
        if line := _LINE.fullmatch(question):
            return line["name"].lower(), (line["argument"] or "").strip()
        lines = _LINES.fullmatch(question)
        command = self.known.get(lines["name"].lower()) if lines else None
        takes_text = command is not None and "TEXT" in command.argument
        return (command.name, lines["argument"].strip()) if lines and command and takes_text else None


class Chat(Protocol):
    """The chat screen."""

    @property
    def app(self) -> App[object]: ...
    @property
    def messages(self) -> MessageList: ...
    @property
    def hint(self) -> Hint: ...
    @property
    def session(self) -> Session: ...

    def set_setting(self, name: str, value: Value) -> None: ...
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None: ...


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
    messages = reversed(chat.session.conversation.messages_before(None))
    return next((message.content for message in messages if message.role is Role.ASSISTANT), "")


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
    conversation = chat.session.library.with_conversation(lambda store, number: store.load(number))
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
    from app.conversations.export import n_left_out, to_json, to_markdown

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
    left_out = f" {n:,} message{'s' * (n != 1)} of other branches left out; .json keeps them." if n else ""
    return f"Saved as {file}.{left_out}"


def _title(chat: Chat, title: str) -> None:
    library = chat.session.library
    if library.conversation is None:
        raise AppError("This conversation is empty; send a prompt first.")
    chat.hint.say(f'This conversation is called "{printable(library.rename(library.conversation, title))}".')


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
        Command("copy", "copy the answer or its last code", _copy, "[code]", ("code",)),
        Command("save", "save this conversation as Markdown or .json", _save, PATH),
        Command("models", "choose or add a pair of models", _action("pairs")),
        Command("title", "rename this conversation", _title, "[TEXT]"),
        Command("system", "system prompt for this conversation", _system, f"[TEXT|{_NONE}]", has_lines=True),
        Command("summary", "change the summary of earlier messages", _action("edit_summary")),
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
        if screen.check_action(action, ()) and (action != "choose" or screen.session.library.conversation is not None):
            yield SystemCommand(name, text, partial(_action(action), screen, ""))
