"""Input before the first frame, such as keys typed during a restart, is kept and typed."""

import pytest
from textual import events
from textual.geometry import Size

from app.conversations.store import Store
from tests.ui.driver import Chat, open_chat
from tests.ui.fakes import fake_app


async def test_input_before_the_widgets_is_typed_into_the_prompt() -> None:
    app, engine = fake_app()
    size = Size(60, 20)
    early = [
        *(events.Key(letter, letter) for letter in "Hi"),
        events.Resize(size, size),
        events.MouseDown(None, 1, 1, 0, 0, 1, False, False, False),
        events.Paste(" there"),
        events.Key("!", "!"),
    ]

    def put(message: object) -> None:
        # The application has begun, but none of its widgets exists.
        while isinstance(message, events.Load) and early:
            app.post_message(early.pop(0))

    async with app.run_test(message_hook=put) as pilot:
        chat = Chat(pilot, app._chat, engine)
        await chat.until(lambda: chat.prompt == "Hi there!")


@pytest.mark.parametrize("name", ["settings", "pairs", "conversations"])
async def test_a_key_that_the_screen_below_had_no_use_for_waits_for_the_widgets_of_a_new_screen(name: str) -> None:
    async with open_chat(store=Store) as chat:
        app = chat.app
        await chat.screen.do(name)
        opened = app.screen
        key = events.Key("escape", None)
        key._set_forwarded()
        await app.on_event(key)
        assert app.screen is opened
        await chat.in_front()
