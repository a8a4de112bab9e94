"""What is being typed at the cursor, and what it could become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from app.ui.commands.command import Command, Commands, Takes
from app.ui.composer.references import completed, reference_at
from app.ui.composer.suggestions import Suggestion
from app.ui.widgets.path_completion import PathCompletion


class Kind(Enum):
    """What is being typed."""

    COMMAND = auto()
    CHOICE = auto()
    PATH = auto()
    """Of a command."""
    REFERENCE = auto()


@dataclass(frozen=True, slots=True)
class Site:
    """A piece of the text that can be completed.

    Attributes:
        kind: What it is.
        start: Its first character.
        end: After its last, where the cursor is.
        typed: What it says so far, without marks around it.
        command: Whose argument it is.
    """

    kind: Kind
    start: int
    end: int
    typed: str
    command: Command | None = None

    @property
    def reads_disk(self) -> bool:
        return self.kind in (Kind.PATH, Kind.REFERENCE)


class Completion:
    """Finds sites and their suggestions.

    Args:
        commands: The chat's.
        base: What relative paths start from.
    """

    def __init__(self, commands: Commands, base: Path | None = None) -> None:
        self._commands = commands
        self._paths = PathCompletion(base or Path())

    def site(self, text: str, cursor: int) -> Site | None:
        """What a cursor stands behind, if that can be completed."""
        if text.startswith("/") and cursor == len(text):
            if self._commands.matching(text):
                return Site(Kind.COMMAND, 0, cursor, text)
            if given := self._commands.argument_of(text):
                command, typed = given
                start = cursor - len(typed)
                if command.choices:
                    return Site(Kind.CHOICE, start, cursor, typed, command)
                if command.takes is Takes.PATH:
                    return Site(Kind.PATH, start, cursor, typed, command)
        reference = reference_at(text, cursor)
        if reference is None:
            return None
        return Site(Kind.REFERENCE, reference.start, cursor, reference.path)

    def offer(self, site: Site) -> Sequence[Suggestion]:
        """What a site could become; reads the disk where `Site.reads_disk` says so."""
        match site.kind:
            case Kind.COMMAND:
                return [_suggestion(command) for command in self._commands.matching(site.typed)]
            case Kind.CHOICE:
                assert site.command is not None
                return [Suggestion(each, each) for each in site.command.choices if each.startswith(site.typed)]
            case Kind.PATH | Kind.REFERENCE:
                put = completed if site.kind is Kind.REFERENCE else str
                return [Suggestion(_last(path), put(path), whole=False) for path in self._paths.matching(site.typed)]


def _suggestion(command: Command) -> Suggestion:
    space = " " if command.argument else ""
    return Suggestion(command.usage, f"/{command.name}{space}", command.help, not command.needs_argument)


def _last(path: str) -> str:
    """The last part of a path, which is what differs from line to line."""
    return path[path.rstrip("/").rfind("/") + 1 :]
