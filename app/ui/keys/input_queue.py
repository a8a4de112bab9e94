"""Handle keys, pastes and clicks one after the other.

Textual gives a key to the widget that has the focus when it arrives. Of keys that arrive together (a macro, a slow
line, a busy program) the later ones would go to the widget that the first ones leave.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual import events
from textual.app import App, ScreenStackError
from textual.dom import DOMNode
from textual.errors import NoWidget
from textual.message import Message
from textual.widgets import Input, TextArea

from app.ui.background import BRIEF_S as PATIENCE_S

_WHEEL = (events.MouseScrollDown, events.MouseScrollUp, events.MouseScrollLeft, events.MouseScrollRight)
_LOOK_S = 0.05
"""Poll interval in seconds; widget removal sends no event."""


class QueuedInputApp(App[None]):
    """An app that handles input in order."""

    def __init__(self) -> None:
        super().__init__()
        self.input_queue = InputQueue(self, super().on_event)

    async def on_event(self, event: events.Event) -> None:
        # A forwarded event comes back from its widget.
        is_fresh = isinstance(event, (events.InputEvent, events.Paste)) and not event.is_forwarded
        await (self.input_queue.add(event) if is_fresh else super().on_event(event))


class InputQueue:
    """Queue input events until the app is at rest.

    Text after text does not wait: it goes to the same editor, in order.

    Args:
        app: The app.
        take: Handles an event.
    """

    def __init__(self, app: App[Any], take: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._take = take
        self._waiting: deque[events.Event] = deque()
        self._resting: asyncio.Task[None] | None = None
        self._is_quiet = True
        self._is_late = False
        self._before: tuple[DOMNode, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Return whether every event was handled."""
        return not self._waiting and self._resting is None

    async def add(self, event: events.Event) -> None:
        """Handle an event, now or in its turn."""
        self._waiting.append(event)
        await self._go_on()

    async def _go_on(self) -> None:
        while self._waiting and (self._resting is None or self._is_late):
            event = self._waiting[0]
            is_alone = not self._is_text(event) and not _is_passing(event)
            if is_alone and not self._is_quiet and not self._is_late:
                self._rest()
                return
            self._waiting.popleft()
            self._before = (*self._places(), *self._under(event))
            self._is_quiet = self._is_quiet and _is_passing(event)
            await self._take(event)
            if is_alone and self._resting is None:
                self._rest()

    def _is_text(self, event: events.Event) -> bool:
        """Return whether an event is text for the focused editor."""
        focused = self._app.focused
        if not isinstance(focused, (Input, TextArea)):
            return False
        if isinstance(event, events.Key) and event.is_printable:
            return not self._is_bound(event.key)
        return isinstance(event, events.Paste)

    def _is_bound(self, key: str) -> bool:
        """Return whether a key is bound here."""
        try:
            chain = self._app.screen._binding_chain
        except ScreenStackError:
            return False
        return any(key in bindings.key_to_bindings for _, bindings in chain)

    # Coming to rest

    def _rest(self) -> None:
        self._resting = asyncio.create_task(self._come_to_rest())

    async def _come_to_rest(self) -> None:
        # A key that waits for a disk keeps the others for a moment only.
        late = asyncio.get_running_loop().call_later(PATIENCE_S, self._lose_patience)
        while self._app.is_running and not await self._is_at_rest():
            pass
        late.cancel()
        self._resting, self._is_quiet, self._is_late = None, True, False
        self._app.call_later(self._go_on)

    def _lose_patience(self) -> None:
        self._is_late = True
        self._app.call_later(self._go_on)

    async def _is_at_rest(self) -> bool:
        """Send a message through every widget that a key can reach; return whether it met no other message.

        Messages are handled in order, so earlier ones have been handled when it has passed.
        """
        nodes = tuple(dict.fromkeys((*self._before, *self._places())))
        passing = _Passing()
        for node in nodes:
            node.message_signal.subscribe(self._app, passing.saw, immediate=True)
        try:
            arrived = await passing.through(nodes, PATIENCE_S if self._is_late else _LOOK_S)
        finally:
            for node in nodes:
                node.message_signal.unsubscribe(self._app)
        return arrived and passing.was_alone and set(self._places()) <= set(nodes)

    def _places(self) -> tuple[DOMNode, ...]:
        """Return the focused widget and its ancestors."""
        try:
            focused = self._app.focused or self._app.screen
        except ScreenStackError:
            return (self._app,)
        return tuple(focused.ancestors_with_self)

    def _under(self, event: events.Event) -> tuple[DOMNode, ...]:
        """Return the widget under the mouse and its ancestors."""
        if not isinstance(event, events.MouseEvent):
            return ()
        try:
            return tuple(self._app.get_widget_at(event.x, event.y)[0].ancestors_with_self)
        except (NoWidget, ScreenStackError):
            return ()


class _Passing:
    """A message that passes through widgets and changes nothing."""

    def __init__(self) -> None:
        self._sent: list[Message] = []
        self._met = 0
        self._arrived = asyncio.Event()
        self.was_alone = True
        """Whether no other message was handled meanwhile."""

    async def through(self, places: Sequence[DOMNode], wait_s: float) -> bool:
        """Pass through all of them; return False after some time: one may be busy, or gone."""
        self._sent = [message for place in places if place.post_message(message := events.Callback(_nothing))]
        try:
            await asyncio.wait_for(self._arrived.wait(), wait_s)
        except TimeoutError:
            return False
        return True

    def saw(self, message: Message) -> None:
        """Count a message that was handled."""
        if any(message is sent for sent in self._sent):
            self._met += 1
        else:
            self.was_alone = False
        if self._met == len(self._sent):
            self._arrived.set()


def _nothing() -> None:
    """Do nothing."""


def _is_passing(event: events.Event) -> bool:
    """Return whether an event leaves the focus where it is."""
    return isinstance(event, (events.MouseMove, *_WHEEL))
