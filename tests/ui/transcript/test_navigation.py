"""Streamed Markdown, code blocks, search hits, and errors with the keys that fix them."""

from pathlib import Path

import pytest
from textual import events
from textual.app import App
from textual.selection import SELECT_ALL

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node, StoredConversation, Summary, Tree
from app.core.errors import AppError, ContextOverflowError, DoesNotFitError
from app.models.pair_info import ModelInfo, PairInfo
from app.ui.reading.document import MarkdownDocument
from app.ui.reading.rows import Row
from app.ui.transcript import parts
from app.ui.transcript.answer import in_keys
from tests.ui.driver import WIDE, Chat, keep, open_chat

TWO = "First:\n```py\na = 1\n```\n- and\n  ```sh\n  ls\n  ```\n"
ONE = "```\nthird\n```\n"


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []

    def copy(app: App[None], text: str, what: str = "") -> None:
        texts.append((text, what))

    monkeypatch.setattr("app.ui.chat.conversation_commands.copy_text", copy)
    return texts


def marked(chat: Chat) -> tuple[str, int]:
    """Return the chosen message, and the number of its marked code block."""
    return chat.chosen, chat.screen.view.messages.marked_code


def bars(chat: Chat) -> int:
    """Return the number of lines of code with the bar of a marked block."""
    return sum(text.startswith("┃") for text in chat.styled("bold"))


async def test_a_code_block_shows_and_has_its_own_key(copied: list[tuple[str, str]]) -> None:
    async with open_chat() as chat:
        await chat.exchange("code", TWO)
        await chat.until(lambda: any("ls" in row and row.rstrip().endswith("/copy 2") for row in chat.rows))
        await chat.press("alt+2", until=lambda: copied == [("ls", "code block 2 of 2")])
        await chat.pilot.press(*"/copy 1", "enter")
        await chat.until(lambda: copied[1:] == [("a = 1", "code block 1 of 2")])
        await chat.press("alt+3", shows="The answer has 2 code blocks; there is no number 3.")


async def test_a_key_copies_from_the_answer_in_view(copied: list[tuple[str, str]]) -> None:
    async with open_chat(size=(60, 12)) as chat:
        await chat.exchange("code", ONE + "words\n\n" * 12)
        await chat.exchange("more", TWO + "words\n\n" * 12)
        await chat.press("ctrl+home", shows="third")
        await chat.press("alt+1", until=lambda: copied == [("third", "the code")])


async def test_a_click_on_its_label_copies_a_code_block(copied: list[tuple[str, str]]) -> None:
    async with open_chat() as chat:
        await chat.exchange("code", TWO)
        await chat.click("copy 2", until=lambda: copied == [("ls", "code block 2 of 2")])
        assert chat.screen.view.messages.chosen is None


async def test_keys_lead_from_block_to_block(copied: list[tuple[str, str]]) -> None:
    async with open_chat() as chat:
        await chat.exchange("code", TWO)
        await chat.exchange("more", ONE)
        await chat.exchange("words", "No code at all.")
        await chat.press("ctrl+up", shows="esc back")
        active = {one.binding.id: one.enabled for one in chat.screen.active_bindings.values()}
        assert not active["message.next_code"]
        await chat.press("escape", "alt+c", until=lambda: marked(chat) == (ONE, 1))
        await chat.press("shift+tab", "alt+c", until=lambda: marked(chat) == (TWO, 1))
        await chat.press("shift+tab", shows="There is no code block above.")
        assert "message.next_code" in {one.binding.id for one in chat.screen.active_bindings.values() if one.enabled}
        await chat.press("tab", until=lambda: marked(chat) == (TWO, 2))
        await chat.until(lambda: "no code block above" not in chat.text)
        assert bars(chat) == 1
        # Both keys arrive before the first is handled.
        chat.screen.view.messages.action_request("copy")
        chat.screen.view.messages.action_step_code(-1)
        await chat.until(lambda: copied == [("ls", "code block 2 of 2")])
        await chat.press("escape", until=lambda: marked(chat) == ("", 0))
        assert bars(chat) == 0


async def test_code_is_copied_while_tokens_replace_it(copied: list[tuple[str, str]]) -> None:
    async with open_chat() as chat:
        await chat.pilot.press("f3")
        await chat.exchange("code", TWO)
        await chat.press("alt+c", "f8", until=lambda: copied == [("ls", "code block 2 of 2")])


