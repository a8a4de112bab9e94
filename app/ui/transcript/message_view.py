"""Base class of messages: selection and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.widgets import Static

from app.core.printable import printable
from app.ui.key_names import CHOOSE, key
from app.ui.transcript.foldable import Folding
from app.ui.transcript.message_data import MessageData

_GAP = "   "


class MessageAction(Enum):
    """Action on a selected message."""

    LEAVE = "leave"
    UP = "up"
    DOWN = "down"
    EDIT = "edit"
    AGAIN = "again"
    GO_ON = "go_on"
    EARLIER = "earlier"
    LATER = "later"


class Speaker(Static):
    """Show the speaker, the branch number, and the model if it differs.

    A click on an arrow goes to the branch beside it.

    Args:
        name: Who speaks.
    """

    @dataclass
    class Clicked(Message):
        """An arrow was clicked."""

        requested: MessageAction

    def __init__(self, name: str) -> None:
        super().__init__(Content(name), classes="label")
        self._speaker = name
        self._branches = ""
        self._model = ""

    def count(self, at: int, of: int) -> None:
        """Show that this is branch number `at`, from 1, of so many; one alone is not worth a word."""
        branches = f"◂ {at} / {of} ▸" if of > 1 else ""
        if branches == self._branches:
            return
        self._branches = branches
        self._draw()

    def name_model(self, name: str) -> None:
        """Show the name of the model that wrote this; "" shows none."""
        if name != self._model:
            self._model = name
            self._draw()

    def _draw(self) -> None:
        # The branches come first: clicks on them depend on their position.
        self.update(Content(_GAP.join(filter(None, (self._speaker, self._branches, printable(self._model))))))

    def on_click(self, event: events.Click) -> None:
        first = len(self._speaker) + len(_GAP)
        x = event.x - first
        if self._branches and 0 <= x < len(self._branches):
            event.stop()
            self.post_message(
                self.Clicked(MessageAction.EARLIER if 2 * x < len(self._branches) else MessageAction.LATER)
            )


class MessageView(VerticalGroup, can_focus=True):
    """A message that can be chosen by a click or a key; then letters say what is to become of it.

    Args:
        speaker: Who speaks.
        node: Its id in the conversation; None until it has one.
    """

    # Do not lay out the children a second time when they grow.
    virtual_size = var(Size(0, 0))

    BINDING_GROUP_TITLE = "Chosen message"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "request('LEAVE')", "back", key_display="esc", id="message.leave", tooltip="Back to the prompt"
        ),
        Binding(
            "e,enter", "request('EDIT')", "edit", key_display="e", id="message.edit", tooltip="Change it, as a branch"
        ),
        Binding("r", "request('AGAIN')", "again", id="message.again", tooltip="Answer again, as a branch"),
        Binding("o", "unfold", "open", id="message.unfold", tooltip="Open what it includes or thought, or fold it"),
        Binding(
            "c", "request('GO_ON')", "continue", id="message.go_on", tooltip="Go on with an answer that ended early"
        ),
        Binding(
            "left",
            "request('EARLIER')",
            "branch",
            key_display="left/right",
            id="message.earlier",
            tooltip="Other branches",
        ),
        Binding("right", "request('LATER')", "next branch", id="message.later", show=False),
        Binding(f"up,{CHOOSE}", "request('UP')", "message above", id="message.up", show=False),
        Binding("down,ctrl+down,alt+down", "request('DOWN')", "message below", id="message.down", show=False),
    ]

    @dataclass
    class ActionRequested(Message):
        """Something is to be done with this message."""

        message_view: MessageView
        requested: MessageAction

    class Clicked(Message):
        """The message was clicked."""

        def __init__(self, message_view: MessageView) -> None:
            super().__init__()
            self.message_view = message_view

    @dataclass
    class Chosen(Message):
        """It has taken the keys."""

        message_view: MessageView

    class Released(Message):
        """It has let go of them."""

    def __init__(self, speaker: str, node: int | None = None) -> None:
        super().__init__()
        self.speaker = speaker
        self.label = Speaker(speaker)
        self.node = node
        self.can_go_on = False
        """Whether it is an answer that ended before its end."""
        self._branch, self._branches = 1, 1

    @property
    def text(self) -> str:
        """Return what is said in it."""
        return ""

    @property
    def is_said(self) -> bool:
        """Return whether it is a message, and not only the place for one."""
        return True

    @property
    def folded(self) -> Sequence[Folding]:
        """Return what stands in it as one line, and opens."""
        return ()

    def data(self) -> MessageData:
        """Return what it takes to show it again once it is mounted no longer."""
        raise NotImplementedError

    def place(self, at: int, of: int, *, can_go_on: bool) -> None:
        """Say where it stands in the conversation.

        Args:
            at: Which of the branches at its place it is, from 1.
            of: How many there are.
            can_go_on: Whether it is an answer that ended before its end.
        """
        self._branch, self._branches, self.can_go_on = at, of, can_go_on
        self.label.count(at, of)

    @property
    def beside(self) -> str:
        """Return which branch it is, and how to come to the others, as a clause; "" where it is the only one."""
        others = key("message.earlier", "left/right")
        return f"branch {self._branch} of {self._branches}, {others} goes between them" if self._branches > 1 else ""

    def choose(self, chosen: bool) -> None:
        """Take the keys, or let go of them."""
        if not chosen and self.has_class("-chosen"):
            self.post_message(self.Released())
        self.set_class(chosen, "-chosen")
        if chosen:
            self.screen.set_focus(self, scroll_visible=False)
            self.post_message(self.Chosen(self))

    def allow_focus(self) -> bool:
        # Tab goes to the chosen one alone.
        return self.has_class("-chosen")

    def focus_on_click(self) -> bool:
        # A button that is pressed may begin to mark text; only a click chooses.
        return False

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if not self.screen.get_selected_text():
            self.post_message(self.Clicked(self))

    def on_speaker_clicked(self, event: Speaker.Clicked) -> None:
        event.stop()
        self.post_message(self.ActionRequested(self, event.requested))

    def on_blur(self) -> None:
        # It stays chosen while another window is in front; see `app.ui.base_screen`.
        if self.app.app_focus and self.screen.focused is not self:
            self.choose(False)

    def action_request(self, requested: str) -> None:
        self.post_message(self.ActionRequested(self, MessageAction[requested]))

    def action_unfold(self) -> None:
        """Open all that is folded in it, or fold it if some is open."""
        opened = not any(one.open for one in self.folded)
        for one in self.folded:
            one.open = opened

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing; leave out those that such a message never has."""
        if action == "unfold":
            return bool(self.folded)
        if action != "request":
            return True
        requested = MessageAction[str(parameters[0])]
        if requested in (MessageAction.EARLIER, MessageAction.LATER):
            return self._branches > 1
        if requested is MessageAction.GO_ON:
            return self.can_go_on
        if requested in (MessageAction.EDIT, MessageAction.AGAIN):
            return self.node is not None or None
        return True
