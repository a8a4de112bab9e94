"""Complete commands, their arguments, and paths while the user types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from app.ui.background import in_thread, run_latest, start_in_thread, wait_briefly
from app.ui.commands.command import Command, Commands, Takes
from app.ui.commands.table import COMMANDS
from app.ui.composer.editor import PromptEditor
from app.ui.composer.included_files import completed, reference_at
from app.ui.composer.suggestions import Suggestion, Suggestions
from app.ui.widgets.path_completion import PathCompletion


class Kind(Enum):
    """Kind of text to complete."""

    COMMAND = auto()
    CHOICE = auto()
    PATH = auto()
    """The argument of a command."""
    REFERENCE = auto()


@dataclass(frozen=True, slots=True)
class Site:
    """A piece of the text that can be completed.

    Attributes:
        kind: What it is.
        start: Position of its first character.
        end: Position after its last, where the cursor is.
        typed: Its text so far, without quotes.
        command: The command whose argument it is.
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
    """Find sites and their suggestions.

    Args:
        commands: The chat's.
        base: What relative paths start from.
    """

    def __init__(self, commands: Commands, base: Path | None = None) -> None:
        self._commands = commands
        self._paths = PathCompletion(base or Path())

    def site(self, text: str, cursor: int) -> Site | None:
        """Return the site before a cursor, if any."""
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
        return None if reference is None else Site(Kind.REFERENCE, reference.start, cursor, reference.path)

    def offer(self, site: Site) -> Sequence[Suggestion]:
        """Return the suggestions of a site; reads the disk where `Site.reads_disk` says so."""
        match site.kind:
            case Kind.COMMAND:
                return [_suggestion(command) for command in self._commands.matching(site.typed)]
            case Kind.CHOICE:
                assert site.command is not None
                return [Suggestion(each, each) for each in site.command.choices if each.startswith(site.typed)]
            case Kind.PATH | Kind.REFERENCE:
                value = completed if site.kind is Kind.REFERENCE else str
                paths = self._paths.matching(site.typed)
                return [Suggestion(_last_part(path), value(path), whole=False) for path in paths]


def _suggestion(command: Command) -> Suggestion:
    space = " " if command.argument else ""
    return Suggestion(command.usage, f"/{command.name}{space}", command.help, not command.needs_argument)


def _last_part(path: str) -> str:
    return path[path.rstrip("/").rfind("/") + 1 :]


class Completer:
    """Offer completions of the text at the cursor, and insert the chosen one.

    Args:
        editor: Where the user types.
        menu: Shows the suggestions.
    """

    def __init__(self, editor: PromptEditor, menu: Suggestions) -> None:
        self._editor = editor
        self._menu = menu
        self._completion = Completion(COMMANDS)
        self._site: Site | None = None
        self._offered: Site | None = None
        """The site that the menu was filled for."""

    def reset(self) -> None:
        self._site = self._offered = None

    def look(self) -> None:
        """Offer completions of the text at the cursor."""
        cursor = self._editor.cursor
        site = self._completion.site(self._editor.text, cursor) if cursor is not None else None
        if site == self._site:
            return
        self._site = site
        if site is None or not site.reads_disk:
            self._offer(site, self._completion.offer(site) if site else ())
            return

        async def look() -> None:
            found = await in_thread(lambda: self._completion.offer(site))
            if site == self._site:
                self._offer(site, found)

        run_latest(self._editor, look, "paths")

    async def complete(self) -> bool:
        """Insert the chosen suggestion; False where nothing can be completed."""
        site = self._site
        if site is None:
            return False
        if site != self._offered:
            # Late suggestions are offered, not inserted: the text may have changed.
            looked = start_in_thread(lambda: self._completion.offer(site))
            if await wait_briefly(looked) and site == self._site:
                self._offer(site, looked.result())
        if self._chosen is not None and site == self._site:
            self._insert(site, self._chosen)
        return True

    def finish(self) -> bool:
        """Insert the chosen suggestion unless the text already has it; return whether the text can be sent."""
        chosen, site = self._chosen, self._site
        if chosen is None or site is None:
            return True
        if chosen.value.strip() == self._editor.text[site.start : site.end].strip():
            return True
        self._insert(site, chosen)
        return chosen.whole

    def choose(self, suggestion: Suggestion) -> None:
        """Insert a suggestion that was clicked."""
        if self._site is not None and self._offered == self._site:
            self._insert(self._site, suggestion)

    def _offer(self, site: Site | None, found: Sequence[Suggestion]) -> None:
        self._offered = site
        self._menu.offer(found)

    @property
    def _chosen(self) -> Suggestion | None:
        return self._menu.chosen if self._offered == self._site else None

    def _insert(self, site: Site, suggestion: Suggestion) -> None:
        self._editor.type_over(suggestion.value, site.start, site.end)
