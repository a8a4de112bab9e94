"""Long conversations: only what is near is mounted, and what is seen stays where it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.selection import SELECT_ALL

from app.chat.attached import Attachment, compose
from app.chat.message import Role
from app.chat.store import Store
from app.chat.tree import Conversation, Node, State, Summary, Transcript, Tree
from app.ui.widgets import view
from app.ui.widgets.folded import FoldedText
from app.ui.widgets.message import AnswerMessage, UserMessage
from app.ui.widgets.reasoning import Reasoning
from app.ui.widgets.speech import Speech
from app.ui.widgets.window import Gap
from tests.ui.chat_driver import Chat, open_chat

MESSAGES = 300
MOST_MOUNTED = 150
"""While the user moves: what is near, and what was left behind since the last time that it was unmounted."""
MOST_AT_REST = 90
"""What is near: seven windowfuls on either side of 17 rows, or thirty messages, and the last exchange."""


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
    for _ in range(3):
        await chat.pilot.pause()


def mounted(chat: Chat) -> int:
    return len(chat.screen.query(Speech))


def blank(chat: Chat) -> bool:
    """Whether rows are seen in place of messages."""
    messages = chat.screen.messages
    return messages.said.lacks(messages.scroll_y, messages.scroll_y + messages.scrollable_content_region.height)


async def test_only_what_is_near_is_mounted_wherever_one_looks() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        for key in ["pageup"] * 40 + ["ctrl+home"] + ["pagedown"] * 40 + ["ctrl+end"]:
            await chat.pilot.press(key)
            await settled(chat)
            assert mounted(chat) < MOST_MOUNTED
            assert not blank(chat)
        assert f"message {MESSAGES}." in chat.text


async def test_what_was_left_behind_goes_when_the_user_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_REST", 0.01)
    monkeypatch.setattr(view, "_MOST_FAR", MESSAGES)
    async with long_chat(path()) as chat:
        for _ in range(40):
            await chat.pilot.press("pageup")
            await settled(chat)
        before = body(chat)
        await chat.until(lambda: mounted(chat) < MOST_AT_REST)
        await settled(chat)
        assert body(chat) == before


async def test_pages_that_were_just_read_are_still_there() -> None:
    async with long_chat(path()) as chat:
        for _ in range(8):
            await chat.pilot.press("pageup")
            await settled(chat)
        there = set(chat.screen.query(Speech))
        for key in ["pagedown"] * 7 + ["pageup"] * 7:
            await chat.pilot.press(key)
            assert not blank(chat)
            await settled(chat)
        assert there <= set(chat.screen.query(Speech))


async def test_paging_up_and_down_passes_every_message_in_order() -> None:
    async with long_chat(path(120)) as chat:
        await chat.shows("message 120.")
        seen: list[str] = []
        for _ in range(400):
            found = [row.split()[1] for row in body(chat) if row.strip().startswith("message ")]
            seen += [each for each in reversed(found) if each not in seen[-12:]]
            if "1." in found:
                break
            await chat.pilot.press("pageup")
            await settled(chat)
        assert seen == [f"{n}." for n in range(120, 0, -1)]
        while not chat.screen.messages.following:
            await chat.pilot.press("pagedown")
            await settled(chat)
        assert "message 120." in chat.text


async def test_a_page_down_and_up_leads_back_though_guesses_are_wrong() -> None:
    async with long_chat(path()) as chat:
        await chat.pilot.press("pageup", "pageup")
        for _ in range(30):
            await chat.pilot.press("pageup")
            await settled(chat)
            above = body(chat)
            await chat.pilot.press("pagedown")
            await settled(chat)
            assert body(chat) != above
            await chat.pilot.press("pageup")
            await settled(chat)
            assert body(chat) == above


async def test_the_first_and_the_last_message_are_one_key_away() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await chat.pilot.press("ctrl+home")
        await chat.shows("message 1.")
        assert chat.screen.messages.scroll_y == 0
        assert not chat.screen.messages.following
        assert mounted(chat) < MOST_MOUNTED
        await chat.pilot.press("ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        assert chat.screen.messages.following


async def test_what_is_seen_stays_while_an_answer_grows_and_is_never_unmounted() -> None:
    async with long_chat(path()) as chat:
        await chat.send("go on")
        answer = chat.screen.messages.answer
        await chat.pilot.press("ctrl+home")
        await chat.shows("message 1.")
        await chat.pilot.press("pagedown", "pagedown")
        await settled(chat)
        before = body(chat)
        for n in range(5):
            chat.engine.says(f"line {n}\n\n" * 30)
            await settled(chat)
        await chat.shows("↓ new text below")
        assert body(chat) == before
        assert chat.screen.messages.answer is answer
        assert answer is not None
        assert answer.is_attached
        await chat.pilot.press("ctrl+end")
        await chat.shows("line 4")
        await chat.until(lambda: "new text below" not in chat.text)
        chat.engine.says("the end")
        chat.engine.finishes()
        await chat.ready()
        await chat.shows("the end")


async def test_a_resize_keeps_the_first_message_in_sight() -> None:
    async with long_chat(path(), size=(120, 40)) as chat:
        await chat.pilot.press("ctrl+home", *["pagedown"] * 4)
        await settled(chat)
        held = chat.screen.messages._held
        assert held is not None
        await chat.pilot.resize_terminal(60, 30)
        await settled(chat)
        after = chat.screen.messages._held
        assert after is not None
        assert after[0] is held[0]
        place = chat.screen.messages.said.place_of(held[0].widget)
        assert place is not None
        assert place[0] <= chat.screen.messages.scroll_y <= place[1]
        assert not blank(chat)


async def test_a_chosen_message_stays_and_its_neighbour_is_mounted_for_the_keys() -> None:
    async with long_chat(path()) as chat:
        await chat.pilot.press("ctrl+home")
        await chat.shows("message 1.")
        first = chat.screen.messages.speeches[0]
        chat.screen.messages.choose(first)
        await chat.pilot.press("ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        await settled(chat)
        assert chat.screen.messages.chosen is first
        assert mounted(chat) < MOST_MOUNTED
        await chat.pilot.press("down")
        await chat.until(lambda: (s := chat.screen.messages.chosen) is not None and s.text.startswith("message 2."))
        await chat.shows("message 2.")


async def test_marked_text_is_still_copied_when_it_is_far_away() -> None:
    async with long_chat(path()) as chat:
        await chat.pilot.press("ctrl+home")
        await chat.shows("message 1.")
        text = chat.screen.messages.speeches[0].query_one(".said")
        chat.screen.selections = {text: SELECT_ALL}
        await chat.pilot.press("ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        await settled(chat)
        assert (chat.screen.get_selected_text() or "").startswith("message 1.")


async def test_what_was_unfolded_is_so_when_it_comes_back() -> None:
    first = compose("look at this @notes", (Attachment("notes", "the contents"),))
    async with long_chat(path(first=first, reasoning="deep thought")) as chat:
        await chat.pilot.press("ctrl+home")
        await chat.shows("look at this")
        chat.screen.query(FoldedText).first().open = True
        chat.screen.query(Reasoning).first().open = True
        await chat.shows("deep thought")
        gone = chat.screen.messages.speeches[0]
        await chat.pilot.press("ctrl+end")
        await chat.until(lambda: not gone.is_attached)
        await chat.pilot.press("ctrl+home")
        await chat.shows("the contents")
        await chat.shows("deep thought")


async def test_one_key_unfolds_the_thinking_of_all() -> None:
    async with long_chat(path(reasoning="deep thought")) as chat:
        await chat.pilot.press("ctrl+t")
        await settled(chat)
        await chat.pilot.press("ctrl+home")
        await chat.shows("message 1.")
        await chat.shows("deep thought")


async def test_an_answer_comes_back_as_it_was() -> None:
    async with open_chat() as chat:
        await chat.send("first prompt")
        chat.engine.says("**bold** words", thinking=False)
        chat.engine.finishes()
        await chat.ready()
        first = chat.answers[0]
        first.note("a remark")
        for n in range(14):
            await chat.send(f"prompt {n}")
            chat.engine.says("long\n\n" * 20)
            chat.engine.finishes()
            await chat.ready()
        await chat.until(lambda: not first.is_attached)
        assert mounted(chat) < 28
        await chat.pilot.press("ctrl+home")
        await chat.shows("bold words")
        await chat.shows("a remark")
        again = chat.answers[0]
        assert again is not first
        assert again.text == "**bold** words"
        await chat.pilot.press("f3")
        await chat.until(lambda: again.shows_tokens)
        await chat.shows("**bold** words")


async def test_a_branch_is_gone_to_from_a_message_far_up() -> None:
    nodes = path()
    nodes.insert(2, Node(1000, 1, Role.ASSISTANT, "the other answer", "", State.COMPLETE, 2.5))
    async with long_chat(nodes) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await chat.pilot.press("ctrl+home")
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        chat.screen.messages.choose(chat.screen.messages.speeches[1])
        await chat.pilot.press("right")
        await chat.shows("the other answer")
        await chat.until(lambda: len(chat.screen.messages.said.entries) == 2)
        await chat.pilot.press("left")
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        await chat.until(lambda: len(chat.screen.messages.said.entries) == MESSAGES)
        await chat.shows("message 2.")
        await settled(chat)
        assert mounted(chat) < MOST_MOUNTED


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


async def test_blank_rows_take_no_clicks_and_no_keys() -> None:
    async with long_chat(path()) as chat:
        assert all(not gap.can_focus for gap in chat.screen.query(Gap))
        assert sum(gap.rows for gap in chat.screen.query(Gap)) > 10 * len(body(chat))
