"""The list of all keys, from the bindings."""

from __future__ import annotations

from collections import Counter

from textual.binding import Binding
from textual.widgets import TextArea

from app.ui.keys.bindings import CHAT_KEYS
from app.ui.keys.key_list import Key, editor_keys, keys_of
from app.ui.screens.keymap import places


def test_two_things_on_one_key_are_one_row() -> None:
    found = keys_of(CHAT_KEYS, {})

    assert [key.does for key in found if key.keys == "esc"] == ["Stop editing, else stop the answer; its text stays"]


def test_every_key_has_one_row_in_its_place() -> None:
    for place in places():
        counts = Counter(key.keys for key in keys_of(place, {}))
        assert not [keys for keys, n in counts.items() if n > 1]


def test_a_key_that_another_row_names_has_none_of_its_own() -> None:
    both = [
        Binding("left", "step(-1)", "branches", key_display="left/right", id="a"),
        Binding("right", "step(1)", "next", id="b"),
    ]

    assert keys_of(both, {}) == [Key("left/right", "Branches")]
    assert keys_of(both, {"b": "n"}) == [Key("left/right", "Branches"), Key("n", "Next", "right")]


def test_keys_of_the_users_own_are_listed_as_people_read_them() -> None:
    undo = [Binding("ctrl+underscore", "undo", "undo", id="a")]

    assert keys_of(undo, {}) == [Key("ctrl+_", "Undo")]
    assert keys_of(undo, {"a": "ctrl+backslash,f9"}) == [Key("ctrl+\\, f9", "Undo", "ctrl+_")]


def test_a_key_of_the_users_own_parts_what_was_on_one_key() -> None:
    found = keys_of(CHAT_KEYS, {"chat.stop": "f9"})

    assert Key("esc", "Stop editing") in found
    assert Key("f9", "Stop the answer; its text stays", "esc") in found


def test_an_editors_own_keys_are_said_in_words_all_of_them() -> None:
    named = editor_keys(Binding.make_bindings(TextArea.BINDINGS))
    phrases = {binding.key: binding.tooltip for binding in named}
    assert phrases["ctrl+shift+left"] == "Select one word to the left"
    assert phrases["home"] == "Move to the beginning of the line"
    assert [binding.action for binding in named if not binding.tooltip] == []
