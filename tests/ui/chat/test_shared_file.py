"""Two Tandems in one conversation."""

from __future__ import annotations

from pathlib import Path

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node, State
from tests.ui.chat_driver import Chat
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import asked


def say_there(file: Path, *texts: str, parent: int) -> Node:
    """The other Tandem goes on from a message; prompts and answers take turns."""
    store = Store.open(file)
    node = store.load(1).tree.nodes[parent]
    for text in texts:
        role = Role.USER if node.role is Role.ASSISTANT else Role.ASSISTANT
        node = store.add(1, role, text, parent=node.id)
    store.close()
    return node


async def come_back(chat: Chat) -> None:
    """The user looks elsewhere, and at this terminal again."""
    await chat.look_away()
    await chat.come_back()


async def test_what_was_said_elsewhere_is_shown_before_a_prompt_is_put_below_it(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        there = say_there(file, "two", "second", parent=2)
        await chat.type("and then?")
        await chat.pilot.press("enter")
        await chat.shows("second")
        await chat.shows("enter sends the prompt below that")
        assert (chat.prompt, len(chat.engine.requests)) == ("and then?", 1)

        await chat.pilot.press("enter")
        await chat.until(lambda: len(chat.engine.requests) == 2)
        assert asked(chat) == ["one", "first", "two", "second", "and then?"]
        chat.engine.says("third")
        chat.engine.finishes()
        await chat.ready()
        store = Store.open(file)
        tree = store.load(1).tree
        store.close()
        assert [node.text for node in tree.path] == ["one", "first", "two", "second", "and then?", "third"]
        assert tree.path[-2].parent == there.id


async def test_what_was_said_elsewhere_is_seen_by_who_comes_back_to_this_terminal(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.type("half a thou")
        say_there(file, "two", "second", parent=2)
        await come_back(chat)
        await chat.shows("second")
        assert chat.prompt == "half a thou"


async def test_an_answer_that_goes_on_elsewhere_is_seen_when_it_is_whole(file: Path) -> None:
    store = Store.open(file)
    prompt = store.add(store.create(), Role.USER, "one", parent=None)
    journal = store.answer(1, prompt.id)
    journal.add("fir")
    journal.flush()
    async with kept_chat(file, again=True) as chat:
        await chat.shows("fir")
        await come_back(chat)
        journal.finish(State.COMPLETE, text="first and last")
        store.close()
        await come_back(chat)
        await chat.shows("first and last")


async def test_what_is_said_elsewhere_does_not_part_a_prompt_from_its_answer(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.send("mine")
        await chat.until(lambda: len(chat.engine.requests) == 2)
        say_there(file, "theirs", "second", parent=2)
        await come_back(chat)
        chat.engine.says("my answer")
        chat.engine.finishes()
        await chat.ready()
        assert "my answer" in chat.text
        assert "second" not in chat.text
