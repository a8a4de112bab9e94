"""The interface of the chat screen that commands use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from textual.app import App

from app.session.library import Library
from app.session.session import Session
from app.settings.kinds import Value
from app.ui.transcript.list import MessageList
from app.ui.widgets.hint import Hint


class Settings(Protocol):
    """The settings of the open conversation."""

    @property
    def system(self) -> str: ...

    def set(self, name: str, value: Value) -> None: ...

    def draft(self, mode: str) -> str: ...


class Prompt(Protocol):
    """The prompt."""

    def include(self, path: str) -> None: ...


class InputMode(Protocol):
    """Other uses of the input line."""

    def begin(self, hint: str, text: str, done: Callable[[str, Callable[[], None]], Awaitable[None]]) -> None: ...


class Chat(Protocol):
    """The chat screen."""

    @property
    def app(self) -> App[object]: ...

    @property
    def library(self) -> Library: ...

    @property
    def messages(self) -> MessageList: ...

    @property
    def hint(self) -> Hint: ...

    @property
    def session(self) -> Session: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def prompt(self) -> Prompt: ...

    @property
    def input_mode(self) -> InputMode: ...

    async def open_conversation(self, conversation: int | None) -> None: ...

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None: ...

    def action_again(self) -> None: ...

    def action_choose(self) -> None: ...

    def action_compare(self) -> None: ...

    def action_conversations(self) -> None: ...

    def action_pairs(self) -> None: ...

    def action_restart(self) -> None: ...

    def action_settings(self) -> None: ...

    def action_stop(self) -> None: ...

    def action_toggle_panel(self) -> None: ...

    def action_toggle_tokens(self) -> None: ...
