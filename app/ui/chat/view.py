"""The widgets of the chat, placed by the width of the terminal."""

from __future__ import annotations

import threading
from asyncio import wrap_future
from collections.abc import Sequence
from functools import partial

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from app.conversations.message import Role
from app.conversations.tree import Node, State
from app.core.errors import AppError
from app.core.printable import printable
from app.core.program import in_background
from app.session.session import Session
from app.session.state import BlockedError
from app.ui.chat.inspector import FIRST_TOKEN, Inspector, step_spans
from app.ui.composer.completion import Suggestions, WaitingPrompts
from app.ui.composer.editor import edited
from app.ui.composer.input import PromptInput
from app.ui.conversations.sidebar import Sidebar
from app.ui.keys import way_out
from app.ui.models.downloads import DownloadLines
from app.ui.models.fit_options import ErrorNotice, FitOptionList
from app.ui.models.service import PairService
from app.ui.models.state import FitOption
from app.ui.sidebar.panel import ReadoutPanel, StatusLine
from app.ui.sidebar.readouts import Readouts
from app.ui.text import CHOSEN_BAR, MARK
from app.ui.tools.question import ToolQuestion
from app.ui.transcript.answer import AnswerMessage, in_keys
from app.ui.transcript.foldings import PicturePreview, half_cells, preview_room
from app.ui.transcript.list import MessageList
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint

SIDEBAR_FROM = 100
PANEL_FROM = 150
"""Width from which sidebar and panel are shown by default."""
_MIN_TEXT_COLUMNS = 44
"""Smallest width of the conversation."""
_ROOMY_FROM = 170
_NARROW_CELLS, _WIDE_CELLS = (28, 32), (36, 40)
"""Widths of the sidebar and of the panel."""
MIN_FOR_SIDEBAR, MIN_FOR_PANEL = (_MIN_TEXT_COLUMNS + width for width in _NARROW_CELLS)
"""Width from which each can be shown."""


def side_widths(
    columns: int, sidebar: bool | None = None, panel: bool | None = None, *, panel_first: bool = True
) -> tuple[int, int]:
    """Return the widths of the sidebar and of the panel; 0 if hidden.

    Args:
        sidebar: Whether the user chose the list of conversations; None depends on the width.
        panel: Whether the user chose the numbers.
        panel_first: Whether the panel stays if only one fits.
    """
    for_sidebar, for_panel = _WIDE_CELLS if columns >= _ROOMY_FROM else _NARROW_CELLS
    room = columns - _MIN_TEXT_COLUMNS
    has_sidebar = room >= for_sidebar and (columns >= SIDEBAR_FROM if sidebar is None else sidebar)
    has_panel = room >= for_panel and (columns >= PANEL_FROM if panel is None else panel)
    if has_sidebar and has_panel and room < for_sidebar + for_panel:
        has_sidebar, has_panel = not panel_first, panel_first
    return for_sidebar * has_sidebar, for_panel * has_panel


