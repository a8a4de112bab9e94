"""Slash commands: what a line that begins with a slash asks for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from typing import TYPE_CHECKING

from app.conversations.attached import compose, in_other_words, split
from app.core.errors import UsageError

if TYPE_CHECKING:
    from app.ui.commands.chat import Chat

# A path such as /usr/bin has a second slash, and is no command.
# What is pasted may have a thousand spaces: nothing is tried twice.
_LINE = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?:[ \t]++(?P<argument>[^\n]*+))?\s*+")
_LINES = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?=\s)(?P<argument>.*)", re.DOTALL)
_BEGUN = re.compile(r"/[A-Za-z\w-]*")


class Takes(Enum):
    """What stands behind a command's name."""

    NOTHING = auto()
    WORDS = auto()
    """Words that it knows, or none."""
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
        run: Does it, given the chat and the argument without spaces around it; raises AppError for a refusal.
        takes: What its argument is.
        argument: How help calls the argument; in brackets if it can be left out.
        choices: The only arguments there are, if they are few.
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
    """The commands of the chat.

    Args:
        known: In the order in which help lists them.
        elsewhere: What other programs call them, and the name here, which whoever types that is told.
    """

    def __init__(self, known: Iterable[Command], elsewhere: Iterable[tuple[str, str]] = ()) -> None:
        self.known: Mapping[str, Command] = {command.name: command for command in known}
        self._elsewhere = dict(elsewhere)

    def matching(self, line: str) -> Sequence[Command]:
        """The commands that a line may become while its name is typed; names that begin so come first."""
        if not _BEGUN.fullmatch(line):
            return ()
        typed = line[1:].casefold()
        begin = [command for name, command in self.known.items() if name.startswith(typed)]
        return begin + [command for name, command in self.known.items() if typed in name and command not in begin]

    def argument_of(self, text: str) -> tuple[Command, str] | None:
        """The command whose argument is being typed, and the argument so far."""
        name, space, argument = text[1:].partition(" ")
        command = self.known.get(name) if text.startswith("/") and space and "\n" not in text else None
        return None if command is None else (command, argument.lstrip())

    def read(self, text: str) -> tuple[Command, str]:
        """The command that a line gives, and its argument.

        Raises:
            UsageError: There is no such command, or its argument is wrong.
        """
        question, pastes = split(text)
        parts = self._parts(question)
        assert parts is not None
        name, argument = parts
        command = self.known.get(name)
        if command is None:
            near = self._nearest(name)
            meant = f"did you mean /{near}?" if near else "/help lists them."
            raise UsageError(f"There is no command /{name};", f"{meant} Two slashes send it as text.")
        if argument and command.takes is Takes.NOTHING:
            raise UsageError(f"/{name} takes nothing behind it.", "A space in front sends the line as text.")
        if command.takes is Takes.LINES:
            argument = in_other_words(argument, {paste.reference: paste.text for paste in pastes})
        elif pastes or "\n" in argument:
            raise UsageError(f"/{name} takes one line.", "A space in front sends the text as it stands.")
        wrong = bool(command.choices) and argument not in command.choices
        if (wrong and (argument or command.needs_argument)) or (command.needs_argument and not argument):
            raise UsageError(f"Give it as {command.usage}.")
        return command, argument

    def _nearest(self, name: str) -> str:
        """The command that was probably meant; "" where none is near."""
        if (here := self._elsewhere.get(name)) is not None:
            return here
        begun = (known for known in self.known if known.startswith(name))
        return next(chain(begun, difflib.get_close_matches(name, self.known, n=1)), "")

    def is_command(self, text: str) -> bool:
        """Whether a text asks for something rather than says it.

        One line does; several do where the first one names a command that takes text, pasted or not.
        """
        question, attachments = split(text)
        return self._parts(question) is not None and not any(each.is_file for each in attachments)

    def as_said(self, question: str) -> str:
        """What a prompt says: two slashes in front mean one."""
        return question[1:] if question.startswith("//") and self._parts(question[1:]) else question

    def as_typed(self, message: str) -> str:
        """What to type for a message; the other way round than `as_said`."""
        question, attachments = split(message)
        return compose("/" + question, attachments) if self._parts(question) else message

    def _parts(self, question: str) -> tuple[str, str] | None:
        """The name of a command and what stands behind it; None for what is none."""
        if line := _LINE.fullmatch(question):
            return line["name"].lower(), (line["argument"] or "").strip()
        lines = _LINES.fullmatch(question)
        command = self.known.get(lines["name"].lower()) if lines else None
        takes_text = command is not None and command.takes in (Takes.TEXT, Takes.LINES)
        return (command.name, lines["argument"].strip()) if lines and command and takes_text else None
