"""The prompt: lines, growth, pasting, marks for long pastes, and past prompts."""

import unicodedata

from textual import events

from app.conversations.attached import Attachment, compose
from app.conversations.store import Store
from app.session.library import Library
from app.ui.composer.completion import PastPrompts
from app.ui.composer.editor import LONGEST, Pastes
from tests.ui.driver import converse, open_chat


async def test_ctrl_j_breaks_the_line_and_enter_sends_both() -> None:
    async with open_chat() as chat:
        await chat.pilot.press(*"one", "ctrl+j", *"two", "enter")
        await chat.until(lambda: chat.engine.requests)
        assert chat.engine.requests[0].messages[-1].content == "one\ntwo"


async def test_the_input_grows_to_eight_lines() -> None:
    async with open_chat() as chat:
        assert chat.screen.view.prompt.size.height == 1
        await chat.press("a", "ctrl+j", "b", until=lambda: chat.screen.view.prompt.size.height == 2)
        await chat.pilot.press(*["ctrl+j"] * 12)
        await chat.until(lambda: chat.screen.view.prompt.size.height == 8)
        await chat.press("enter", until=lambda: chat.screen.view.prompt.size.height == 1)


async def test_up_recalls_what_was_sent_and_down_leads_back() -> None:
    async with open_chat() as chat:
        for prompt in ("first", "second"):
            await chat.exchange(prompt, "ok")
        await chat.pilot.press("up")
        assert chat.prompt == "second"
        await chat.pilot.press("up")
        assert chat.prompt == "first"
        await chat.pilot.press("down", "down")
        assert chat.prompt == ""
        await chat.pilot.press(*"typed", "up")
        assert chat.prompt == "typed"


async def test_blank_prompts_are_not_sent() -> None:
    async with open_chat() as chat:
        await chat.pilot.press("space", "enter")
        await chat.pilot.pause()
        assert chat.engine.requests == []


async def test_pasted_control_characters_are_dropped() -> None:
    async with open_chat() as chat:
        chat.app.post_message(events.Paste("a\x1b[31mb\r\nc"))
        await chat.until(lambda: chat.prompt)
        assert chat.prompt == "a[31mb\nc"


async def test_invisible_characters_can_be_typed_unless_they_hide_text() -> None:
    wanted = "東京\u3000می\u200cروم\xa0👩\u200d👧"
    async with open_chat() as chat:
        for character in wanted + "\u202e\x07":
            chat.app.post_message(events.Key(unicodedata.name(character, "key").lower(), character))
        await chat.next_request("end", "enter")
        assert chat.engine.requests[0].messages[-1].content == wanted


def alike(letter: str) -> str:
    """Return one of several texts with the same name."""
    return letter * (LONGEST + 1)


def message(*letters: str) -> str:
    """Return a prompt with these pastes, as sent by another session."""
    pastes = Pastes()
    question = "compare " + " and ".join(pastes.fold(alike(letter)) for letter in letters)
    return compose(question, pastes.found_in(question))


def test_a_mark_keeps_its_text_after_a_long_paste() -> None:
    pastes = Pastes()
    texts = [f"{number} " * LONGEST for number in range(100)]
    assert [each.text for each in pastes.found_in(" ".join(map(pastes.fold, texts)))] == texts


def test_a_paste_keeps_its_first_name_when_its_number_changes() -> None:
    pastes = Pastes()
    marks = [pastes.remember(Attachment("pasted 4 KB, 1 line, no. 2", letter, is_file=False)) for letter in "abc"]
    assert marks == [f"[pasted 4 KB, 1 line{number}]" for number in (", no. 2", "", ", no. 3")]


async def test_a_recalled_prompt_has_all_its_pastes_and_the_keys_still_step() -> None:
    async with open_chat(store=lambda: store_with("before", message("a", "b"))) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        chat.screen.view.prompt._pastes.fold(alike("c"))
        await chat.pilot.press("up")
        assert [paste.text for paste in chat.screen.view.prompt.pastes] == [alike("a"), alike("b")]
        await chat.pilot.press("up")
        assert chat.prompt == "before"
        await chat.pilot.press("down", "down")
        assert chat.prompt == ""


def store_with(*prompts: str) -> Store:
    store = Store()
    for prompt in prompts:
        converse(store, prompt)
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


def test_prompts_differ_by_pasted_text_and_not_by_file_content() -> None:
    def message(name: str, text: str) -> str:
        is_file = name == "a.py"
        return compose("Sum up " + ("@a.py" if is_file else f"[{name}]"), [Attachment(name, text, is_file=is_file)])

    first, second = (message("pasted 5 KB, 50 lines", text) for text in ("one", "two"))
    past = past_with(second, message("a.py", "new"), first, message("a.py", "old"), second)
    assert [message for message, _ in past.newest()] == [second, message("a.py", "new"), first]


def test_prompts_that_differ_only_in_spaces_are_listed_once() -> None:
    past = past_with("say  it", "say\nit", "say it twice")
    assert [question for _, question in past.newest()] == ["say  it", "say it twice"]


def test_a_store_that_opens_later_is_asked_again() -> None:
    library = Library(lambda: store_with("from before"))
    past = PastPrompts(library)
    assert past.newest() == ()
    library.open_store()
    assert past.newest() == (("from before", "from before"),)


async def test_a_past_prompt_is_found_as_one_types() -> None:
    async with open_chat(store=lambda: store_with("sort a list\nin Rust", "SORT in Python", "the moon")) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.type("half written")
        await chat.press("ctrl+s", shows="the moon")
        await chat.type("sort")
        await chat.until(lambda: "the moon" not in chat.text)
        assert chat.screen.controller.line.pending_text == "half written"
        await chat.pilot.press("down", "enter")
        assert chat.prompt == "sort a list\nin Rust"
        assert chat.engine.requests == []
        await chat.press("ctrl+s", shows="half written")
        await chat.pilot.press("escape")
        assert chat.prompt == "sort a list\nin Rust"
        await chat.until(lambda: "SORT in Python" not in chat.text)


async def test_text_that_looks_like_a_paste_is_recalled_completely() -> None:
    written = "x:\n```\nsome text\n```\n\nwhat of [x]?"
    async with open_chat(store=lambda: store_with(written)) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.pilot.press("up")
        assert chat.prompt == chat.screen.view.prompt.written == written
        await chat.pilot.press("down")
        assert chat.prompt == ""
