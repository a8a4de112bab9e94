"""Long conversations: only what is near is mounted, and what is seen stays where it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual import events
from textual.selection import SELECT_ALL

from app.chat.attached import Attachment, compose
from app.chat.message import Role
from app.chat.store import Store
from app.chat.tree import Conversation, Node, State, Summary, Transcript, Tree
from app.errors import AppError
from app.ui.messages import message, view
from app.ui.messages.absent import AbsentAnswer, AbsentPrompt
from app.ui.messages.folded import FoldedText
from app.ui.messages.message import AnswerMessage, UserMessage
from app.ui.messages.reasoning import Reasoning
from app.ui.messages.speech import Speech
from app.ui.reading.origins import Writers
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.conversations_driver import back, look

MESSAGES = 60
MOST_MOUNTED = 30
"""What is near, three windowfuls of 17 rows on either side, what was left behind, and the last exchange."""


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages are a long conversation where less of it is near."""
    monkeypatch.setattr(view, "_STEPS", (2, 3))
    monkeypatch.setattr(view, "_MOST_FAR", 2)


def said(n: int) -> str:
    """Texts of many heights, one of each the same at every width and one not."""
    return f"message {n}.\n\n" + ("word " * 40 * (n % 4) if n % 2 else "- item\n" * (n % 7))


@asynccontextmanager
async def long_chat(nodes: list[Node], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Chat]:
    """A chat that has opened a conversation."""
    store = Store.in_memory()
    (number,) = store.insert(
        [Transcript(Conversation(Summary(0, "Long"), Tree({n.id: n for n in nodes}, nodes[-1].id)))]
    )
    async with open_chat(store=lambda: store, size=size) as chat:
        await chat.screen.open_conversation(number)
        await chat.until(lambda: chat.screen.messages.max_scroll_y > 0)
        yield chat


def path(count: int = MESSAGES, first: str = "", reasoning: str = "") -> list[Node]:
    return [
        Node(
            n,
            n - 1 or None,
            Role.USER if n % 2 else Role.ASSISTANT,
            first if first and n == 1 else said(n),
            "" if n % 2 else reasoning,
            State.COMPLETE,
            float(n),
        )
        for n in range(1, count + 1)
    ]


def body(chat: Chat) -> list[str]:
    """The rows of the conversation that are seen, without the scroll bar."""
    region = chat.screen.messages.scrollable_content_region
    return [row[: region.width].rstrip() for row in chat.rows[region.y : region.bottom]]


async def settled(chat: Chat) -> None:
    """Wait until what is near is mounted and laid out."""
    for _ in range(5):
        drawn = asyncio.Event()
        chat.screen.messages.call_after_refresh(drawn.set)
        await drawn.wait()


async def press(chat: Chat, *keys: str) -> None:
    """Press keys, one when all is drawn that came of the last; the pilot would wait for the processor to rest."""
    for key in keys:
        chat.pilot.app.post_message(events.Key(key, None))
        await chat.had_turn()
        await settled(chat)


def mounted(chat: Chat) -> int:
    return len(chat.screen.query(Speech))


def blank(chat: Chat) -> bool:
    """Whether rows are seen in place of messages."""
    messages = chat.screen.messages
    top, height = round(messages.scroll_y), messages.scrollable_content_region.height
    return messages.column.lacks(messages.column.between(top, top + height))


async def test_only_what_is_near_is_mounted_wherever_one_looks() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        for key in ["pageup"] * 12 + ["ctrl+home"] + ["pagedown"] * 12 + ["ctrl+end"]:
            await press(chat, key)
            assert mounted(chat) < MOST_MOUNTED
            assert not blank(chat)
        assert f"message {MESSAGES}." in chat.text


async def test_pages_that_were_just_read_are_still_there() -> None:
    async with long_chat(path()) as chat:
        for _ in range(3):
            await press(chat, "pageup")
        there = set(chat.screen.query(Speech))
        for key in ["pagedown"] * 2 + ["pageup"] * 2:
            await press(chat, key)
            assert not blank(chat)
            await settled(chat)
        assert there <= set(chat.screen.query(Speech))


async def test_paging_up_and_down_passes_every_message_in_order() -> None:
    async with long_chat(path(30)) as chat:
        await chat.shows("message 30.")
        seen: list[str] = []
        for _ in range(100):
            found = [row.split()[1] for row in body(chat) if row.strip().startswith("message ")]
            seen += [each for each in reversed(found) if each not in seen[-12:]]
            if "1." in found:
                break
            await press(chat, "pageup")
        assert seen == [f"{n}." for n in range(30, 0, -1)]
        while not chat.screen.messages.following:
            await press(chat, "pagedown")
        assert "message 30." in chat.text


