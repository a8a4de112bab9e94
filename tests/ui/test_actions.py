"""The table of actions: every action is found by any word for it, and has one name and one key."""

import pytest

from app.ui.actions import ACTIONS, BY_ID, CHAT, PROGRAM, SCREENS
from app.ui.commands import find

WORDS = {
    "chat.copy": ("copy", "clipboard", "copy xqz"),
    "chat.export": ("export", "save", "markdown", "how do i export this chat"),
    "chat.system": ("system",),
    "chat.edit_last": ("edit", "resend"),
    "chat.again": ("again", "regenerate", "regenrate"),
    "chat.rename": ("rename", "title"),
    "chat.pairs": ("pair", "model", "ollama"),
    "chat.drafting": ("draft", "speculative"),
    "chat.file": ("file", "attach", "photo"),
    "app.quit": ("quit", "exit"),
    "app.theme": ("theme", "dark mode"),
    "chat.compare": ("compare", "benchmark", "why slow"),
    "found.delete": ("delete",),
    "message.delete": ("delete",),
    "message.fork": ("fork",),
    "chat.import": ("import",),
    "chat.settings": ("settings", "temperature"),
    "app.serve": ("serve", "api"),
    "prompt.search": ("search",),
    "chat.open": ("past conversations", "search all"),
    "chat.tokens": ("tokens",),
    "chat.thinking": ("thinking",),
    "app.keys": ("shortcuts",),
    "chat.copy_code": ("last code",),
}
"""Search words for each action, some with a typo or with meaningless words."""


@pytest.mark.parametrize(("typed", "identity"), [(typed, identity) for identity in WORDS for typed in WORDS[identity]])
def test_an_action_is_found_by_any_word_for_it(typed: str, identity: str) -> None:
    assert identity in [action.id for action in find(typed, ACTIONS)[:3]]


def test_nothing_is_found_for_letters_that_are_in_no_word() -> None:
    assert find("xqz", ACTIONS) == []


def test_a_key_and_a_command_name_are_used_once() -> None:
    keys = [key for action in (*CHAT, *PROGRAM) if action.keys for key in action.keys.split(",")]
    # Esc stops editing, takes back a queued prompt, or stops the answer.
    assert [key for key in keys if keys.count(key) > 1] == ["escape"] * 3
    assert len(BY_ID) == len(SCREENS) + len(ACTIONS), "an id is used once"
    names = [action.name for action in ACTIONS if action.is_command]
    assert len(names) == len(set(names))
    assert all(name.isalpha() for name in names)
