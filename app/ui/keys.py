"""The last line of a screen, with clickable words: the keys that do something now, most important first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual import events
from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from app.session.state import Blocked, BlockedError
from app.ui.actions import BY_ID

_GAP_CELLS = 2


@dataclass(frozen=True, slots=True)
class Word:
    """A text and the action of a click on it; one that `stays` is left out last."""

    text: Content
    clicked: Callable[[], object]
    stays: bool = False

    @property
    def cells(self) -> int:
        """Width including the gap after it."""
        return self.text.cell_length + _GAP_CELLS


class Words(Widget, can_focus=False):
    """Words on the left, as many as fit, and on the right, where the last always stays."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._left: Sequence[Word] = ()
        self._right: Sequence[Word] = ()
        self._places: list[tuple[int, Word]] = []

    def say(self, left: Sequence[Word], right: Sequence[Word] = ()) -> None:
        """Show these words, most important first."""
        self._left, self._right = left, right
        self.refresh()

    def render(self) -> Content:
        width = self.size.width
        right = list(self._right)
        while len(right) > 1 and _cells(right) > width + _GAP_CELLS:
            right.pop(0)
        end = width + _GAP_CELLS - _cells(right)
        left: list[Word] = []
        for at, word in enumerate(self._left):
            staying = [] if word.stays else [each for each in self._left[at:] if each.stays]
            if _cells([*left, word, *staying]) <= end:
                left.append(word)
        self._places = []
        line = self._joined(left, 0)
        line = line.pad_right(max(0, end - line.cell_length))
        line += self._joined(right, line.cell_length)
        return line.rstrip().truncate(width)

    def _joined(self, words: Sequence[Word], x: int) -> Content:
        line = Content("")
        for word in words:
            self._places.append((x + line.cell_length, word))
            line += word.text + " " * _GAP_CELLS
        return line

    def on_click(self, event: events.Click) -> None:
        for x, word in self._places:
            if x <= event.x - self.gutter.left < x + word.cells - _GAP_CELLS:
                event.stop()
                word.clicked()
                return


def _cells(words: Sequence[Word]) -> int:
    return sum(word.cells for word in words)


_RIGHT_IDS = ("app.commands", "app.quit", "app.keys")
"""The keys on the right, where there is always room."""


class KeyBar(Words):
    """Shows the keys of the screen in the order of its `active_bindings`."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._on_bindings)
        self.call_after_refresh(self._on_bindings, self.screen)

    def _on_bindings(self, screen: Screen[Any]) -> None:
        # Without the terminal's focus no widget has the focus; its keys return with it.
        if not self.is_attached or screen is not self.screen or not self.app.app_focus:
            return
        # One entry for each description; the first binding counts.
        shown: dict[str, ActiveBinding] = {}
        for active in screen.active_bindings.values():
            if active.binding.show and active.enabled:
                shown.setdefault(active.binding.description, active)
        # If a key leads back, the screen's keys need the room of the quit key.
        leads_back = any(_leads_back(one) for one in shown.values())
        right_ids = [identity for identity in _RIGHT_IDS if not (leads_back and identity == "app.quit")]
        right = {one.binding.id: one for one in shown.values() if one.binding.id in right_ids}
        self.say(
            [self._word(one) for one in shown.values() if one.binding.id not in right_ids],
            [self._word(right[identity]) for identity in right_ids if identity in right],
        )

    def _word(self, active: ActiveBinding) -> Word:
        binding, key = active.binding, self.app.get_key_display(active.binding)
        text = Content.assemble((key, "$foreground"), (f" {binding.description}", "$quiet"))
        return Word(text, partial(self.app.simulate_key, binding.key), _leads_back(active))


def _leads_back(active: ActiveBinding) -> bool:
    return (active.binding.id or "").endswith(".leave")


def active_key(screen: Screen[Any], identity: str) -> str | None:
    """Return the displayed key of an action; None while the key does something else."""
    active = (one for one in screen.active_bindings.values() if one.enabled and one.binding.id == identity)
    return next((screen.app.get_key_display(one.binding) for one in active), None)


_WAYS_OUT = {
    Blocked.UNLOADED: ("chat.pairs", "chooses one"),
    Blocked.WAITING: ("chat.take_back", "takes it back"),
    Blocked.ANSWERING: ("chat.stop", "stops it"),
}
"""The binding that ends what blocks a command, and what its key does."""


def way_out(screen: Screen[Any], error: BlockedError) -> str:
    """Return why a command is blocked, and the key that ends this, if it works now."""
    identity, does = _WAYS_OUT.get(error.why, ("", ""))
    shown = active_key(screen, identity)
    return f"{error.why.value}; {shown} {does}." if shown else error.message


def in_order(
    bindings: dict[str, ActiveBinding], idle: Collection[str] = (), *, first: Sequence[str] = ()
) -> dict[str, ActiveBinding]:
    """Sort bindings by the place of their ids in `first`, then in the table of actions; the others come last.

    Those in `idle` have nothing to do. The last line leaves them out; pressing one may say why.
    """
    places = {identity: place for place, identity in enumerate(dict.fromkeys((*first, *BY_ID)))}
    shown = {key: one._replace(enabled=one.enabled and one.binding.id not in idle) for key, one in bindings.items()}
    return dict(sorted(shown.items(), key=lambda item: places.get(item[1].binding.id or "", len(places))))
