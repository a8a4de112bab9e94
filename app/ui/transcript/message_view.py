"""Base class of messages: selection and branches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from textual import events
from textual.binding import BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip
from textual.widgets import Static

from app.conversations.tree import Node
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.ui.actions import MESSAGE, bindings
from app.ui.key_names import key
from app.ui.transcript.parts import Folding
from app.ui.widgets.rows_view import RowsView

_GAP = "   "


class MessageView(VerticalGroup, can_focus=True):
    """A message that a click or a key selects. Letters act on it only if it has the focus, which a key gives it.

    Clicks on its arrows switch the branch.

    Attributes:
        node: Id in the conversation; None until it has one, and for the reason why a prompt has no answer.
        text: The text without attachments and reasoning.
    """

    # Growing content must not cause a second layout.
    virtual_size = var(Size(0, 0))

    BINDING_GROUP_TITLE = "Chosen message"
    BINDINGS: ClassVar[list[BindingType]] = bindings(MESSAGE)

    @dataclass
    class ActionRequested(Message):
        """A key or a click asks for an action on this message."""

        message_view: MessageView
        requested: str

    class SelectionChanged(Message):
        """Another message was selected, or none."""

    def __init__(self, speaker: str, node: Node | None) -> None:
        self._margins: dict[tuple[int, ...], list[Strip]] = {}
        """A line of what its children leave of it, by its width and the columns that were asked for."""
        super().__init__()
        self.node = node.id if node is not None and node.id >= 0 else None
        self.text = ""
        self._speaker = speaker
        self._label = Static(Content(speaker), classes="label")
        self.pair: PairInfo | None = None
        """The loaded pair, on which the fix of an error depends."""
        self.can_go_on = False
        """True for an answer that ended early."""
        self._branch = self._branches = 1

    @property
    def folded(self) -> Sequence[Folding]:
        """The collapsible parts."""
        return ()

    def place(self, at: int, of: int, *, can_go_on: bool, model: str) -> None:
        """Set the number of this branch, from 1, and that of all branches here; name a model as author unless "".

        An answer that ended early can be continued.
        """
        self._branch, self._branches, self.can_go_on = at, of, can_go_on
        # The arrows come first: clicks on them depend on their position.
        parts = (self._speaker, self._arrows, printable(model))
        self._label.update(Content(_GAP.join(filter(None, parts))))

    @property
    def _arrows(self) -> str:
        return f"◂ {self._branch} / {self._branches} ▸" if self._branches > 1 else ""

    @property
    def beside(self) -> str:
        """The number of this branch, and the key that switches; "" for a single branch."""
        others = key("message.earlier", "left/right")
        return f"branch {self._branch} of {self._branches}, {others} goes between them" if self._branches > 1 else ""

    def part_with(self, words: re.Pattern[str]) -> RowsView | None:
        """Return the first part with a match of these words, made visible; None if there is no match."""
        raise NotImplementedError

    def choose(self, chosen: bool, *, focus: bool = True) -> None:
        """Select the message and perhaps focus it, or deselect it."""
        if chosen or self.has_class("-chosen"):
            self.post_message(self.SelectionChanged())
        self.set_class(chosen, "-chosen")
        if chosen and focus:
            self.screen.set_focus(self, scroll_visible=False)

    def render_line(self, y: int) -> Strip:
        return Strip.blank(self.size.width, self.visual_style.rich_style)

    def render_lines(self, crop: Region) -> list[Strip]:
        # What its children leave of it looks the same in every line. Textual would render all of them as it grows.
        at = (self.size.width, *crop.column_span)
        if at not in self._margins:
            self._margins[at] = super().render_lines(Region(crop.x, 0, crop.width, 1))
        return self._margins[at] * crop.height

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        self._margins.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def allow_focus(self) -> bool:
        # Tab reaches only the selected message.
        return self.has_class("-chosen")

    def focus_on_click(self) -> bool:
        # Pressing a mouse button may begin a text selection.
        return False

    def on_click(self, event: events.Click) -> None:
        event.stop()
        label, cells = self._label.region, len(self._arrows)
        x = event.screen_x - label.x - len(self._speaker) - len(_GAP)
        if label.contains_point(event.screen_offset) and 0 <= x < cells:
            self.action_request("earlier" if 2 * x < cells else "later")
        elif not self.screen.get_selected_text():
            self.action_request("choose")

    def on_blur(self) -> None:
        # It stays selected while another window is in front; see `app.ui.base_screen`.
        if self.app.app_focus and self.screen.focused is not self:
            self.choose(False)

    def action_request(self, requested: str) -> None:
        self.post_message(self.ActionRequested(self, requested))

    def action_unfold(self) -> None:
        """Open all collapsible parts, or close them if one is open."""
        opened = not any(part.open for part in self.folded)
        for part in self.folded:
            part.open = opened

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim keys that would do nothing, and hide those that do not apply to the message."""
        match action, parameters:
            case "unfold", _:
                return bool(self.folded)
            case "request", ("earlier" | "later",):
                return self._branches > 1
            case "request", ("go_on",):
                return self.can_go_on
            case "request", ("edit" | "again" | "fork" | "delete",):
                return self.node is not None or None
        return True
