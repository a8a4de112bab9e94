"""The table of actions: every action is found by any word for it, and has one name and one key."""

import pytest

from app.ui.actions import ACTIONS, CHAT, PROGRAM, find


@pytest.mark.parametrize(
    ("typed", "identity"),
    [
        ("copy", "chat.copy"),
        ("clipboard", "chat.copy"),
        ("export", "chat.export"),
        ("save", "chat.export"),
        ("system", "chat.system"),
        ("edit", "chat.edit_last"),
        ("again", "chat.again"),
        ("regenerate", "chat.again"),
        ("rename", "chat.rename"),
        ("title", "chat.rename"),
        ("pair", "chat.pairs"),
        ("model", "chat.pairs"),
        ("draft", "chat.drafting"),
        ("speculative", "chat.drafting"),
        ("file", "chat.file"),
        ("attach", "chat.file"),
        ("quit", "app.quit"),
        ("exit", "app.quit"),
        ("theme", "app.theme"),
        ("dark", "app.theme"),
        ("compare", "chat.compare"),
        ("benchmark", "chat.compare"),
        ("delete", "found.delete"),
        ("delete", "message.delete"),
        ("fork", "message.fork"),
        ("import", "chat.import"),
        ("settings", "chat.settings"),
        ("temperature", "chat.settings"),
        ("serve", "app.serve"),
        ("api", "app.serve"),
        ("search", "prompt.search"),
        ("past conversations", "chat.open"),
        ("search all", "chat.open"),
        ("resend", "chat.edit_last"),
        ("tokens", "chat.tokens"),
        ("thinking", "chat.thinking"),
        ("shortcuts", "app.keys"),
        ("markdown", "chat.export"),
        ("last code", "chat.copy_code"),
        ("regenrate", "chat.again"),
    ],
)
def test_an_action_is_found_by_any_word_for_it(typed: str, identity: str) -> None:
    assert identity in [action.id for action in find(typed, ACTIONS)[:3]]


def test_nothing_is_found_for_letters_that_are_in_no_word() -> None:
    assert find("xqz", ACTIONS) == []


@pytest.mark.parametrize(
    ("typed", "identity"), [("copy xqz", "chat.copy"), ("how do i export this chat", "chat.export")]
)
def test_a_word_that_names_nothing_hides_no_match(typed: str, identity: str) -> None:
    assert identity in [action.id for action in find(typed, ACTIONS)[:3]]


def test_a_key_and_a_command_name_are_used_once() -> None:
    keys = [key for action in (*CHAT, *PROGRAM) if action.keys for key in action.keys.split(",")]
    # Esc stops editing, or takes back a prompt that waits, or stops the answer.
    assert [key for key in keys if keys.count(key) > 1] == ["escape"] * 3
    names = [action.name for action in ACTIONS if action.is_command]
    assert len(names) == len(set(names))
    assert all(name.isalpha() for name in names)
