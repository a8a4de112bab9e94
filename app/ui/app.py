"""The application: one factory, two themes, and a way out that never waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.screen import Screen

from app.errors import AppError
from app.events import Event
from app.request import AnswerRequest
from app.ui.bridge import EventBridge
from app.ui.conversation_commands import ConversationCommands
from app.ui.copying import copy_text
from app.ui.keeping import Keeper, StoreOpener
from app.ui.looks import keep_theme, take_keys, wear
from app.ui.screens.chat import ChatScreen
from app.ui.settings import ChatSettings
from app.ui.setups import Choice, PairService
from app.ui.signals import end_politely
from app.ui.sweeping import leave_old_objects
from app.ui.themes import DARK, LIGHT, our_names
from app.ui.tuning import Tuning
from app.ui.widgets.hint import Hint

if TYPE_CHECKING:
    from app.worker import Job, Loader

_QUIT_AGAIN_S = 2.0


class Engine(Protocol):
    """What the chat needs of `app.worker.EngineWorker`."""

    def load(self, loader: Loader) -> None: ...

    def answer(self, request: AnswerRequest) -> int: ...

    def run(self, job: Job) -> int: ...

    def cancel(self) -> None: ...

    def inspect(self, on: bool) -> None: ...

    def close(self, timeout: float | None = None) -> bool: ...


EngineFactory = Callable[[Callable[[Event], None]], Engine]
"""Makes an engine that reports to the given callback, on any thread."""


class TandemApp(App[None]):
    """The chat. Build it with `make_app`.

    Args:
        engine: Answers; it reports to `bridge`.
        bridge: Where its events arrive.
        loader: Loads the pair, on the engine's thread.
        settings: How answers are asked for.
        pairs: The pairs to choose from; None if there is no choice.
        first_run: Whether a pair is chosen first; `loader` and `settings` then wait for that.
        store: Opens the conversations, after the first frame; None keeps nothing.
        tuning: The settings; None leaves everything as it was started with.
    """

    TITLE = "Tandem"
    CSS_PATH = "screens/chat.tcss"
    BINDING_GROUP_TITLE = "Program"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "quit", id="app.quit", tooltip="Stop everything and leave", priority=True),
        Binding(
            "ctrl+p", "command_palette", "commands", id="app.commands", tooltip="Look for a command", priority=True
        ),
        Binding("f1", "keys", "keys", id="app.keys", tooltip="Show every key"),
    ]

    def __init__(
        self,
        engine: Engine,
        bridge: EventBridge,
        loader: Loader,
        settings: ChatSettings,
        pairs: PairService | None = None,
        first_run: bool = False,
        store: StoreOpener | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        super().__init__()
        self.engine = engine
        self._tuning = tuning
        self._bridge = bridge
        self._loader = loader
        self._settings = settings
        self._pairs = pairs
        self._has_pair = not first_run or pairs is None
        self._keeper = Keeper(store)
        self._interrupted_at = -_QUIT_AGAIN_S
        # Moving text costs the models their processor, and a screen that jumps at once is easier to follow.
        self.animation_level = "none"
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        if tuning is not None:
            self._told = wear(self, tuning.desk)

    def get_default_screen(self) -> ChatScreen:
        self._chat = ChatScreen(
            self.engine,
            self._bridge,
            self._settings,
            self._keeper,
            self._pairs,
            loads=self._has_pair,
            desk=self._tuning.desk if self._tuning is not None else None,
        )
        return self._chat

    def get_css_variables(self) -> dict[str, str]:
        # Behind Textual's, for they replace some of a theme's own.
        self.theme_variables = {**super().get_css_variables(), **our_names(self.current_theme)}
        return self.theme_variables

    def get_key_display(self, binding: Binding) -> str:
        return binding.key_display or binding.key

    def on_mount(self) -> None:
        if not self.is_headless:
            end_politely(self._leave)
        # Textual goes on with what changes, on a terminal that a shell has used meanwhile.
        self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh())
        if not self._has_pair:
            self._open_pairs()
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        """What takes time: the store on this thread, llama.cpp on the engine's, Markdown on one of its own."""
        self._keeper.open_store()
        self._chat.call_later(self._chat.sidebar.fill)
        if self._has_pair:
            self.engine.load(self._loader)
        if not self.is_headless:
            leave_old_objects()
        # An answer that is to be shown before it is there waits for it.
        Thread(target=_read_ahead, daemon=True).start()
        if self._tuning is not None:
            for sentence in [*self._told, *take_keys(self, self._tuning.desk)]:
                self._keeper.say(sentence)

    @on(ChatScreen.PairsWanted)
    def _open_pairs(self) -> None:
        """Let the user choose another pair; what is going on goes on."""
        if self._pairs is not None and self._is_at_chat:
            from app.ui.screens.setup import SetupScreen

            self.push_screen(SetupScreen(self._pairs, can_leave=self._has_pair), self._take_pair)

    async def _take_pair(self, choice: Choice | None) -> None:
        if choice is not None:
            self._has_pair = True
            await self._chat.change_pair(choice)
            if choice.note:
                await self._chat.messages.notice(choice.note)
        self._chat.watch_downloads()

    @on(ChatScreen.ConversationsWanted)
    def _open_conversations(self) -> None:
        """Let the user choose another conversation; what is going on goes on until then."""
        if self._keeper.is_open and self._is_at_chat:
            from app.ui.screens.conversations import ConversationsScreen

            self.push_screen(ConversationsScreen(self._keeper), self._chat.open_found)

    @on(ChatScreen.ComparisonWanted)
    def _open_comparison(self, event: ChatScreen.ComparisonWanted) -> None:
        """Answer a prompt with and without the draft; the conversation stays as it is."""
        if self._is_at_chat:
            from app.ui.screens.compare import CompareScreen

            self.push_screen(CompareScreen(self.engine, event.what, self._chat.lend_ears))

    @property
    def _is_at_chat(self) -> bool:
        """Whether nothing is on top of the chat; a key that is pressed twice asks twice before the first is seen."""
        return self.screen is self._chat

    def action_keys(self) -> None:
        """Show every key of what is on the screen."""
        from app.ui.key_map import key_map
        from app.ui.screens.key_list import KeyListScreen

        if not self._has_screen(KeyListScreen):
            places = [self.screen, *self.screen.walk_children(), self]
            self.push_screen(KeyListScreen(key_map(places, self._keymap)))

    def _has_screen(self, kind: type[Screen[Any]]) -> bool:
        """Whether such a screen is open, perhaps below others: each leads to the other, and nobody wants to go back."""
        return any(isinstance(screen, kind) for screen in self.screen_stack)

    @on(ChatScreen.SettingsWanted)
    def _open_settings(self) -> None:
        """Let the user change the settings; what is going on goes on."""
        if self._tuning is not None and self._is_at_chat:
            from app.ui.screens.settings import SettingsScreen

            desk = self._tuning.desk
            screen = SettingsScreen(
                desk,
                self._chat.session.effects.lines(),
                sorted(self.available_themes),
                on_change=self._wear_settings,
            )
            self.push_screen(screen, self._take_settings)

    def _wear_settings(self) -> None:
        """Settings were changed: at once, for whoever quits from there comes back to them."""
        if self._tuning is not None:
            wear(self, self._tuning.desk)
            self._chat.own_settings.changed()

    async def _take_settings(self, reload: bool | None) -> None:
        self._chat.own_settings.changed()
        if reload and self._tuning is not None:
            try:
                choice = self._tuning.reopen()
            except AppError as error:
                self._keeper.say(f"{error.message} {error.hint}")
            else:
                await self._chat.change_pair(choice)

    def watch_theme(self, theme: str) -> None:
        """A theme chosen among the commands is the one of the next start as well."""
        if self._tuning is not None and self.is_running:
            told = keep_theme(theme, self._tuning.desk)
            if told:
                self._keeper.say(told)

    def action_command_palette(self) -> None:
        """Let the user look for a command."""
        if not self._has_screen(CommandPalette):
            from app.ui.screens.palette import Palette

            self.push_screen(Palette(id="--command-palette", placeholder="search the commands"))

    def search_themes(self) -> None:
        """Let the user choose a theme."""
        from textual.theme import ThemeProvider

        from app.ui.screens.palette import Palette

        self.push_screen(Palette(providers=[ThemeProvider], placeholder="search the themes"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield SystemCommand("Keys", "Show every key", self.action_keys)
        yield SystemCommand("Theme", "Choose other colours", self.action_change_theme)
        yield SystemCommand("Quit", "Stop everything and leave", self.action_quit)
        if screen is self._chat:
            yield SystemCommand("New", "Begin a new conversation", self._chat.action_restart)
            yield SystemCommand("Compare", "One prompt with and without the draft", self._chat.action_compare)
            yield SystemCommand("Tokens", "Show who wrote each token", self._chat.action_toggle_tokens)
            yield SystemCommand("Numbers", "Show or hide the numbers", self._chat.action_toggle_panel)
        if self._keeper.keeps and screen is self._chat:
            yield SystemCommand("Conversations", "Look for a conversation", self._chat.action_conversations)
            yield from ConversationCommands(self._chat, self._keeper)
        if self._tuning is not None and screen is self._chat:
            yield SystemCommand("Settings", "See and change every setting", self._chat.action_settings)
        if self._pairs is not None and screen is self._chat:
            yield SystemCommand("Models", "Choose, download or add a pair of models", self._chat.action_pairs)

    def on_unmount(self) -> None:
        self._bridge.close()
        self._keeper.close()

    async def action_quit(self) -> None:
        """Leave at once; whoever ran the app closes the engine when the terminal is restored."""
        self._leave()

    def action_help_quit(self) -> None:
        """Ctrl+C, when nothing is selected: the second one in a row quits."""
        now = time.monotonic()
        if now - self._interrupted_at < _QUIT_AGAIN_S:
            self._leave()
        self._interrupted_at = now
        for hint in self.screen.query(Hint):
            hint.say("ctrl+c again quits")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text, as far as the terminal lets us; see `app.ui.copying`."""
        self._clipboard = text
        copy_text(self, text)

    def _leave(self, code: int = 0) -> None:
        self._bridge.close()
        self.engine.cancel()
        self._keeper.close(self._chat.unsent if self._chat.is_mounted else None)
        if self._pairs is not None:
            self._pairs.close(0.0)
        self.exit(return_code=code)


def _read_ahead() -> None:
    import_module("app.ui.widgets.markdown")
    from app.ui.reading.ahead import read_ahead

    read_ahead()


def make_app(
    engine_factory: EngineFactory,
    loader: Loader,
    settings: ChatSettings,
    pairs: PairService | None = None,
    first_run: bool = False,
    store: StoreOpener | None = None,
    tuning: Tuning | None = None,
) -> TandemApp:
    """The one way to build the chat, for the command line and for tests; see `TandemApp`."""
    bridge = EventBridge()
    return TandemApp(engine_factory(bridge), bridge, loader, settings, pairs, first_run, store, tuning)