class ChatView(Vertical):
    """All widgets of the chat: conversations on the left, numbers on the right.

    Its class `-panel` says whether the numbers are shown.
    """

    header = query_one(HeaderLine)
    messages = query_one(MessageList)
    _below_messages = query_one("#failure", VerticalScroll)
    inspector = query_one(Inspector)
    question = query_one(ToolQuestion)
    hint = query_one(Hint)
    sidebar = query_one(Sidebar)
    panel = query_one(ReadoutPanel)
    waiting = query_one(WaitingPrompts)
    prompt = query_one(PromptInput)

    def __init__(self, session: Session, pairs: PairService) -> None:
        super().__init__()
        self.session = session
        self.status = Readouts()
        self._pairs = pairs
        self._has_sidebar: bool | None = None
        self._has_panel: bool | None = None
        self._panel_first = True
        """Whether the panel was requested last, and so stays if only one fits."""
        self._failure: AppError | None = None
        """Why no pair is loaded."""

    def compose(self) -> ComposeResult:
        yield HeaderLine(self.session.title)
        with Horizontal(id="workspace"):
            yield Sidebar(self.session)
            with Vertical():
                yield MessageList()
                yield VerticalScroll(id="failure", can_focus=False)
                yield Inspector()
                yield ToolQuestion()
                yield Hint()
            yield ReadoutPanel(self.status)
        yield DownloadLines(self._pairs)
        yield WaitingPrompts()
        yield StatusLine(self.status)
        yield (menu := Suggestions())
        with Horizontal(id="entry"):
            yield Static(MARK, id="mark")
            yield PromptInput(menu, self.session)

    async def fill(self) -> None:
        """List the conversations, then import what the first answer needs."""
        await self.sidebar.fill()
        # Not earlier, because a key pressed meanwhile would wait for both imports.
        threading.Thread(target=_preload_markdown, daemon=True).start()

    def refuse(self, error: AppError) -> None:
        """Say why a command cannot be done, and name the key that helps, if it works now."""
        if isinstance(error, BlockedError):
            self.hint.say(way_out(self.screen, error))
        else:
            self.hint.say(in_keys(error, self.session.pair).sentences)

    def action_toggle_sidebar(self) -> None:
        """Show or hide the conversations."""
        if self.sidebar.has_focus_within:
            self.prompt.focus()
        self._has_sidebar = not self.sidebar.display
        self._panel_first = not self._has_sidebar
        self._apply_or_explain("conversations", MIN_FOR_SIDEBAR)

    def action_toggle_panel(self) -> None:
        """Show the numbers, then all of them, then none."""
        if self.panel.display and not self.panel.detailed:
            self.panel.detailed = True
            return
        self.panel.detailed = False
        self._has_panel = self._panel_first = not self.panel.display
        self._apply_or_explain("numbers", MIN_FOR_PANEL)

    def action_toggle_thinking(self) -> None:
        if not self.messages.open_thoughts():
            self.hint.say("No answer here has reasoning.")

    @on(Suggestions.Clicked)
    def _complete(self, event: Suggestions.Clicked) -> None:
        self.prompt.choose(event.suggestion)

    @work(exclusive=True, group="editor")
    async def action_editor(self) -> None:
        """Edit the prompt in the user's own editor."""
        prompt = self.prompt
        try:
            prompt.type_over(printable(await edited(prompt.text, self.app)), 0, len(prompt.text))
            prompt.focus()
        except AppError as error:
            self.hint.say(error.sentences)

    def action_round(self, by: int) -> None:
        self.inspector.step(by)

    def action_page(self, direction: int) -> None:
        menu = self.prompt.menu
        (menu.page if menu.is_open else self.messages.page)(direction)

    def action_beginning(self) -> None:
        self.messages.go_to_beginning()

    @on(Hint.Followed)
    def action_follow(self) -> None:
        self.messages.follow_end()
        self.hint.unseen(False)

    async def fail(self, error: AppError, options: Sequence[FitOption]) -> None:
        """Show in any conversation why no pair could be loaded, until `end_failure`."""
        self._failure = error
        self.messages.greets = False
        await self.offer(error, options)

    async def offer(self, error: AppError, options: Sequence[FitOption]) -> None:
        """Show options below the messages, until `end_offer`; an earlier offer uses the same keys."""
        await self._below_messages.remove_children()
        await self._below_messages.mount(ErrorNotice(error, options))
        self.call_after_refresh(self._show_offer)

    def _show_offer(self) -> None:
        """Show the end of an offer, or the beginning of its options if they are longer than the view."""
        below = self._below_messages
        below.scroll_end(animate=False, immediate=True)
        for options in below.query(FitOptionList):
            below.scroll_to_widget(options, animate=False, immediate=True, origin_visible=True)

    async def end_offer(self) -> None:
        """Remove the options, unless they belong to a lasting failure."""
        if self._failure is None:
            await self._below_messages.remove_children()

    async def end_failure(self) -> None:
        """Remove the options; the failure itself stays among the messages."""
        failure, self._failure = self._failure, None
        self.messages.greets = True
        await self.end_offer()
        if failure is not None:
            self.messages.fail(failure)

    def show_last_numbers(self, path: Sequence[Node]) -> None:
        """Show the numbers of the last answer of a branch, if the panel is shown."""
        answers = [node.id for node in path if node.role is Role.ASSISTANT]
        if answers and self.panel.display:
            self._show_numbers(answers[-1])

    @on(MessageList.SelectionChanged)
    def _show_chosen(self) -> None:
        """Show the numbers and the branches of the chosen message; another message may already be chosen."""
        chosen = self.messages.chosen
        about = [chosen.beside] if chosen is not None else []
        if isinstance(chosen, AnswerMessage) and chosen.id is not None:
            about.append(self._show_numbers(chosen.id))
        self.hint.about("\n".join(filter(None, about)))
        self.say_what_keys_do(self.screen.focused)
        self.screen.refresh_bindings()

    def say_what_keys_do(self, focused: Widget | None) -> None:
        """Replace the prompt by the keys of the focused widget, and how to return."""
        use = getattr(focused, "key_use", "")
        self.prompt.show_instead(use)
        self.query_one("#mark", Static).update(CHOSEN_BAR if use else MARK)

    def _show_numbers(self, message: int) -> str:
        """Show the numbers of a completed answer in the panel, or return them as a line if there is no panel."""
        tree = self.session.conversation.tree
        answer = tree.nodes.get(message)
        if answer is None or answer.state is State.WRITING:
            return ""
        if not self.panel.display:
            return str(answer.numbers)
        self.panel.show_earlier(answer, is_last=message == tree.leaf)
        return ""

    @on(MessageList.PreviewRequested)
    async def _preview(self, event: MessageList.PreviewRequested) -> None:
        digest = event.preview.picture.digest
        found = self.session.library.pictures([digest]).get(digest)
        if found is not None:
            make = partial(half_cells, found, *preview_room(self.app.size))
            preview = await wrap_future(in_background(make, "preview"))
            event.preview.show(found, preview)
            event.preview.count(self.session.answering.picture_tokens.get(digest))
            self.messages.update(event.message)

    def count_pictures(self) -> None:
        """Show the tokens of pictures that were counted."""
        known = self.session.answering.picture_tokens
        for message in self.messages.messages:
            for each in message.foldings:
                if isinstance(each, PicturePreview) and each.count(known.get(each.picture.digest)):
                    self.messages.update(message)

    @on(Inspector.StepSelected)
    def mark_step(self) -> None:
        """Mark the chosen step in the text of the last turn."""
        inspector = self.inspector
        if inspector.index is not None:
            self.messages.mark_tokens(*self._step_spans()[inspector.index])

    def _step_spans(self) -> Sequence[tuple[int, int]]:
        return step_spans("".join(tokens.plain for _, tokens in self.messages.turn_tokens), self.inspector.steps)

    @on(MessageList.CharacterClicked)
    def _select_step(self, event: MessageList.CharacterClicked) -> None:
        at, spans = event.at, self._step_spans()
        for answer, tokens in self.messages.turn_tokens:
            if answer is event.answer:
                found = next((index for index, (start, end) in enumerate(spans) if start <= at < end), None)
                if found is not None:
                    self.inspector.select(found)
                elif spans and at < spans[0][0]:
                    self.hint.say(FIRST_TOKEN)
            at += len(tokens.plain)

    # The first frame is laid out before any resize.
    @on(events.Mount)
    @on(events.Resize)
    def apply_widths(self) -> None:
        """Show what fits beside the conversation."""
        widths = side_widths(self.app.size.width, self._has_sidebar, self._has_panel, panel_first=self._panel_first)
        for widget, width in zip((self.sidebar, self.panel), widths, strict=True):
            widget.display = width > 0
            widget.styles.width = width
        self.set_class(self.panel.display, "-panel")
        self.call_after_refresh(self.see_end)

    def see_end(self) -> None:
        """Remove the hint about new text below when that text is visible."""
        if self.messages.shows_end:
            self.hint.unseen(False)

    def _apply_or_explain(self, name: str, columns: int) -> None:
        self.apply_widths()
        if self.app.size.width < columns:
            self.hint.say(f"The {name} need a window of {columns} columns.")


def _preload_markdown() -> None:
    from app.ui.reading.document import preload

    preload()
