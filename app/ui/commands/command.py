"""Slash commands: parse a line, complete it, and tell it from text."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from textual.app import App

from app.conversations.attached import compose, replace_references, split
from app.core.errors import UsageError
from app.session.library import Library
from app.session.session import Session
from app.settings.kinds import Value
from app.ui.transcript.list import MessageList
from app.ui.widgets.hint import Hint

# A path such as /usr/bin has a second slash, and is no command.
# Possessive quantifiers: a paste may have a thousand spaces.
_LINE = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?:[ \t]++(?P<argument>[^\n]*+))?\s*+")
_LINES = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?=\s)(?P<argument>.*)", re.DOTALL)
_BEGUN = re.compile(r"/[A-Za-z\w-]*")
_AS_TEXT = "To send it as text, put a space before it."


class Takes(Enum):
    """The kind of a command's argument."""

    NOTHING = auto()
    WORDS = auto()
    """A few words, or none."""
    TEXT = auto()
    """A line of text, or none."""
    LINES = auto()
    """Any text, or none."""
    PATH = auto()


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: Without the slash.
        help: One line.
        run: Called with the chat and the stripped argument; raises AppError.
        takes: Kind of its argument.
        argument: Name of the argument in help; in brackets if it is optional.
        choices: The only possible arguments, if any.
    """

    name: str
    help: str
    run: Callable[[Chat, str], Awaitable[None] | None]
    takes: Takes = Takes.NOTHING
    argument: str = ""
    choices: tuple[str, ...] = ()

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
        """Return the commands that a name may become while it is typed; prefixes come first."""
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
        if argument and command.takes is Takes.NOTHING:
            raise UsageError(f"/{name} takes no argument.", _AS_TEXT)
        if command.takes is Takes.LINES:
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
        takes_text = command is not None and command.takes in (Takes.TEXT, Takes.LINES)
        return (command.name, lines["argument"].strip()) if lines and command and takes_text else None


class InputMode(Protocol):
    """Other uses of the input line."""

    def begin(self, hint: str, text: str, done: Callable[[str], Awaitable[None]]) -> None: ...


class Chat(Protocol):
    """The chat screen."""

    @property
    def app(self) -> App[object]: ...
    @property
    def library(self) -> Library: ...
    @property
    def messages(self) -> MessageList: ...
    @property
    def hint(self) -> Hint: ...
    @property
    def session(self) -> Session: ...
    @property
    def input_mode(self) -> InputMode: ...

    def set_setting(self, name: str, value: Value) -> None: ...
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None: ...