async def test_a_page_down_and_up_leads_back_though_guesses_are_wrong() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "pageup", "pageup")
        for _ in range(8):
            await press(chat, "pageup")
            above = body(chat)
            await press(chat, "pagedown")
            assert body(chat) != above
            await press(chat, "pageup")
            assert body(chat) == above


async def test_the_first_and_the_last_message_are_one_key_away() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        assert chat.screen.messages.scroll_y == 0
        assert not chat.screen.messages.following
        assert mounted(chat) < MOST_MOUNTED
        await press(chat, "ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        assert chat.screen.messages.following


async def test_what_is_seen_stays_while_an_answer_grows_and_is_never_unmounted() -> None:
    async with long_chat(path()) as chat:
        await chat.send("go on")
        answer = chat.screen.messages.answer
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        await press(chat, "pagedown", "pagedown")
        before = body(chat)
        for n in range(5):
            chat.engine.says(f"line {n}\n\n" * 30)
            await settled(chat)
        await chat.shows("↓ new text below")
        assert body(chat) == before
        assert chat.screen.messages.answer is answer
        assert answer is not None
        assert answer.is_attached
        await press(chat, "ctrl+end")
        await chat.shows("line 4")
        await chat.until(lambda: "new text below" not in chat.text)
        chat.engine.says("the end")
        chat.engine.finishes()
        await chat.ready()
        await chat.shows("the end")


async def test_a_resize_keeps_the_first_message_in_sight() -> None:
    async with long_chat(path(), size=(120, 40)) as chat:
        await press(chat, "ctrl+home", *["pagedown"] * 4)
        messages = chat.screen.messages
        first = messages.column.at(messages.scroll_y)
        assert first is not None
        await chat.pilot.resize_terminal(60, 30)
        await settled(chat)
        assert messages.column.at(messages.scroll_y) is first
        assert not blank(chat)


async def test_a_chosen_message_stays_and_its_neighbour_is_mounted_for_the_keys() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        first = chat.screen.messages.speeches[0]
        chat.screen.messages.choose(first)
        await press(chat, "ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        await settled(chat)
        assert chat.screen.messages.chosen is first
        assert mounted(chat) < MOST_MOUNTED
        await press(chat, "down")
        await chat.until(lambda: (s := chat.screen.messages.chosen) is not None and s.text.startswith("message 2."))
        await chat.shows("message 2.")


async def test_a_message_that_is_being_changed_stays_mounted() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+up", "up", "up", "up")
        changed = chat.screen.messages.chosen
        assert changed is not None
        await press(chat, "e")
        await chat.until(lambda: changed.has_class("-changed"))
        await press(chat, "ctrl+home", "pagedown")
        assert changed.is_attached
        assert mounted(chat) < MOST_MOUNTED
        await press(chat, "escape")
        assert not changed.has_class("-changed")


async def test_every_key_counts_where_messages_are_not_mounted() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+up")
        for _ in range(25):
            chat.pilot.app.post_message(events.Key("up", None))
        await chat.until(lambda: (s := chat.screen.messages.chosen) is not None and s.node == MESSAGES - 25)
        await chat.shows(f"message {MESSAGES - 25}.")


async def test_marked_text_is_still_copied_when_it_is_far_away() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        text = chat.screen.messages.speeches[0].query_one(".said")
        chat.screen.selections = {text: SELECT_ALL}
        await press(chat, "ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        await settled(chat)
        assert (chat.screen.get_selected_text() or "").startswith("message 1.")


async def test_what_was_unfolded_is_so_when_it_comes_back() -> None:
    first = compose("look at this @notes", (Attachment("notes", "the contents"),))
    async with long_chat(path(first=first, reasoning="deep thought")) as chat:
        await press(chat, "ctrl+home")
        await chat.shows("look at this")
        chat.screen.query(FoldedText).first().open = True
        chat.screen.query(Reasoning).first().open = True
        await chat.shows("deep thought")
        gone = chat.screen.messages.speeches[0]
        await press(chat, "ctrl+end")
        await chat.until(lambda: not gone.is_attached)
        await press(chat, "ctrl+home")
        await chat.shows("the contents")
        await chat.shows("deep thought")


async def test_one_key_unfolds_the_thinking_of_all() -> None:
    async with long_chat(path(reasoning="deep thought")) as chat:
        await press(chat, "ctrl+t")
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        await chat.shows("deep thought")


async def test_what_stands_for_a_message_makes_the_same_one_again() -> None:
    included = compose("look at @notes and @more", (Attachment("notes", "the contents"), Attachment("more", "others")))
    prompts = AbsentPrompt("hello", "System", 3, []), AbsentPrompt(included, "You", None, [False, True])
    answers = (
        AbsentAnswer("*text*", "a thought", 5.0, opened=True, remark="stopped", is_final=True, node=7),
        AbsentAnswer("text", error=AppError("It broke.", "Mend it.")),
        AbsentAnswer("text", writers=Writers()),
    )
    async with open_chat():
        assert [UserMessage(was).absent() for was in prompts] == [*prompts]
        assert [AnswerMessage(was).absent() for was in answers] == [*answers]


async def bury(chat: Chat, answer: AnswerMessage) -> None:
    """Let so much be said below an answer that it is unmounted."""
    await chat.exchange("another prompt", "long\n\n" * 60)
    await chat.send("and another")
    await chat.until(lambda: not answer.is_attached)


@pytest.mark.parametrize("dear", [0, 1_000])
async def test_an_answer_comes_back_as_it_was(dear: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_MOST_FAR", 0)
    monkeypatch.setattr(message, "_DEAR", dear)
    async with open_chat() as chat:
        await chat.send("first prompt")
        chat.engine.says("**bold** words", thinking=False)
        chat.engine.finishes()
        await chat.ready()
        first = chat.answers[0]
        first.note("a remark")
        await bury(chat, first)
        await press(chat, "ctrl+home")
        await chat.shows("bold words")
        await chat.shows("a remark")
        again = chat.answers[0]
        assert again is not first
        assert again.text == "**bold** words"
        await press(chat, "f3")
        await chat.shows("**bold** words")


async def test_the_writers_of_an_answer_that_comes_back_are_shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_MOST_FAR", 0)
    async with open_chat() as chat:
        await chat.exchange("first prompt", "**bold** words")
        first = chat.answers[0]
        await bury(chat, first)
        await press(chat, "f3")
        await press(chat, "ctrl+home")
        await chat.shows("**bold** words")


async def test_a_branch_is_gone_to_from_a_message_far_up() -> None:
    nodes = path()
    nodes.insert(2, Node(1000, 1, Role.ASSISTANT, "the other answer", "", State.COMPLETE, 2.5))
    async with long_chat(nodes) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await press(chat, "ctrl+home")
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        chat.screen.messages.choose(chat.screen.messages.speeches[1])
        await press(chat, "right")
        await chat.shows("the other answer")
        await chat.until(lambda: len(chat.screen.messages.column.entries) == 2)
        await press(chat, "left")
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        await chat.until(lambda: len(chat.screen.messages.column.entries) == MESSAGES)
        await chat.shows("message 2.")
        await settled(chat)
        assert mounted(chat) < MOST_MOUNTED


async def test_what_takes_the_place_of_what_is_seen_is_seen_there() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+home", "pagedown", "pagedown")
        messages, before = chat.screen.messages, body(chat)
        first = messages.column.at(messages.scroll_y)
        assert first is not None
        assert first.speech is not None
        number = first.node or 0
        await messages.cut(first.speech, [replace(node, id=1000 + node.id) for node in path()[number - 1 :]])
        await settled(chat)
        again = messages.column.at(messages.scroll_y)
        assert again is not None
        assert again.node == 1000 + number
        assert body(chat) == before


@pytest.mark.parametrize("kind", [UserMessage, AnswerMessage])
async def test_a_message_that_is_not_mounted_is_reached(kind: type[Speech]) -> None:
    async with long_chat(path()) as chat:
        await settled(chat)
        wanted = 3 if kind is UserMessage else 4
        assert all(speech.node != wanted for speech in chat.screen.messages.speeches)
        speech = await chat.screen.messages.reach(wanted)
        assert isinstance(speech, kind)
        assert speech.text.startswith(f"message {wanted}.")
        assert await chat.screen.messages.reach(10_000) is None


async def test_what_a_search_finds_is_brought_in_sight() -> None:
    nodes = path()
    nodes[20] = replace(nodes[20], text="a needle" + nodes[20].text)
    async with long_chat(nodes) as chat:
        await look(chat)
        for character in "needle":
            chat.pilot.app.post_message(events.Key(character, character))
        await chat.shows("a needle")
        await chat.pilot.press("enter")
        await back(chat)
        await chat.until(lambda: "a needle" in "".join(body(chat)[:4]))
        assert not chat.screen.messages.following
        assert chat.screen.prompt.has_focus


async def test_blank_rows_stand_for_what_is_not_mounted() -> None:
    async with long_chat(path()) as chat:
        await settled(chat)
        messages = chat.screen.messages
        first = next(entry for entry in messages.column.entries if entry.widget is not None)
        assert messages.column.top_of(first) > 10 * len(body(chat))
        assert messages.max_scroll_y == messages.said.rows - messages.scrollable_content_region.height


@pytest.mark.parametrize("moment", [0, 1, 3, 10])
async def test_the_application_may_end_while_messages_are_being_mounted(moment: int) -> None:
    async with long_chat(path()) as chat:
        mounting = asyncio.create_task(chat.screen.messages.reach(3))
        for _ in range(moment):
            await asyncio.sleep(0)
        chat.pilot.app.exit()
        await mounting