async def test_without_code_the_key_says_so() -> None:
    async with open_chat() as chat:
        await chat.press("alt+c", shows="There is no code block.")


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_a_search_opens_at_its_hit_and_highlights_it(file: Path, size: tuple[int, int]) -> None:
    before = "\n\n".join(f"paragraph {n}" for n in range(60))
    keep(file, "tests", f"{before}\n\nThen a UnitTest helps.\n\n{before}")
    async with open_chat(size=size, store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.press(*"unittest", shows="UnitTest")
        await chat.press("enter", shows="Then a UnitTest helps.")
        assert chat.styled("underline") == ["UnitTest"]
        await chat.press("enter", shows="There is no match above.")
        await chat.press(*" ok")
        assert (chat.prompt, chat.styled("underline")) == (" ok", [])


async def test_words_are_found_from_the_last_match_on() -> None:
    async with open_chat() as chat:
        await chat.exchange("An Owl or two owls?", "One **owl**.\n\n" + "line\n\n" * 40 + "An owl, at night.")
        await chat.exchange("And now?", "Nothing.")
        await chat.enter("/find owl", "enter: match above, down: match below; esc or typing returns here")
        lines = ["An owl, at night.", "One owl.", "An Owl or two owls?", "An Owl or two owls?"]
        for n, line in enumerate(lines):
            if n:
                await chat.press(("enter", "up", "ctrl+f")[n - 1], shows=line)
            else:
                await chat.shows(line)
            assert chat.styled("underline") == [("owl", "owl", "owl", "Owl")[n]]
        await chat.press("enter", shows="There is no match above.")
        await chat.press("down", "down", shows="One owl.")
        await chat.press("escape")
        assert (chat.styled("underline"), chat.screen.view.prompt.has_focus) == ([], True)
        await chat.enter("/find eagle", '"eagle" is not in this conversation.')
        assert chat.prompt == "/find eagle"


async def test_the_search_key_opens_a_prompt() -> None:
    async with open_chat() as chat:
        await chat.exchange("one", "An owl.")
        await chat.type("unsent")
        await chat.press("ctrl+f", shows="Find words in this conversation")
        await chat.enter("owl", "enter: match above")
        assert chat.styled("underline") == ["owl"]
        await chat.press("escape")
        assert chat.prompt == "unsent"


async def test_a_hit_in_the_reasoning_opens_it(file: Path) -> None:
    keep(file, "why", "Because.", reasoning="It is the Tagliamento.")
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.press(*"tagliamento", "enter", shows="It is the Tagliamento.")


async def test_a_link_shows_its_address_and_cannot_be_clicked(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    async with open_chat() as chat:
        monkeypatch.setattr(chat.app, "open_url", opened.append)
        await chat.send("link")
        chat.engine.says("[click me](https://example.org/x) [@click=app.quit]or me[/]")
        await chat.shows("click me (https://example.org/x) [@click=app.quit]or me[/]")
        y = next(y for y, row in enumerate(chat.rows) if "click me" in row)
        for x in (2, 12, 35, 50):
            await chat.pilot.click(offset=(x + 1, y))
        assert chat.app.is_running
    assert opened == []


async def test_code_is_copied_as_it_was_written() -> None:
    async with open_chat(size=(40, 24)) as chat:
        await chat.send("code")
        chat.engine.says("- one\n\n```py\nif x:\n\ty = " + "'long' " * 12 + "\n```\n")
        await chat.shows("\u21aa")
        copied = chat.screen.view.messages.get_selection(SELECT_ALL)
        assert copied is not None
        assert copied[0] == "You\ncode\nAnswer\n\u2022 one\n\nif x:\n\ty = " + "'long' " * 12


async def test_text_is_selected_with_the_mouse() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        chat.engine.says("First **bold** words.\n\n```\ncode here\n```\n")
        await chat.shows("code here")
        y = next(y for y, row in enumerate(chat.rows) if "First" in row)
        await chat.pilot.mouse_down(offset=(7, y))
        await chat.pilot.hover(offset=(6, y + 2))
        await chat.pilot.mouse_up(offset=(6, y + 2))
        selected = chat.screen.get_selected_text()
        assert selected is not None
        assert selected.startswith("bold words.\n\ncod")


async def test_keys_have_their_turn_while_a_long_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "AT_ONCE", 50)
    answer = "\n\n".join(f"Paragraph {n} with **bold** words." for n in range(60)) + "\n\nThe very end."
    store = Store()
    nodes = {1: Node(1, None, Role.USER, "go"), 2: Node(2, 1, Role.ASSISTANT, answer)}
    (number,) = store.insert([StoredConversation(Summary(0, "Long"), Tree(nodes, 2))])
    typed: list[str] = []
    async with open_chat(store=lambda: store) as chat:
        append = MarkdownDocument.append

        def noted(self: MarkdownDocument, piece: str) -> tuple[int, list[Row]]:
            if not typed:
                chat.app.post_message(events.Key("x", "x"))
            typed.append(chat.prompt)
            return append(self, piece)

        monkeypatch.setattr(MarkdownDocument, "append", noted)
        await chat.screen.controller.open_conversation(number)
        assert chat.answers[0].text == answer
        await chat.shows("The very end.")
        assert typed[0] == ""
        assert typed[len(typed) // 2] == "x"
        assert chat.screen.view.messages.shows_end


PAIR = PairInfo(ModelInfo("Big", "big.gguf", "Q4_K_M", 1000, 100, n_ctx_train=8192), None, 4096, "CPU")
NEW = "Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up, then enter)"


@pytest.mark.parametrize(
    ("whose", "n_tokens", "hint"),
    [
        ("system", 5000, "Shorten the system prompt (f4 or /system), or set a longer context (f4, ctx 7168)."),
        (
            "conversation",
            9000,
            f"{NEW}; even the longest context here, 8,192, is too short: Big was trained for 8,192 tokens.",
        ),
        ("pictures", 0, "Use smaller or fewer pictures, or set a longer context (f4, ctx)."),
        ("prompt", 0, "Shorten it, or include a part of its files (@file.pdf:3-7), or set a longer context (f4, ctx)."),
    ],
)
def test_an_overflow_names_what_to_shorten_and_a_context_that_would_do(whose: str, n_tokens: int, hint: str) -> None:
    assert in_keys(ContextOverflowError("Too long.", "--ctx", whose=whose, n_tokens=n_tokens), PAIR).hint == hint


def test_a_pair_without_room_names_the_list_of_pairs() -> None:
    hint = "Free some memory and send the prompt again; f6 chooses another pair."
    assert in_keys(DoesNotFitError("It does not fit."), PAIR).hint == hint


def test_any_other_failure_is_reported_as_it_is() -> None:
    error = AppError("No.", "Try again.")
    assert in_keys(error, PAIR) is error
