"""Complete commands, their arguments, and paths while the user types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.ui.commands.command import Command, Commands, Takes
from app.ui.commands.table import COMMANDS
from app.ui.composer.editor import PromptEditor
from app.ui.composer.included_files import completed, reference_at
from app.ui.composer.suggestions import Suggestion, Suggestions
from app.ui.widgets.path_completion import PathCompletion


@dataclass(frozen=True, slots=True)
class Completions:
    """Suggestions for the text between two positions; the cursor is at `end`."""

    start: int
    end: int
    suggestions: Sequence[Suggestion]


class Completion:
    """Find suggestions for a text.

    Args:
        commands: The chat's.
        base: What relative paths start from.
    """

    def __init__(self, commands: Commands, base: Path | None = None) -> None:
        self._commands = commands
        self._paths = PathCompletion(base or Path())

    def at(self, text: str, cursor: int) -> Completions | None:
        """Return what can be inserted before a cursor; None where nothing can be completed."""
        if text.startswith("/") and cursor == len(text):
            if commands := self._commands.matching(text):
                return Completions(0, cursor, [_suggestion(command) for command in commands])
            if given := self._commands.argument_of(text):
                command, typed = given
                start = cursor - len(typed)
                if command.choices:
                    choices = [Suggestion(each, each) for each in command.choices if each.startswith(typed)]
                    return Completions(start, cursor, choices)
                if command.takes is Takes.PATH:
                    return Completions(start, cursor, self._paths_like(typed, str))
        reference = reference_at(text, cursor)
        if reference is None:
            return None
        return Completions(reference.start, cursor, self._paths_like(reference.path, completed))

    def _paths_like(self, typed: str, inserted: Callable[[str], str]) -> list[Suggestion]:
        paths = self._paths.matching(typed)
        return [Suggestion(_last_part(path), inserted(path), whole=False) for path in paths]


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
        self._text: tuple[str, int | None] = ("", None)
        self._found: Completions | None = None

    def look(self) -> None:
        """Offer completions of the text at the cursor."""
        text, cursor = self._editor.text, self._editor.cursor
        if (text, cursor) != self._text:
            self._text = text, cursor
            self._found = self._completion.at(text, cursor) if cursor is not None else None
            self._menu.offer(self._found.suggestions if self._found is not None else ())

    def complete(self) -> bool:
        """Insert the chosen suggestion; False where nothing can be completed."""
        if self._found is not None and self._menu.chosen is not None:
            self.choose(self._menu.chosen)
        return self._found is not None

    def finish(self) -> bool:
        """Insert the chosen suggestion unless the text already has it; return whether the text can be sent."""
        chosen, found = self._menu.chosen, self._found
        if chosen is None or found is None:
            return True
        if chosen.value.strip() == self._editor.text[found.start : found.end].strip():
            return True
        self.choose(chosen)
        return chosen.whole

    def choose(self, suggestion: Suggestion) -> None:
        """Insert a suggestion."""
        if self._found is not None:
            self._editor.type_over(suggestion.value, self._found.start, self._found.end)
