"""Keys, pastes and clicks in turn: each finds the program as the one before it has left it.

Textual hands a key to what has the focus when it arrives, and looks for its binding when it has bubbled up from there.
Of keys that come at once (a macro, a slow line, a program that was busy) the later ones go where the first were to
lead away from: what was typed for one place is lost in another.
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

from app.ui.aside import PATIENCE_S

_WHEEL = (events.MouseScrollDown, events.MouseScrollUp, events.MouseScrollLeft, events.MouseScrollRight)
_LOOK_S = 0.05
"""How often is looked whether what is waited for has gone: what goes does not say so."""


class OrderlyApp(App[None]):
    """A program whose input has its effect in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.in_turn = InTurn(self, super().on_event)

    async def on_event(self, event: events.Event) -> None:
        # What was given to a widget comes up from there once more.
        is_fresh = isinstance(event, (events.InputEvent, events.Paste)) and not event.is_forwarded
        await (self.in_turn.add(event) if is_fresh else super().on_event(event))


class InTurn:
    """The user's input, one thing at a time.

    Text waits for no text: it goes to the same editor, which takes it in order. Everything else waits until the
    program has come to rest, and lets what follows wait for that.

    Args:
        app: The program.
        take: Lets an event have its effect.
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
        """Whether everything has had its effect."""
        return not self._waiting and self._resting is None

    async def add(self, event: events.Event) -> None:
        """Let an event have its effect, now or in its turn."""
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
            event = self._without_alt(event)
            self._before = (*self._places(), *self._under(event))
            self._is_quiet = self._is_quiet and _is_passing(event)
            await self._take(event)
            if is_alone and self._resting is None:
                self._rest()

    def _is_text(self, event: events.Event) -> bool:
        """Whether an event is text for the editor that has the focus."""
        focused = self._app.focused
        if not isinstance(focused, (Input, TextArea)):
            return False
        if isinstance(event, events.Key) and event.is_printable:
            return not self._is_bound(event.key)
        return isinstance(event, events.Paste)

    def _without_alt(self, event: events.Event) -> events.Event:
        """Enter and its like are what they are without alt, where alt does nothing; letters are so by themselves."""
        if not isinstance(event, events.Key) or event.is_printable or event.character is None:
            return event
        name = event.key.removeprefix("alt+")
        return event if name == event.key or self._is_bound(event.key) else events.Key(name, event.character)

    def _is_bound(self, key: str) -> bool:
        """Whether a key does something here, those of the user's own included."""
        try:
            chain = self._app.screen._binding_chain
        except ScreenStackError:
            return False
        return any(key in bindings.key_to_bindings for _, bindings in chain)

    # Coming to rest

    def _rest(self) -> None:
        self._resting = asyncio.create_task(self._come_to_rest())

    async def _come_to_rest(self) -> None:
        # A key that is still at work then, on a disk that does not answer say, keeps the others no longer.
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
        """Let a message pass through all that a key can reach; returns whether it met no other.

        Messages are dealt with in order: what was under way has ended when it has passed, and nothing has come of it
        if there was no other.
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
        """Where keys go, and everything that they pass on their way up."""
        try:
            focused = self._app.focused or self._app.screen
        except ScreenStackError:
            return (self._app,)
        return tuple(focused.ancestors_with_self)

    def _under(self, event: events.Event) -> tuple[DOMNode, ...]:
        """The same for the mouse."""
        if not isinstance(event, events.MouseEvent):
            return ()
        try:
            return tuple(self._app.get_widget_at(event.x, event.y)[0].ancestors_with_self)
        except (NoWidget, ScreenStackError):
            return ()


class _Passing:
    """A message on its way through places in which it changes nothing."""

    def __init__(self) -> None:
        self._sent: list[Message] = []
        self._met = 0
        self._arrived = asyncio.Event()
        self.was_alone = True
        """Whether nothing else was dealt with in these places meanwhile."""

    async def through(self, places: Sequence[DOMNode], wait_s: float) -> bool:
        """Pass through all of them at once; returns whether it has, after some time: one may be busy, or gone."""
        self._sent = [message for place in places if place.post_message(message := events.Callback(_nothing))]
        try:
            await asyncio.wait_for(self._arrived.wait(), wait_s)
        except TimeoutError:
            return False
        return True

    def saw(self, message: Message) -> None:
        """A message was dealt with in one of the places."""
        if any(message is sent for sent in self._sent):
            self._met += 1
        else:
            self.was_alone = False
        if self._met == len(self._sent):
            self._arrived.set()


def _nothing() -> None:
    """What is done about a message that only passes."""


def _is_passing(event: events.Event) -> bool:
    """Whether an event decides nothing about where the next one goes."""
    return isinstance(event, (events.MouseMove, *_WHEEL))
