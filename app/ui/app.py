"""The application: builds the chat, opens other screens, and quits without waiting."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import MountError

from app.core.columns import fit
from app.core.errors import AppError
from app.models.pair_info import PairInfo
from app.session.session import Session
from app.settings.layers import Resolved
from app.ui.actions import bindings
from app.ui.base_screen import BaseScreen, SubScreen
from app.ui.chat.renderer import collect_young_objects_only
from app.ui.chat.screen import ChatScreen
from app.ui.event_queue import EventQueue
from app.ui.key_names import key, name_by, shown, valid_keys
from app.ui.models.opener import Opener
from app.ui.models.service import PairService
from app.ui.terminal.copying import copy_text
from app.ui.terminal.driver import end_politely
from app.ui.terminal.frame import FrameUpdate, frame_of
from app.ui.themes import DARK, LIGHT, apply_appearance, save_theme, theme_colors, unknown_theme
from app.ui.widgets.hint import SHOWN_S, Hint

if TYPE_CHECKING:
    from app.ui.screens.palette import Entry

log = logging.getLogger("tandem.screen")
Serve: TypeAlias = Callable[[PairInfo, Resolved], tuple[str, str | None]]
_SWITCH_INTERVAL_S = 0.001
"""Python's 5 ms would delay keys during imports, and the engine during drawing."""
_TITLE_COLUMNS = 30
"""Width of a title in a notice."""
_MAINTAIN_S = 5.0
"""Interval between two checks of a failed disk and of the age of the backup."""


