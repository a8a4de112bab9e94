"""Slash commands: find a command by typed words, tell commands from text, and read arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol, TypeVar

from app.conversations.attached import compose, replace_references, split
from app.core.errors import UsageError
from app.ui.actions import ACTIONS, Action
from app.ui.key_names import key

# A path such as /usr/bin has a second slash, and is no command.
# Possessive quantifiers: a paste may have a thousand spaces.
_COMMAND_LINE = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?:[ \t]++(?P<argument>[^\n]*+))?\s*+")
_MULTILINE_COMMAND = re.compile(r"/(?P<name>[A-Za-z][\w-]*+)(?=\s)(?P<argument>.*)", re.DOTALL)
_VIM_LINE = re.compile(r":(?P<name>[a-z]+)!?(?:[ \t]+(?P<argument>\S*))?\s*")
_VIM_COMMANDS = {
    "q qa qall quit wq wqa wqall x xa xit": "quit",
    "set setlocal": "settings",
    "w write": "export",
    "e edit": "editor",
    "h help": "help",
}
"""Vim's commands, and our commands for the same purpose; other words after a colon are text."""
_UNFINISHED_COMMAND = re.compile(r"/[A-Za-z\w-]*")
_AS_TEXT = "To send it as text, put a space before it."


class Findable(Protocol):
    """Anything with a name, a description and search words."""

    @property
    def name(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def words(self) -> str: ...


FoundT = TypeVar("FoundT", bound=Findable)
_SHORTEST_WORD = 3
"""Letters of the shortest word that finds anything alone; "how do I" finds nothing."""
_MIN_LENGTH, _SIMILARITY = 4, 0.7
"""Shortest corrected word in letters, and its minimum similarity to a known word."""


def find(query: str, known: Sequence[FoundT]) -> list[FoundT]:
    """Return the items with every word of a query in their name, search words or description, best first.

    If there are none, correct mistyped words, and return the items with the most words of the query.
    """
    typed = query.casefold().split()
    found = _matching(typed, known)
    if found or not typed:
        return found
    vocabulary = {word for each in known for text in (each.name, each.words) for word in text.casefold().split()}
    corrected = [
        next(iter(get_close_matches(word, vocabulary, 1, _SIMILARITY) if len(word) >= _MIN_LENGTH else ()), word)
        for word in typed
    ]
    named = [word for word in corrected if len(word) >= _SHORTEST_WORD]
    return next((found for n in range(len(named), 0, -1) if (found := _matching(named, known, n))), [])


def _matching(typed: Sequence[str], known: Sequence[FoundT], n_matching: int | None = None) -> list[FoundT]:
    ranked = [([rank for word in typed if (rank := _rank(word, each)) != _NO_MATCH], each) for each in known]
    found = [(sum(ranks), each) for ranks, each in ranked if len(ranks) == (n_matching or len(typed))]
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


_NO_MATCH = 5


def _rank(typed: str, each: Findable) -> int:
    name, words, does = each.name.casefold(), each.words.casefold(), each.help.casefold()
    matches = (
        name.startswith(typed),
        any(word.startswith(typed) for word in name.split()),
        any(word.startswith(typed) for word in words.split()),
        any(word.startswith(typed) for word in does.split()),
        typed in f"{name} {words} {does}",
    )
    return matches.index(True) if True in matches else _NO_MATCH


class Commands:
    """The commands of the chat, by their names and alternative words."""

    def __init__(self, commands: Iterable[Action]) -> None:
        self.all = tuple(commands)
        self.known: Mapping[str, Action] = {
            **{word: command for command in reversed(self.all) for word in command.words.split()},
            **{command.name: command for command in self.all},
        }
        self._of_vim = {name: self.known[ours] for names, ours in _VIM_COMMANDS.items() for name in names.split()}

    def matching(self, line: str) -> Sequence[Action] | None:
        """Return the commands that match a partly typed line, best first; None if it cannot be a command."""
        return find(line[1:], self.all) if _UNFINISHED_COMMAND.fullmatch(line) else None

    def argument_of(self, text: str) -> tuple[Action, str] | None:
        """Return the command whose argument is being typed, and the argument so far."""
        name, space, argument = text[1:].partition(" ")
        command = self.known.get(name) if text.startswith("/") and space and "\n" not in text else None
        return None if command is None else (command, argument.lstrip())

    def read(self, text: str) -> tuple[Action, str]:
        """Return the command and the argument of a line.

        Raises:
            UsageError: The command is unknown, or its argument is wrong.
        """
        question, pastes = split(text)
        parts = self._parts(question)
        assert parts is not None
        name, argument = parts
        if name in self._of_vim and question.startswith(":"):
            ours = self._of_vim[name]
            if ours.name == "quit" and not argument:
                return ours, ""
            how = f" ({key(ours.id)})" if key(ours.id) else ""
            raise UsageError(f"There is no command :{name}; did you mean /{ours.name}{how}?", _AS_TEXT)
        command = self.known.get(name.lower())
        if command is None:
            near = find(name, self.all)[:1]
            other = f"did you mean /{near[0].name}?" if near else "/help lists them."
            raise UsageError(f"There is no command /{name}; {other}", _AS_TEXT)
        if argument and command.argument is None:
            raise UsageError(f"/{name} takes no argument.", _AS_TEXT)
        if command.has_lines:
            argument = replace_references(argument, {paste.reference: paste.text for paste in pastes})
        elif pastes or "\n" in argument:
            raise UsageError(f"/{name} takes a single line of text.", _AS_TEXT)
        if command.needs_argument and not argument:
            raise UsageError(f"Usage: {command.usage}")
        return command, argument

    def is_command(self, text: str) -> bool:
        """Return whether a text is a command: one line, or several if its first word is a command that takes text."""
        question, attachments = split(text)
        return self._parts(question) is not None and not any(each.is_file for each in attachments)

    def as_typed(self, message: str) -> str:
        """Return the text to type for a message: a leading space makes a command text."""
        question, attachments = split(message)
        return compose(" " + question, attachments) if self._parts(question) else message

    def _parts(self, question: str) -> tuple[str, str] | None:
        if line := _COMMAND_LINE.fullmatch(question):
            return line["name"], (line["argument"] or "").strip()
        if (vim := _VIM_LINE.fullmatch(question)) and vim["name"] in self._of_vim:
            return vim["name"], vim["argument"] or ""
        lines = _MULTILINE_COMMAND.fullmatch(question)
        command = self.known.get(lines["name"].lower()) if lines else None
        takes_text = command is not None and "TEXT" in (command.argument or "")
        return (command.name, lines["argument"].strip()) if lines and command and takes_text else None


COMMANDS = Commands(action for action in ACTIONS if action.is_command)
