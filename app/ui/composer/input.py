"""The prompt: sends, completes, and recalls past prompts."""

from __future__ import annotations

from asyncio import wrap_future
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar

from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from app.core.printable import printable
from app.core.program import in_background
from app.core.regular_file import with_line_feeds
from app.session.session import Session
from app.ui.actions import bindings
from app.ui.composer.completion import PastPrompts, Suggestion, Suggestions, completions
from app.ui.composer.editor import LONGEST, PromptEditor
from app.ui.composer.file_search import index_files
from app.ui.composer.included_files import dropped_files
from app.ui.key_names import key
from app.ui.widgets.hint import Hint

_PLACEHOLDER_TEXTS = ("ask anything, @file to include, / for commands", "ask anything, / for commands", "ask anything")
"""Placeholders of an empty prompt; the first that fits is shown."""
_MOST_FOUND = 200


class PromptInput(PromptEditor):
    """Grows with the text; Enter sends, the up key recalls past prompts. The menu shows suggestions."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("prompt."),
        # As in shells
        Binding("alt+d", "delete_word_right", show=False),
    ]

    @dataclass
    class Sent(Message):
        """Enter was pressed and the text removed; `restore` puts it back."""

        text: str

    def __init__(self, menu: Suggestions, session: Session) -> None:
        super().__init__(_PLACEHOLDER_TEXTS[0])
        self._session = session
        self.past = PastPrompts(session.library)
        self.menu = menu
        self._seen: tuple[str, int | None] = ("", None)
        """The text and the cursor of the current suggestions."""
        self._files: Sequence[str] = ()
        """Files below the working folder."""
        self._completed: tuple[int, int] | None = None
        """Start and end of the text that a suggestion replaces, if anything can be completed."""
        self._prompts: Sequence[tuple[str, str]] = ()
        """The recalled or searched past prompts, each with its question."""
        self._recalled = -1
        """Index of the recalled prompt in the editor; -1 for the user's own text."""
        self._recalled_text = ""
        """The recalled prompt's text in the editor: a paste may have another mark than before."""
        self._query: str | None = None
        """The search words of the found prompts."""
        self._saved: str | None = None
        """The text before a search of past prompts, while a search is open."""
        self._instead = ""

    # The text as messages

    @property
    def whole(self) -> str:
        """Return the message with all pastes; during a search, the saved message."""
        return self.written if self._saved is None else self._saved

    @property
    def is_searching(self) -> bool:
        """Return whether past prompts are being searched."""
        return self._saved is not None

    def restore(self, text: str) -> None:
        """Put a refused prompt back, before text typed since."""
        if self._saved is not None:
            self._saved = text + self._saved
        else:
            self.write(text, f"\n{self.text}" if self.text else "")

    def put(self, text: str) -> None:
        """Replace the text; the caller saves the old text."""
        was_searching = self._leave_search() is not None
        if was_searching or text != self.whole:
            self._recalled = -1
            self.write(text)

    def _take(self, found: str) -> None:
        written = self.whole
        if written.strip() and written != found:
            self.past.add(written)
        self.put(found)

    # Sending. Bindings overtake earlier characters, so their effects wait for these.

    def action_send(self) -> None:
        self.call_later(self._send)

    def action_break_line(self) -> None:
        self.call_later(self._break_line)

    def _send(self) -> None:
        self._look()
        if self.is_searching:
            if self.menu.chosen is not None:
                self._take(self.menu.chosen.value)
            return
        if not self._finish():
            return
        message = self.whole
        if message.strip():
            self._recalled = -1
            self.clear()
            self.post_message(self.Sent(message))

    def _break_line(self) -> None:
        if not self.is_searching:
            self.break_line()

    # Completing

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _look(self) -> None:
        """Offer completions of the text at the cursor, or found prompts."""
        text, cursor = self.text, self.cursor
        if self.is_searching:
            self._find()
        elif (text, cursor) != self._seen:
            self._seen = text, cursor
            before, self._completed = self._completed, None
            offered, nothing = list[Suggestion](), ""
            if cursor is not None and (found := completions(text, cursor, Path(), self._files, self._picture_note)):
                start, offered = found
                self._completed = start, cursor
                if text.startswith("@", start) and (before is None or before[0] != start):
                    self._find_files()
                if text.startswith("/") and " " not in text:
                    nothing = f"No command matches; {key('app.keys')} lists all."
            self.menu.offer(offered, nothing)

    @property
    def _picture_note(self) -> str | None:
        pair = self._session.pair
        return "the loaded model reads no pictures" if pair is not None and pair.projector is None else None

    @work(exclusive=True, group="files")
    async def _find_files(self) -> None:
        self._files = await wrap_future(in_background(partial(index_files, Path()), "files"))
        self._seen = "", None
        self._look()

    def _finish(self) -> bool:
        chosen = self.menu.chosen
        if chosen is None or self._completed is None:
            return True
        typed = self.text[slice(*self._completed)].strip()
        if chosen.value.strip() == typed:
            return True
        self.choose(chosen)
        # A command found by its description is shown before it runs.
        return chosen.whole and chosen.value.startswith(typed)

    def choose(self, suggestion: Suggestion) -> None:
        """Insert a suggestion."""
        if self.is_searching:
            self._take(suggestion.value)
        elif self._completed is not None:
            self.type_over(suggestion.value, *self._completed)

    def action_complete(self) -> None:
        """Insert the chosen suggestion; move the focus if nothing can be completed."""
        self._look()
        if self.is_searching:
            self.menu.move(1)
        elif self._completed is None:
            self.screen.focus_next()
        elif self.menu.chosen is not None:
            self.choose(self.menu.chosen)

    def action_dismiss(self) -> None:
        """Close the list above the prompt."""
        saved = self._leave_search()
        if saved is not None:
            self.put(saved)
        self.menu.offer(())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "dismiss":
            return self.menu.is_open or self.is_searching
        return super().check_action(action, parameters)

    # Past prompts

    def action_search(self) -> None:
        """Search past prompts; the text is saved until then."""
        if self.is_searching:
            self.menu.move(1)
            return
        self._prompts = self.past.newest(self._session.queued)
        if not self._prompts:
            self.post_message(Hint.Requested("No prompts yet."))
            return
        self._saved, self._query, self._recalled = self.written, None, -1
        self.clear()
        self._find()
        self.placeholder = "search past prompts"

    def _find(self) -> None:
        if self.text == self._query:
            return
        self._query = self.text
        # The first frame need not wait for SQLite.
        from app.conversations.search import excerpt

        words = self.text.split()
        folded = [word.casefold() for word in words]
        matching = (each for each in self._prompts if all(word in each[1].casefold() for word in folded))
        newest = islice(matching, _MOST_FOUND)
        found = [Suggestion(excerpt(question, words, self.size.width).text, message) for message, question in newest]
        self.menu.offer(found, "Nothing found.")

    def _leave_search(self) -> str | None:
        self._invite()
        saved, self._saved = self._saved, None
        if saved is not None:
            self.menu.offer(())
        return saved

    @property
    def _is_recalled(self) -> bool:
        return self._recalled >= 0 and self.text.strip() == self._recalled_text

    def _recall(self, index: int) -> None:
        if index < 0:
            self._recalled = -1
            self.clear()
        elif index < len(self._prompts):
            self._recalled = index
            self.write(self._prompts[index][0])
            self._recalled_text = self.text.strip()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up: in the list, in the text, or from an empty prompt to past prompts."""
        if self.menu.is_open and not select:
            self.menu.move(-1)
        elif not select and self._is_recalled:
            self._recall(self._recalled + 1)
        elif select or self.text:
            super().action_cursor_up(select)
        else:
            self._prompts = self.past.newest(self._session.queued)
            self._recall(0)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down: in the list, in the text, or from a past prompt to the next prompt."""
        if self.menu.is_open and not select:
            self.menu.move(1)
        elif not select and self._is_recalled:
            self._recall(self._recalled - 1)
        else:
            super().action_cursor_down(select)

    # Editing

    def action_clear_text(self) -> None:
        """Remove the whole text."""
        self.clear()

    def show_instead(self, line: str) -> None:
        """Show a line in place of the text, which is unchanged; an empty line ends that."""
        if line != self._instead:
            self._instead = line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if not self._instead:
            return super().render_line(y)
        shown = Content(self._instead if y == 0 else "").truncate(self.content_size.width, ellipsis=True)
        return Strip(shown.render_segments(self.visual_style), shown.cell_length)

    def on_resize(self) -> None:
        if self.placeholder in _PLACEHOLDER_TEXTS:
            self._invite()

    def _invite(self) -> None:
        self.placeholder = next(
            (text for text in _PLACEHOLDER_TEXTS if len(text) <= self.size.width), _PLACEHOLDER_TEXTS[-1]
        )

    def on_paste(self, event: events.Paste) -> None:
        text = printable(with_line_feeds(event.text))
        if self.is_searching:
            event.text = " ".join(text[:LONGEST].split())
        else:
            event.text = text if self.as_it_stands else dropped_files(text) or self._pastes.fold(text)