class TandemApp(App[None], inherit_bindings=False):
    """The chat application, for the command line and for tests.

    Args:
        session: The chat, which loads its pair after the first frame; without one, the user chooses a pair first.
        queue: Receives the events of the session's engine and tools.
        serve: Starts or stops the server for other programs, if given; returns a sentence and whether it now serves.
    """

    TITLE = "Tandem"
    CSS_PATH = "screens/chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("app.")

    def __init__(
        self,
        session: Session,
        queue: EventQueue,
        opener: Opener,
        pairs: PairService,
        serve: Serve | None = None,
        continues: bool = False,
    ) -> None:
        super().__init__()
        self._serve = serve
        self._continues = continues
        name_by(lambda: self._keymap)
        self.session, self._events = session, queue
        self._opener = opener
        self._pairs = pairs
        self._interrupted_at: float | None = None
        self._takes_input = False
        """Whether the chat has its widgets and its conversation."""
        self._early_input: list[events.Event] = []
        """Keys, pastes and clicks that wait for the widgets of the screen in front."""
        self.failure: str | None = None
        """The unexpected error that ended the program, and what was saved."""
        # Animation takes CPU time from the models.
        self.animation_level = "none"
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        self._notices = apply_appearance(self, opener.live)

    def get_default_screen(self) -> ChatScreen:
        self._chat = ChatScreen(self.session, self._events, self._opener, self._pairs)
        return self._chat

    def get_css_variables(self) -> dict[str, str]:
        # Added after Textual's, because they replace some of a theme's own.
        self.theme_variables = {**super().get_css_variables(), **theme_colors(self.current_theme)}
        return self.theme_variables

    def get_key_display(self, binding: Binding) -> str:
        return binding.key_display or shown(binding.key)

    def on_mount(self) -> None:
        if not self.is_headless:
            end_politely(self._leave)
        # A shell may have used the terminal meanwhile.
        self.app_resume_signal.subscribe(self, lambda _: self.on_resize())
        # A stored conversation may name the pair.
        if not self._continues:
            self._choose_first_pair()
        self.call_after_refresh(self._after_first_frame)

    def _choose_first_pair(self) -> None:
        if not self.session.has_asked_for_pair:
            self._chat.action_pairs()

    def on_resize(self) -> None:
        """Draw everything: the terminal may have changed its content."""
        frame_of(self).forget()
        if self.screen_stack:
            self.screen.refresh()

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        # Textual would wake its writing thread for each of three parts.
        driver = self._driver
        if not isinstance(renderable, FrameUpdate) or driver is None or self.is_headless or sys.platform == "win32":
            super()._display(screen, renderable)
        elif self._running and not (self._batch_count or self._closed):
            cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
            if text := renderable.text(self.console, cursor):
                driver.write(text)

    def _after_first_frame(self) -> None:
        """Start slow work: the store on this thread, llama.cpp on the engine's, Markdown on its own."""
        gc.enable()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._chat.receive_events()
        library = self.session.library
        library.open_store()
        self.set_interval(_MAINTAIN_S, library.maintain)
        if typed := self.session.conversation.take_unsent_text():
            self._chat.view.prompt.put(f"{typed}{self._chat.view.prompt.whole}")
        last, written_by = library.last if self._continues else None, None
        if self._continues and last is None:
            library.say("There is no conversation to continue yet.")
        elif last is not None:
            self._chat.call_later(self._chat.controller.open_conversation, last)
            written_by = self._opener.written_by(library.last_models)
        elif title := library.do(lambda store: store.unsent_title()):
            library.say(f'"{fit(title, _TITLE_COLUMNS)}" has unsent text; {key("chat.open")} opens it.')
        self._chat.call_later(self.call_later, self._take_input)
        self._chat.call_later(self._chat.view.fill)
        if written_by is not None:
            self.session.load(written_by.loader, written_by.title)
        else:
            self.session.load_next()
            self._choose_first_pair()
        self._chat.call_later(self._chat.controller.renderer.render)
        if not self.is_headless:
            collect_young_objects_only()
        if requested := self._opener.live.content.keys:
            keys, errors = valid_keys(requested)
            self.set_keymap(keys)
            self._notices += errors
        for sentence in self._notices:
            library.say(sentence)

    async def _take_input(self) -> None:
        self._takes_input = True
        early, self._early_input = self._early_input, []
        for event in early:
            await self.on_event(event)

    def action_explain(self) -> None:
        """Explain the numbers, above the keys."""
        self.action_keys(explains=True)

    def action_keys(self, *, explains: bool = False) -> None:
        """Show the keys of the current screen."""
        from app.ui.screens.key_list import KeyListScreen

        if not self._has_screen(KeyListScreen):
            bindings = self.screen.active_bindings.values()
            self.push_screen(KeyListScreen(bindings, lists_commands=self.screen is self._chat, explains=explains))

    def watch_theme(self, theme: str) -> None:
        """Store a theme chosen in the palette."""
        if self.is_running and (problem := save_theme(theme, self._opener.live)):
            self.session.library.say(problem)

    def action_command_palette(self) -> None:
        """Open the list of all actions."""
        from app.ui.screens.palette import Palette, entries, settings

        if isinstance(self.screen, BaseScreen) and not self._has_screen(Palette):
            nothing = f"No action matches. Try fewer letters; {key('app.keys')} lists every key and command."
            found_only = list(settings(self.screen))
            palette = Palette(list(entries(self.screen)), "what do you want to do?", nothing, found_only=found_only)
            self.push_screen(palette, self._run_entry)

    def action_change_theme(self, name: str = "") -> None:
        """Use a theme by name, or open the list of themes."""
        from app.ui.screens.palette import Palette, themes

        known = themes(self)
        if name:
            name = f"tandem-{name}" if f"tandem-{name}" in self.available_themes else name
            if unknown := unknown_theme(name, sorted(self.available_themes)):
                raise unknown
            self.theme = name
            return
        chosen = next((at for at, each in enumerate(known) if each.name == self.theme), 0)
        self.push_screen(Palette(known, "search the themes", chosen=chosen), self._run_entry)

    async def _run_entry(self, entry: Entry | None) -> None:
        if entry is not None and isawaitable(done := entry.run()):
            await done

    def _has_screen(self, kind: type[Screen[Any]]) -> bool:
        return any(isinstance(screen, kind) for screen in self.screen_stack)

    def on_unmount(self) -> None:
        self._events.close()
        self.session.close()

    def action_serve(self) -> None:
        """Start or stop the server."""
        pair = self.session.pair
        if self._serve is None or pair is None:
            self._chat.view.hint.say(f"No pair is loaded; {key('chat.pairs')} chooses one.")
            return
        try:
            sentence, self._chat.view.header.serves = self._serve(pair, self.session.settings)
            self._chat.view.hint.say(sentence)
        except AppError as error:
            self._chat.view.hint.say(error.sentences)

    async def action_quit(self) -> None:
        """Quit immediately; the caller closes the engine when the terminal is restored."""
        self._leave()

    def action_help_quit(self) -> None:
        """Handle Ctrl+C without a selection: stop the answer, or quit if pressed twice."""
        now, before = time.monotonic(), self._interrupted_at
        again, screen = f"{key('app.interrupt')} again quits", self.screen
        hints = screen.query(Hint)
        is_shown = not hints or any(hint.confirms for hint in hints)
        if before is not None and now - before < SHOWN_S and is_shown:
            self._leave()
        self._interrupted_at = now
        if not hints:
            self.notify(again)
            return
        stops = screen.stop_work() if isinstance(screen, SubScreen) else None
        stops = stops or ("The answer" if self._chat.controller.stop_answer() else None)
        for hint in hints:
            hint.say(f"{stops} stops; {again}" if stops else again, confirms=True)

    async def on_event(self, event: events.Event) -> None:
        is_input = isinstance(event, events.InputEvent | events.Paste)
        if is_input and (not self._takes_input or self._early_input or not self.screen.is_mounted):
            # A screen without its widgets would fail, also on a key that the screen below did not handle.
            self._early_input.append(event)
            if self._takes_input:
                self.screen.call_later(self.call_later, self._take_input)
            return
        if is_input and not event.is_forwarded:
            if self._events.closed:
                return
            if isinstance(event, events.Key) and self._interrupted_at is not None:
                self._disarm(event.key)
            if isinstance(event, events.Key | events.Paste) and self.screen is self._chat:
                self._chat.focus_for(event)
        await super().on_event(event)

    def _disarm(self, pressed: str) -> None:
        if pressed not in self._keymap.get("app.interrupt", "ctrl+c").split(","):
            self._interrupted_at = None
            for hint in self.screen.query(Hint):
                hint.forget()

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text; see `app.ui.terminal.copying`."""
        self._clipboard = text
        copy_text(self, text)

    def _leave(self, code: int = 0) -> None:
        self._events.close()
        self.session.close(self._chat.controller.line.pending_text if self._chat.is_mounted else None)
        self._pairs.close(0.0)
        self.exit(return_code=code)

    def _handle_exception(self, error: Exception) -> None:
        """Quit after an unexpected error: log it, and save the answer and the unsent text."""
        # Textual would print hundreds of lines with all local variables.
        log.error("the screen failed", exc_info=error)
        # Widgets disappear while the program ends.
        if self._exception is None and not (self._events.closed and isinstance(error, MountError | NoMatches)):
            self._exception = error
            self._exception_event.set()
            self.failure = f"The screen failed ({type(error).__name__}: {error})."
            try:
                self._leave(code=1)
                self.failure += "\nThe answer and the unsent text are saved."
            except Exception:
                log.exception("saving failed")
        self._close_messages_no_wait()
