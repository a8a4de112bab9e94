"""Keys of the user's own: valid ones are used, the others are reported."""

from __future__ import annotations

import pytest

from app.ui.screens.key_list import every_binding, valid_keys
from tests.ui.driver import open_chat


def test_valid_keys_are_normalized() -> None:
    assert valid_keys({"chat.again": "F8", "chat.open": "ctrl+k, f9"}) == (
        {"chat.again": "f8", "chat.open": "ctrl+k,f9"},
        [],
    )
    shipped = {binding.id: binding.key for binding in every_binding() if binding.id}
    assert valid_keys(shipped) == (shipped, [])


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"app.quti": "f8"}, 'keys: there is no "app.quti". Did you mean "app.quit"?'),
        ({"chat.again": ""}, 'keys.chat.again is ""; it must be a key such as ctrl+k or f8.'),
        ({"chat.again": "\x1b[2J"}, 'keys.chat.again is "[2J"; it must be a key such as ctrl+k or f8.'),
    ],
)
def test_invalid_keys_are_reported(keys: dict[str, str], error: str) -> None:
    assert valid_keys(keys) == ({}, [error])


async def test_a_key_of_the_users_own_wins_over_the_one_that_had_it() -> None:
    async with open_chat() as chat:
        chat.pilot.app.set_keymap({"chat.new": "ctrl+o"})
        await chat.exchange("Hello", "Hi")
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: not chat.screen.session.conversation.tree.nodes)
