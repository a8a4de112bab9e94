"""Past prompts, of this session and of earlier ones."""

from __future__ import annotations

from app.conversations.attached import Attachment, compose
from app.conversations.message import Role
from app.conversations.store import Store
from app.session.library import Library
from app.ui.composer.completion import PastPrompts
from tests.ui.driver import open_chat


def store_with(*prompts: str) -> Store:
    store = Store()
    for prompt in prompts:
        store.add(store.create(), Role.USER, prompt, parent=None)
    return store


def past_with(*newest_first: str) -> PastPrompts:
    library = Library(lambda: store_with(*reversed(newest_first)))
    library.open_store()
    return PastPrompts(library)


def test_each_prompt_is_there_once_newest_first() -> None:
    past = past_with("c", "b", "a", "b")
    past.add("a")
    past.add("d")
    assert [question for _, question in past.newest()] == ["d", "a", "c", "b"]


def test_what_was_pasted_shows_prompts_apart_and_what_stood_in_a_file_does_not() -> None:
    def message(name: str, text: str) -> str:
        is_file = name == "a.py"
        return compose("Sum up " + ("@a.py" if is_file else f"[{name}]"), [Attachment(name, text, is_file=is_file)])

    first, second = (message("pasted 5 KB, 50 lines", text) for text in ("one", "two"))
    past = past_with(second, message("a.py", "new"), first, message("a.py", "old"), second)
    assert [message for message, _ in past.newest()] == [second, message("a.py", "new"), first]


def test_how_words_are_set_apart_shows_no_prompts_apart() -> None:
    past = past_with("say  it", "say\nit", "say it twice")
    assert [question for _, question in past.newest()] == ["say  it", "say it twice"]


def test_a_store_that_opens_later_is_asked_again() -> None:
    library = Library(lambda: store_with("from before"))
    past = PastPrompts(library)
    assert past.newest() == ()
    library.open_store()
    assert past.newest() == (("from before", "from before"),)


async def test_up_leads_to_earlier_sessions() -> None:
    async with open_chat(store=lambda: store_with("from before", "yesterday")) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.pilot.press("up", "up")
        assert chat.prompt == "from before"
        await chat.pilot.press("up")
        assert chat.prompt == "from before"
        await chat.pilot.press("down", "down")
        assert chat.prompt == ""


async def test_a_past_prompt_is_found_as_one_types() -> None:
    async with open_chat(store=lambda: store_with("sort a list\nin Rust", "SORT in Python", "the moon")) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.type("half written")
        await chat.press("ctrl+s", shows="the moon")
        await chat.type("sort")
        await chat.until(lambda: "the moon" not in chat.text)
        assert chat.screen.controller.input_mode.pending_text == "half written"
        await chat.pilot.press("down", "enter")
        assert chat.prompt == "sort a list\nin Rust"
        assert chat.engine.requests == []
        await chat.press("ctrl+s", shows="half written")
        await chat.pilot.press("escape")
        assert chat.prompt == "sort a list\nin Rust"
        await chat.until(lambda: "SORT in Python" not in chat.text)
