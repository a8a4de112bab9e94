"""Where the user writes: sending, completing, and fetching back what was asked before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from app.conversations.attached import file_reference
from app.core.printable import printable
from app.core.regular_file import with_line_feeds
from app.ui.commands.table import COMMANDS
from app.ui.composer.completing import Completing
from app.ui.composer.editor import PromptEditor
from app.ui.composer.past_prompts import PastPrompts
from app.ui.composer.pastes import LONGEST
from app.ui.composer.recalling import Recalling
from app.ui.composer.suggestions import Suggestion, Suggestions
from app.ui.key_names import key
from app.ui.widgets.hint import Hint

_ASKING = ("ask anything, @file to include, / for commands", "ask anything, / for commands", "ask anything")
"""What an empty prompt says: the first that fits."""


class PromptInput(PromptEditor):
    """Grows with its text; Enter sends. What was sent can be fetched back with the up key, or searched.

    Args:
        menu: Shows what the text at the cursor could become.
    """

    BINDING_GROUP_TITLE = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", id="prompt.send", tooltip="Send the prompt", priority=True, show=False),
        Binding(
            "ctrl+j,shift+enter,alt+enter",
            "break_line",
            "new line",
            id="prompt.break_line",
            tooltip="Begin a new line in the prompt",
            priority=True,
        ),
        # As in shells; without it the letter would be typed.
        Binding("alt+d", "delete_word_right", show=False),
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
        Binding(
            "ctrl+underscore",  # Ctrl+Z suspends, as in any program of a terminal.
            "undo",
            "undo",
            key_display="ctrl+_",
            id="prompt.undo",
            tooltip="Undo what was typed",
            show=False,
        ),
    ]

    class _Edit(Message, bubble=False):
        """Puts what a key does in line behind the characters typed before it.

        Bindings overtake characters where keys are not kept any more; see `app.ui.keys.in_turn`.
        """

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
        super().__init__(_ASKING[0])
        self.past = PastPrompts()
        self.menu = menu or Suggestions()
        self._completing = Completing(self, self.menu)
        self._recalling = Recalling(self, self.menu, self.past)

    # What is written, as messages

    @property
    def whole(self) -> str:
        """What is written, with all that was pasted; while past prompts are searched, what was written before."""
        saved = self._recalling.set_aside
        return self.written if saved is None else saved

    @property
    def is_searching(self) -> bool:
        """Whether what is typed is to find a past prompt."""
        return self._recalling.is_searching

    def restore(self, text: str) -> None:
        """Put a prompt that was refused at once back, before what was typed since."""
        self._show(text, self.text)

    def give_back(self, text: str) -> None:
        """Put a message that came to nothing back as it was typed, unless the user already writes the next."""
        if not self.whole.strip():
            self._show(COMMANDS.as_typed(text))

    def put(self, text: str) -> None:
        """Show this text in place of what is there; that is in the text, or kept by who asks for it."""
        was_searching = self._leave_search() is not None
        if was_searching or text != self.whole:
            self._recalling.forget()
            self._show(text)

    def _take(self, found: str) -> None:
        """Show a prompt that was found; what was written before the search can be found like one."""
        written = self.whole
        if written.strip() and written != found:
            self.past.set_aside(written)
        self.put(found)

    def _show(self, message: str, more: str = "") -> None:
        """Show a message, and behind it more; while past prompts are searched, when that has ended."""
        if self._recalling.is_searching:
            self._recalling.set_aside_before(message)
        else:
            self.write(message, more)

    # Sending

    def action_send(self) -> None:
        self.post_message(self._Send())

    def action_break_line(self) -> None:
        self.post_message(self._BreakLine())

    @on(_Send)
    def _send(self) -> None:
        self._look()
        if self._recalling.is_searching:
            if self.menu.chosen is not None:
                self._take(self.menu.chosen.value)
            return
        if not self._completing.finish():
            return
        message = self.whole
        if message.strip():
            self._recalling.forget()
            self.clear()
            self.post_message(self.Sent(self, message))

    @on(_BreakLine)
    def _break_line(self) -> None:
        if not self._recalling.is_searching:
            self.break_line()

    # Completing

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _look(self) -> None:
        (self._recalling if self._recalling.is_searching else self._completing).look()

    def choose(self, suggestion: Suggestion) -> None:
        """Take a suggestion that was clicked."""
        if self._recalling.is_searching:
            self._take(suggestion.value)
        else:
            self._completing.choose(suggestion)

    async def action_complete(self) -> None:
        """Take what is marked; move the focus where nothing can be completed."""
        self._look()
        if self._recalling.is_searching:
            self.menu.move(1)
        elif not await self._completing.complete():
            self.screen.focus_next()

    def action_dismiss(self) -> None:
        """Close what is open above the prompt."""
        saved = self._leave_search()
        if saved is not None:
            self.put(saved)
        self.menu.offer(())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "dismiss":
            return self.menu.is_open or self._recalling.is_searching
        return super().check_action(action, parameters)

    def include(self, path: str) -> None:
        """Name a file at the cursor."""
        space = "" if not self.text or self.text[-1].isspace() else " "
        self.type_in(space + file_reference(path) + " ")

    # What was asked before

    def action_search(self) -> None:
        """Look for a past prompt; what is written is set aside until then."""
        if self._recalling.is_searching:
            self.menu.move(1)
        elif not self.past.newest():
            self.post_message(Hint.Wanted("Nothing was asked yet."))
        else:
            self._completing.begin()
            self.placeholder = f"search what was asked; {key('prompt.dismiss', 'esc')} leaves"
            self._recalling.search()

    def _leave_search(self) -> str | None:
        """End the search, if one goes on; returns what was written before it."""
        self._invite()
        return self._recalling.leave()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up: in the menu, in the text, or from an empty prompt to what was sent before."""
        if self.menu.is_open and not select:
            self.menu.move(-1)
        elif select or not self._recalling.earlier():
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down: in the menu, in the text, or from a recalled prompt to the one sent after it."""
        if self.menu.is_open and not select:
            self.menu.move(1)
        elif select or not self._recalling.later():
            super().action_cursor_down(select)

    # Editing

    def on_resize(self) -> None:
        if self.placeholder in _ASKING:
            self._invite()

    def _invite(self) -> None:
        self.placeholder = next((words for words in _ASKING if len(words) <= self.size.width), _ASKING[-1])

    def on_paste(self, event: events.Paste) -> None:
        text = printable(with_line_feeds(event.text))
        if self._recalling.is_searching:
            event.text = " ".join(text[:LONGEST].split())
        else:
            event.text = text if self.as_it_stands else self._pastes.fold(text)

    def action_delete_to_start_of_line(self) -> None:
        was_written = bool(self.text)
        super().action_delete_to_start_of_line()
        if was_written and not self.text:
            self.post_message(Hint.Wanted(f"{key('prompt.undo', 'ctrl+_')} brings back what was written."))
