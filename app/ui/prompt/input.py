"""Where the user writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Document

from app.chat.attached import Attachment, compose, file_reference, split
from app.engine.text import printable
from app.ui.aside import aside, run_latest
from app.ui.commands.command import as_typed
from app.ui.commands.table import COMMANDS
from app.ui.prompt.completion import Completion, Site
from app.ui.prompt.past_prompts import PastPrompts
from app.ui.prompt.pastes import LONGEST, Pastes
from app.ui.prompt.suggestions import Suggestion, Suggestions
from app.ui.widgets.editing import run_own_binding
from app.ui.widgets.hint import Hint

_ASKING = "ask anything, @file to include, / for commands"
_SEARCHING = "search what was asked before; esc leaves"
_MOST_FOUND = 200


class PromptInput(TextArea):
    """Grows with its text; Enter sends. What was sent can be fetched back with the up key, or searched.

    Messages go in and out whole, with pastes in front of the question (see `app.chat.attached`); the text area holds
    the question with a mark for each paste.

    Args:
        menu: Shows what the text at the cursor could become.
    """

    BINDING_GROUP_TITLE = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", id="prompt.send", tooltip="Send the prompt", priority=True, show=False),
        Binding(
            "ctrl+j,shift+enter",
            "break_line",
            "new line",
            id="prompt.break_line",
            tooltip="Begin a new line in the prompt",
            priority=True,
        ),
        Binding("tab", "complete", "complete", id="prompt.complete", tooltip="Complete what is typed", show=False),
        Binding(
            "escape",
            "dismiss",
            "close",
            key_display="esc",
            id="prompt.dismiss",
            tooltip="Close the list above the prompt",
            show=False,
        ),
        Binding(
            "ctrl+s",
            "search",
            "search prompts",
            id="prompt.search",
            tooltip="Search everything asked before",
            show=False,
        ),
        # Ctrl+Z suspends.
        Binding(
            "ctrl+underscore",
            "undo",
            "undo",
            key_display="ctrl+_",
            id="prompt.undo",
            tooltip="Undo what was typed",
            show=False,
        ),
    ]

    class _Edit(Message, bubble=False):
        """Puts what a key does in line behind the characters typed before it: bindings overtake characters."""

    class _Send(_Edit):
        pass

    class _BreakLine(_Edit):
        pass

    @dataclass
    class Sent(Message):
        """Enter was pressed and the text taken away; `restore` brings it back."""

        prompt: PromptInput
        text: str

        @property
        def control(self) -> PromptInput:
            return self.prompt

    def __init__(self, menu: Suggestions | None = None) -> None:
        super().__init__(
            compact=True, highlight_cursor_line=False, placeholder=_ASKING, tab_behavior="focus", soft_wrap=True
        )
        self.cursor_blink = False
        self.past = PastPrompts()
        self.menu = menu or Suggestions()
        self._pastes = Pastes()
        self._completion = Completion(COMMANDS)
        self._site: Site | None = None
        self._offered: Site | None = None
        self._recalled: int | None = None
        self._set_aside: str | None = None
        self._looked_for: str | None = None

    # What is written, as messages

    @property
    def whole(self) -> str:
        """What is written, with all that was pasted; while past prompts are searched, what was written before."""
        return compose(self.text, self.pastes) if self._set_aside is None else self._set_aside

    @property
    def pastes(self) -> tuple[Attachment, ...]:
        """The pastes that the text has a mark for."""
        return self._pastes.found_in(self.text)

    def restore(self, text: str) -> None:
        """Put a refused prompt back, before what was typed since."""
        self._show(text, self.text)

    def give_back(self, text: str) -> None:
        """Put a message that came to nothing back as it was typed, unless the user already writes the next."""
        if not self.whole.strip():
            self._show(as_typed(text))

    def put(self, text: str) -> None:
        """Show this text in place of what is there."""
        searched = self._set_aside is not None
        self._leave_search()
        if searched or text != self.whole:
            self._recalled = None
            self._show(text)

    # Sending

    def action_send(self) -> None:
        self.post_message(self._Send())

    def action_break_line(self) -> None:
        self.post_message(self._BreakLine())

    @on(_Send)
    def _send(self) -> None:
        self._look()
        chosen, site = self._chosen, self._site
        if self._set_aside is not None:
            if chosen is not None:
                self.put(chosen.value)
            return
        if chosen is not None and site is not None and chosen.value.strip() != self.text[site.start : site.end].strip():
            self._take(site, chosen)
            if not chosen.whole:
                return
        message = self.whole
        if message.strip():
            self._recalled = None
            self.clear()
            self.post_message(self.Sent(self, message))

    @on(_BreakLine)
    def _break_line(self) -> None:
        if self._set_aside is None:
            self._type("\n")
            self.scroll_cursor_visible()

    # Completing

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _look(self) -> None:
        """Offer what the text at the cursor could become."""
        if self._set_aside is not None:
            self._look_back()
            return
        site = None
        if self.selection.is_empty:
            site = self._completion.site(self.text, self._lines.get_index_from_location(self.cursor_location))
        if site == self._site:
            return
        self._site = site
        if site is None or not site.reads_disk:
            self._offer(site, self._completion.offer(site) if site else ())
            return

        async def look() -> None:
            await self._look_at_disk(site)

        run_latest(self, look, "paths")

    async def _look_at_disk(self, site: Site) -> None:
        found = await aside(lambda: self._completion.offer(site))
        if site == self._site:
            self._offer(site, found)

    def _offer(self, site: Site | None, found: Sequence[Suggestion]) -> None:
        self._offered = site
        self.menu.offer(found)

    @property
    def _chosen(self) -> Suggestion | None:
        """What is marked in the menu, if that was made for the text as it is."""
        return self.menu.chosen if self._offered == self._site else None

    def choose(self, suggestion: Suggestion) -> None:
        """Take a suggestion that was clicked."""
        if self._set_aside is not None:
            self.put(suggestion.value)
        elif self._site is not None and self._offered == self._site:
            self._take(self._site, suggestion)

    async def action_complete(self) -> None:
        """Take what is marked; move the focus where nothing can be completed."""
        self._look()
        site = self._site
        if self._set_aside is not None:
            self.menu.move(1)
        elif site is None:
            self.screen.focus_next()
        else:
            if site != self._offered:
                await self._look_at_disk(site)
            if self._chosen is not None and site == self._site:
                self._take(site, self._chosen)

    def action_dismiss(self) -> None:
        """Close what is open above the prompt."""
        saved = self._set_aside
        self._leave_search()
        if saved is not None:
            self.put(saved)
        self.menu.offer(())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "dismiss":
            return self.menu.is_open or self._set_aside is not None
        return super().check_action(action, parameters)

    def include(self, path: str) -> None:
        """Name a file at the cursor."""
        space = "" if not self.text or self.text[-1].isspace() else " "
        self._type(space + file_reference(path) + " ")

    def _take(self, site: Site, suggestion: Suggestion) -> None:
        at = self._lines.get_location_from_index
        self._replace_via_keyboard(suggestion.value, at(site.start), at(site.end))

    # What was asked before

    def action_search(self) -> None:
        """Look for a past prompt; what is written is set aside until then."""
        if self._set_aside is not None:
            self.menu.move(1)
        elif not self.past.newest():
            self.post_message(Hint.Wanted("Nothing was asked yet."))
        else:
            self._set_aside, self._site, self._offered = self.whole, None, None
            self.placeholder = _SEARCHING
            self._looked_for = None
            self.clear()
            self._look_back()

    def _look_back(self) -> None:
        if self.text == self._looked_for:
            return
        self._looked_for = self.text
        # The first frame need not wait for SQLite.
        from app.chat.search import excerpt, terms

        words = terms(self.text)
        found = self.past.search(self.text, _MOST_FOUND)
        self.menu.offer([Suggestion(excerpt(question, words).text, message) for message, question in found])

    def _leave_search(self) -> None:
        if self._set_aside is not None:
            self._set_aside = None
            self.placeholder = _ASKING
            self.menu.offer(())

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up: in the menu, in the text, or from an empty prompt to what was sent before."""
        if self.menu.is_open and not select:
            self.menu.move(-1)
        elif select or not (self._is_recalled or not self.text):
            super().action_cursor_up(select)
        else:
            self._recall(0 if self._recalled is None else self._recalled + 1)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down: in the menu, in the text, or from a recalled prompt to the one sent after it."""
        if self.menu.is_open and not select:
            self.menu.move(1)
        elif select or not self._is_recalled or self._recalled is None:
            super().action_cursor_down(select)
        else:
            self._recall(self._recalled - 1)

    @property
    def _is_recalled(self) -> bool:
        return self._recalled is not None and self.text.strip() == self.past.newest()[self._recalled][1]

    def _recall(self, index: int) -> None:
        known = self.past.newest()
        if index < 0:
            self._recalled = None
            self.clear()
        elif index < len(known):
            self._recalled = index
            self._show(known[index][0])

    # Editing

    async def on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)

    def on_paste(self, event: events.Paste) -> None:
        text = printable(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        event.text = self._pastes.fold(text) if self._set_aside is None else " ".join(text[:LONGEST].split())

    def action_paste(self) -> None:
        """Paste what was copied here, like anything else that is pasted."""
        self.post_message(events.Paste(self.app.clipboard))

    def action_delete_left(self) -> None:
        """Delete the character before the cursor, or the mark of a paste as one."""
        row, column = self.cursor_location
        mark = self._pastes.mark_before(self.document.get_line(row)[:column]) if self.selection.is_empty else 0
        if mark:
            self._replace_via_keyboard("", (row, column - mark), (row, column))
        else:
            super().action_delete_left()

    @property
    def _lines(self) -> Document:
        assert isinstance(self.document, Document)
        return self.document

    def _type(self, text: str) -> None:
        start, end = self.selection
        self._replace_via_keyboard(text, start, end)

    def _show(self, message: str, more: str = "") -> None:
        if self._set_aside is not None:
            self._set_aside = message + self._set_aside
            return
        # What models and files say is kept as it came, and a text area writes it to the terminal as it is.
        question, attachments = split(printable(message))
        self.load_text(self._pastes.adopt(question, attachments) + more)
        self.move_cursor(self.document.end)
