"""The application: one factory, two themes, and a way out that never waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Protocol

from textual.app import App
from textual.binding import Binding, BindingType

from app.events import Event
from app.responder import AnswerRequest
from app.ui.bridge import EventBridge
from app.ui.screens.chat import ChatScreen
from app.ui.settings import ChatSettings
from app.ui.themes import DARK, FALLBACKS, LIGHT
from app.worker import Loader

_QUIT_AGAIN_S = 2.0


class Engine(Protocol):
    """What the chat needs of `app.worker.EngineWorker`."""

    def load(self, loader: Loader) -> None: ...

    def answer(self, request: AnswerRequest) -> int: ...

    def cancel(self) -> None: ...

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
    """

    TITLE = "Tandem"
    CSS_PATH = "screens/chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "quit", id="app.quit", tooltip="Stop everything and leave", priority=True),
    ]

    def __init__(self, engine: Engine, bridge: EventBridge, loader: Loader, settings: ChatSettings) -> None:
        super().__init__()
        self.engine = engine
        self._bridge = bridge
        self._loader = loader
        self._settings = settings
        self._interrupted_at = -_QUIT_AGAIN_S
        # Moving text costs the models their processor, and a screen that jumps at once is easier to follow.
        self.animation_level = "none"
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name

    def get_default_screen(self) -> ChatScreen:
        return ChatScreen(self.engine, self._bridge, self._settings)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return FALLBACKS

    def get_key_display(self, binding: Binding) -> str:
        return binding.key_display or binding.key

    def on_mount(self) -> None:
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        """What takes time to import: llama.cpp, on the engine's thread, and Markdown, on this one."""
        self.engine.load(self._loader)
        import app.ui.widgets.markdown  # noqa: F401

    def on_unmount(self) -> None:
        self._bridge.close()

    async def action_quit(self) -> None:
        """Leave at once; whoever ran the app closes the engine when the terminal is restored."""
        self._leave()

    def action_help_quit(self) -> None:
        """Ctrl+C, when nothing is selected: the second one in a row quits."""
        now = time.monotonic()
        if now - self._interrupted_at < _QUIT_AGAIN_S:
            self._leave()
        self._interrupted_at = now
        if isinstance(self.screen, ChatScreen):
            self.screen.hint.say("ctrl+c again quits")

    def _leave(self) -> None:
        self._bridge.close()
        self.engine.cancel()
        self.exit()


def make_app(engine_factory: EngineFactory, loader: Loader, settings: ChatSettings) -> TandemApp:
    """The one way to build the chat, for the command line and for tests."""
    bridge = EventBridge()
    return TandemApp(engine_factory(bridge), bridge, loader, settings)
