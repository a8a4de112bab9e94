"""Keys of the user's own: what can be met is met, and the rest is told."""

from __future__ import annotations

import pytest
from textual.binding import Binding, BindingType

from app.ui.keys.custom_keys import valid_keys
from app.ui.screens.keymap import places

HERE: list[list[BindingType]] = [
    [Binding("ctrl+q", "quit", id="app.quit"), Binding("ctrl+r", "again", id="a"), Binding("ctrl+d,f2", "b", id="b")],
    [Binding("ctrl+q", "quit", id="app.quit"), Binding("ctrl+d", "c", id="c")],
]


def test_a_wish_that_can_be_met() -> None:
    assert valid_keys({"a": "F8", "b": "ctrl+k, f9"}, HERE) == ({"a": "f8", "b": "ctrl+k,f9"}, [])


def test_two_may_change_places() -> None:
    assert valid_keys({"a": "ctrl+d", "b": "ctrl+r"}, HERE) == ({"a": "ctrl+d", "b": "ctrl+r"}, [])


@pytest.mark.parametrize(
    ("wishes", "told"),
    [
        ({"a": "f2"}, "keys.a is f2, which is taken by b; a keeps ctrl+r."),
        ({"c": "ctrl+q"}, "keys.c is ctrl+q, which is taken by app.quit; c keeps ctrl+d."),
        ({"app.quti": "f8"}, 'keys: there is no "app.quti". Did you mean "app.quit"?'),
        ({"a": ""}, 'keys.a is ""; it must be a key such as ctrl+k or f8.'),
        ({"a": "ctrl++"}, 'keys.a is "ctrl++"; it must be a key such as ctrl+k or f8.'),
        ({"a": "\x1b[2J"}, 'keys.a is "[2J"; it must be a key such as ctrl+k or f8.'),
    ],
)
def test_a_key_that_cannot_be_is_told_and_the_old_one_stays(wishes: dict[str, str], told: str) -> None:
    assert valid_keys(wishes, HERE) == ({}, [told])


def test_the_same_key_on_another_screen_is_no_clash() -> None:
    assert valid_keys({"c": "ctrl+r"}, HERE) == ({"c": "ctrl+r"}, [])


def test_the_programs_own_keys_do_not_clash() -> None:
    known = {binding.id: binding.key for place in places() for binding in place if isinstance(binding, Binding)}
    named = {str(identity): key for identity, key in known.items() if identity}
    assert valid_keys(named, places()) == (named, [])
    assert {"chat.settings", "prompt.break_line", "settings.reset", "app.quit"} <= set(named)
