"""Above the prompt: suggestions (commands, their arguments, paths, past prompts), and queued prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.conversations.attached import split
from app.conversations.titles import title_of
from app.core.included import PICTURE_SUFFIXES
from app.core.printable import printable
from app.session.library import Library
from app.ui.actions import NEW_PATH, PATH, Action
from app.ui.commands import COMMANDS
from app.ui.composer.file_search import not_ignored, search_files
from app.ui.composer.included_files import completed, reference_at
from app.ui.keys import active_key
from app.ui.text import MARK, cut
from app.ui.widgets.path_completion import matching_paths

ROWS = 8
_MOST_STORED = 5_000
"""Number of past prompts from earlier runs."""
_GAP_CELLS = 2
CHOSEN = f"{MARK} "
"""Prefix of the chosen suggestion."""
_MOST_LINES = 3
_FIRST_LABEL = " waiting  "


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A line of the list, with a description beside its name.

    Attributes:
        value: The text that replaces the typed text.
        whole: Whether nothing more needs to be typed.
    """

    label: str
    value: str
    note: str = ""
    whole: bool = True


class Suggestions(Static, can_focus=False):
    """Shows the list; the prompt handles the keys."""

    @dataclass
    class Clicked(Message):
        """A suggestion was clicked."""

        suggestion: Suggestion

    def __init__(self) -> None:
        super().__init__()
        self._all: Sequence[Suggestion] = ()
        self._nothing = ""
        self._at = 0
        self._first = 0
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self._all)

    @property
    def chosen(self) -> Suggestion | None:
        return self._all[self._at] if self._all else None

    def offer(self, suggestions: Sequence[Suggestion], nothing: str = "") -> None:
        """Show suggestions and choose the first; without any, close the list or show `nothing`."""
        if suggestions or self._all or nothing != self._nothing:
            self._all, self._at, self._first = suggestions, 0, 0
            self._nothing = "" if suggestions else nothing
            self.display = bool(suggestions or nothing)
            self._draw()
            # Esc closes the list.
            self.screen.refresh_bindings()

    def move(self, by: int) -> None:
        """Choose the next (1) or previous (-1) suggestion, wrapping around."""
        if self._all:
            self._at = (self._at + by) % len(self._all)
            self._first = min(max(self._first, self._at - self._rows + 1), self._at)
            self._draw()

    def page(self, direction: int) -> None:
        """Choose a suggestion a page further down (1) or up (-1), or at the end."""
        self.move(max(-self._at, min(direction * self._rows, len(self._all) - 1 - self._at)))

    def on_click(self, event: events.Click) -> None:
        index = self._first + event.y
        if event.y < self._rows and index < len(self._all):
            self.post_message(self.Clicked(self._all[index]))

    def on_resize(self) -> None:
        self._draw()

    @property
    def _rows(self) -> int:
        # The conversation keeps some rows of a low terminal.
        return max(1, min(ROWS, self.app.size.height // 3))

    def _draw(self) -> None:
        shown = self._all[self._first : self._first + self._rows]
        labels = [printable(each.label).replace("\n", " ") for each in shown]
        wide = max((Content(label).cell_length for label in labels), default=0)
        lines = []
        for index, (label, each) in enumerate(zip(labels, shown, strict=True), self._first):
            gap = " " * (wide - Content(label).cell_length + _GAP_CELLS) if each.note else ""
            line = Content.assemble(
                CHOSEN if index == self._at else "  ",
                (label, "bold" if index == self._at else ""),
                (gap + printable(each.note), "$quiet"),
            )
            lines.append(cut(line, max(1, self.size.width - 2)) if self.size.width else line)
        if len(self._all) > len(shown):
            lines.append(Content.styled(f"  {self._at + 1} of {len(self._all)}", "$quiet"))
        if self._nothing:
            lines.append(Content.styled(f"  {self._nothing}", "$quiet"))
        self.update(Content("\n").join(lines))


def completions(
    text: str, cursor: int, base: Path, files: Sequence[str] = (), picture_note: str | None = None
) -> tuple[int, list[Suggestion]] | None:
    """Return the start of the completable text before a cursor, and suggestions for it, if any.

    Relative paths start from `base`; `files` are the known files below it. A `picture_note` is shown beside pictures.
    """
    if text.startswith("/") and cursor == len(text):
        commands = COMMANDS.matching(text)
        if commands is not None:
            return 0, [_suggestion(command) for command in commands]
        if given := COMMANDS.argument_of(text):
            command, typed = given
            start = cursor - len(typed)
            if PATH in (command.argument or ""):
                # A new file may be put into a folder.
                offers_files = NEW_PATH not in (command.argument or "")
                paths = [path for path in matching_paths(typed, base) if offers_files or path.endswith("/")]
                return start, _suggested(paths, str)
    reference = reference_at(text, cursor)
    if reference is None:
        return None
    start, typed = reference
    listed = not_ignored(matching_paths(typed, base), base)
    # A path to another place is not below.
    below = search_files(typed, files) if typed and not typed.startswith(("/", "~", ".")) else ()
    found = [Suggestion(path, completed(path), whole=False) for path in below if path not in listed]
    return start, [
        replace(each, note=picture_note or "") if each.label.lower().endswith(PICTURE_SUFFIXES) else each
        for each in (*_suggested(listed, completed), *found)
    ]


def _suggested(paths: Sequence[str], inserted: Callable[[str], str]) -> list[Suggestion]:
    return [Suggestion(path[path.rstrip("/").rfind("/") + 1 :], inserted(path), whole=False) for path in paths]


def _suggestion(command: Action) -> Suggestion:
    space = " " if command.argument is not None else ""
    return Suggestion(command.usage, f"/{command.name}{space}", command.help, not command.needs_argument)


class PastPrompts:
    """The prompts of this run, then those of earlier runs, each once."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._new: list[str] = []
        self._stored: Sequence[str] | None = None
        """Typed prompts of earlier runs, newest first; None before the store is open."""

    def add(self, message: str) -> None:
        """Add a sent or discarded prompt."""
        self._new.append(message)

    def newest(self, queued: Iterable[str] = ()) -> Sequence[tuple[str, str]]:
        """Return every prompt as a whole message and its question, newest first.

        Queued prompts are left out, because sending one would ask it twice.
        """
        if self._stored is None:
            stored = self._library.do(lambda store: store.prompts(_MOST_STORED))
            self._stored = list(map(COMMANDS.as_typed, stored)) if stored is not None else None
        once: dict[tuple[str, ...], tuple[str, str]] = {}
        waiting = {split(message)[0].strip() for message in queued}
        for message in (*reversed(self._new), *(self._stored or ())):
            question, attachments = split(message)
            question = question.strip()
            # A file is read again when its prompt is sent; a paste is stored nowhere else.
            pastes = (each.text for each in attachments if not each.is_file)
            if question and question not in waiting:
                once.setdefault((" ".join(question.split()), *pastes), (message, question))
        return tuple(once.values())


class WaitingPrompts(Static):
    """A line for each prompt, at most the last three; hidden if no prompt is queued."""

    def __init__(self) -> None:
        super().__init__()
        self._prompts: Sequence[str] = ()
        self.display = False

    def on_mount(self) -> None:
        # The key that takes back a prompt may do something else first, such as closing a list.
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.display and self.refresh())

    def put(self, prompts: Sequence[str]) -> None:
        """Show these prompts."""
        self._prompts = prompts
        self.display = bool(prompts)
        self.refresh(layout=True)

    def render(self) -> Content:
        width, shown = self.size.width, self._prompts[-_MOST_LINES:]
        hidden = len(self._prompts) - len(shown)
        take_back = active_key(self.screen, "chat.take_back")
        lines: list[Content] = []
        for at, prompt in enumerate(shown, start=1):
            more = f"  and {hidden} before " if at == 1 and hidden else ""
            more = f"  {take_back} takes it back " if at == len(shown) and take_back else more
            label = _FIRST_LABEL if at == 1 else " " * len(_FIRST_LABEL)
            room = max(1, width - len(label) - len(more))
            text = cut(Content(printable(title_of(prompt))), room)
            gap = " " * max(0, room - text.cell_length)
            lines.append(Content.assemble((label, "$quiet"), text, gap, (more, "$quiet")))
        return Content("\n").join(lines)
