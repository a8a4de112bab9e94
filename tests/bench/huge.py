"""What a key costs beside 10,000 messages, or beside one message that is huge: python -m tests.bench.huge [--only PART]

Processor milliseconds of the thread that draws, over a fake engine in a window of 120 x 40: from a key until what it
asks for is drawn, and in brackets until the screen rests. The messages are those of `tests.bench.scrolling`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from textual import events

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, State, Summary, Transcript, Tree
from app.session.snapshot import Phase
from app.ui.garbage_collection import exclude_existing_objects
from tests.bench.reading import KINDS
from tests.bench.scrolling import long_store
from tests.ui.chat_driver import Chat, n_said, open_chat

_MESSAGES = 10_000
_WORDS = 200


class Watch:
    """Stops the clock when something is drawn.

    Args:
        chat: What is drawn.
    """

    def __init__(self, chat: Chat) -> None:
        self._chat, self._app = chat, chat.pilot.app
        self._began = self._aside = 0.0
        self._until: Callable[[], bool] | None = None
        self.drawn = 0.0
        self._display = self._app._display
        self._app._display = self._shown  # type: ignore[method-assign]

    def _shown(self, screen: Any, renderable: Any) -> None:
        self._display(screen, renderable)
        if renderable is None or self._app._batch_count or self._until is None:
            return
        if hasattr(renderable, "render_segments"):
            renderable.render_segments(self._app.console)
        now = time.thread_time()
        if self._until():
            self._until, self.drawn = None, (now - self._began - self._aside) * 1e3
        self._aside += time.thread_time() - now

    async def time(self, act: Callable[[], object], until: Callable[[], bool]) -> tuple[float, float]:
        """Milliseconds until something is so on the screen, and until the screen rests."""
        self._until, self._aside, self._began = until, 0.0, time.thread_time()
        act()
        await rest(self._chat)
        waited = 0
        while self._until is not None:
            await rest(self._chat)
            waited += 1
            if waited > 500:
                raise AssertionError(f"never drawn:\n{self._chat.text}")
        return self.drawn, (time.thread_time() - self._began - self._aside) * 1e3

    async def key(self, what: str, key: str, until: Callable[[], bool]) -> None:
        """Measure a key and print it."""
        tell(what, *await self.time(partial(press, self._chat, key), until))


def press(chat: Chat, key: str) -> None:
    """As the terminal does it."""
    name = "space" if key == " " else key
    chat.pilot.app.post_message(events.Key(name, key if len(key) == 1 else None))


async def rest(chat: Chat) -> None:
    """Wait until nothing is drawn and nothing is about to be."""
    for _ in range(4):
        drawn = asyncio.Event()
        chat.pilot.app.screen.call_after_refresh(drawn.set)
        await drawn.wait()


def tell(what: str, drawn: float, rested: float) -> None:
    print(f"  {what:44}{drawn:8.0f} ms  ({rested:.0f})", flush=True)


def _tell_many(what: str, times: Sequence[float]) -> None:
    print(f"  {what:44}{statistics.median(times):8.1f} ms, worst {max(times):.1f}", flush=True)


def insert(store: Store, title: str, *texts: str) -> int:
    """Put a conversation in; prompts and answers take turns."""
    nodes = {
        n: Node(n, n - 1 or None, Role.USER if n % 2 else Role.ASSISTANT, text, "", State.COMPLETE, float(n))
        for n, text in enumerate(texts, 1)
    }
    (number,) = store.insert([Transcript(Conversation(Summary(0, title), Tree(nodes, len(texts) or None)))])
    return number


@asynccontextmanager
async def watched(store: Store) -> AsyncIterator[tuple[Chat, Watch]]:
    async with open_chat(size=(120, 40), store=lambda: store) as chat:
        # As the program does it after its first frame.
        exclude_existing_objects()
        await rest(chat)
        yield chat, Watch(chat)


async def opening(chat: Chat, watch: Watch, what: str, number: int, until: Callable[[], bool]) -> None:
    """Choose a conversation in the list, and press enter."""
    press(chat, "ctrl+o")
    await rest(chat)
    picker = chat.screen.sidebar._picker
    picker.show(number)
    await rest(chat)
    await watch.key(what, "enter", until)


async def messages(count: int) -> None:
    print(f"{count:,} messages in one conversation")
    store, number = long_store(count)
    other = insert(store, "Another", "a question", "The other answer.")
    async with watched(store) as (chat, watch):

        def shows(words: str) -> Callable[[], bool]:
            return partial(_in, chat, words)

        ends = shows("The last message.")
        await opening(chat, watch, "open", number, ends)
        await opening(chat, watch, "to another one", other, shows("The other answer."))
        await opening(chat, watch, "and back", number, ends)
        press(chat, "escape")
        await rest(chat)
        chat.screen.prompt.focus()
        await rest(chat)
        await watch.key("a letter typed", "x", lambda: chat.prompt == "x")
        press(chat, "backspace")
        await rest(chat)
        await watch.key("page up", "pageup", lambda: True)
        await watch.key("page up", "pageup", lambda: True)
        await watch.key("to the beginning", "ctrl+home", shows("The first message."))
        await watch.key("page down", "pagedown", lambda: True)
        await watch.key("to the end", "ctrl+end", ends)
        await asking(chat, watch)
        await steering(chat, watch, shows)
        await commands(chat, watch)


async def asking(chat: Chat, watch: Watch) -> None:
    for letter in "more":
        press(chat, letter)
    await rest(chat)
    await watch.key("send a prompt", "enter", lambda: "more" in "\n".join(chat.rows[:34]) and not chat.prompt)
    await streaming(chat, watch)

    def ends() -> None:
        chat.engine.finishes()
        chat.screen.post_message(chat.screen.EventsArrived())

    tell("the answer ends", *await watch.time(ends, lambda: chat.screen.session.phase is Phase.READY))
    await watch.key("answer again", "ctrl+r", lambda: chat.screen.session.phase is Phase.ANSWERING)
    chat.engine.says("another one")
    await rest(chat)
    tell("the answer ends", *await watch.time(ends, lambda: chat.screen.session.phase is Phase.READY))


def _in(chat: Chat, words: str) -> bool:
    return words in chat.text


async def streaming(chat: Chat, watch: Watch) -> None:
    """Updates of the screen while an answer comes."""
    times = []
    for n in range(40):

        def says(n: int = n) -> None:
            chat.engine.says(f"word{n} of it, ")
            chat.screen.post_message(chat.screen.EventsArrived())

        times.append((await watch.time(says, partial(_in, chat, f"word{n}")))[0])
    _tell_many("an update while an answer comes", times)


async def steering(chat: Chat, watch: Watch, shows: Callable[[str], Callable[[], bool]]) -> None:
    await watch.key("choose the message above", "ctrl+up", lambda: chat.screen.messages.chosen is not None)
    await watch.key("and the one above that", "up", lambda: True)
    press(chat, "escape")
    await watch.key("to the beginning", "ctrl+home", shows("The first message."))
    first = chat.screen.messages.message_views[0]
    tell("choose the first", *await watch.time(partial(chat.screen.messages.choose, first), lambda: first.has_focus))
    await watch.key("edit it", "e", lambda: "Write a quicksort" in chat.prompt)
    press(chat, "Z")
    await rest(chat)
    await watch.key("ask it as a branch", "enter", lambda: n_said(chat) == 2)
    chat.engine.says("short")
    chat.engine.finishes()
    await chat.ready()
    await rest(chat)
    press(chat, "ctrl+up")
    await rest(chat)
    press(chat, "up")
    await rest(chat)
    await watch.key("back to the old branch", "left", lambda: n_said(chat) > 100)
    await rest(chat)
    press(chat, "ctrl+home")
    await rest(chat)
    chat.screen.messages.choose(chat.screen.messages.message_views[0])
    await rest(chat)
    await watch.key("answer the first again", "r", lambda: len(chat.screen.messages.message_views) == 2)
    chat.engine.says("once more")
    chat.engine.finishes()
    await chat.ready()
    await rest(chat)


async def commands(chat: Chat, watch: Watch) -> None:
    chat.screen.prompt.focus()
    await rest(chat)
    number = chat.screen.library.conversation
    assert number is not None
    screen = chat.screen
    hint = lambda: bool(str(screen.hint.render()).strip())  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        for line in ("/copy", "/copy all", f"/save {folder}/it.md", f"/save {folder}/it.json"):
            screen.hint.say("")
            await rest(chat)

            def do(line: str = line) -> None:
                chat.pilot.app.call_later(screen.sender.run_line, line)

            tell(line.replace(folder, "."), *await watch.time(do, hint))
    press(chat, "ctrl+o")
    await rest(chat)
    screen.sidebar._picker.show(number)
    await rest(chat)
    await watch.key("delete it", "ctrl+x", lambda: screen.library.conversation is None)
    press(chat, "ctrl+o")
    await rest(chat)
    await watch.key("bring it back", "ctrl+underscore", lambda: "Long" in chat.text)


_QUERIES = "a", "qu", "the", "quicksort", "the quick sort", "no such thing", "東京", "東", '"', "*", "AND", "NEAR(a b)"


def vocabulary_store(count: int, conversations: int) -> Store:
    """Messages of random words, spread over some conversations."""
    chance = random.Random(1)
    words = ["the", "quick", "sort", "quicksort", "list", "of", "a", "東京"]
    words += ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    store = Store.in_memory()
    for n in range(conversations):
        texts = (" ".join(chance.choices(words, weights, k=_WORDS)) for _ in range(count // conversations))
        insert(store, f"Number {n}", *texts)
    return store


async def searching(count: int) -> None:
    for conversations in (1, count // 10):
        print(f"search {count:,} messages of {_WORDS} words in {conversations:,} conversations; a key")
        store = vocabulary_store(count, conversations)
        async with watched(store) as (chat, watch):
            press(chat, "ctrl+o")
            await rest(chat)
            for query in _QUERIES:
                _tell_many(query, await _typed(chat, watch, query))


async def _typed(chat: Chat, watch: Watch, query: str) -> Sequence[float]:
    """Type a query into the sidebar and take it away again; milliseconds of each key."""
    field, times = chat.screen.sidebar._picker.search_input, []
    for n, letter in enumerate(query, 1):
        _, rested = await watch.time(partial(press, chat, letter), lambda n=n: len(field.value) == n)  # type: ignore[misc]
        times.append(rested)
    field.value = ""
    await rest(chat)
    return times


async def long_ones() -> None:
    for kind in ("mixed", "one paragraph", "code", "table"):
        text = KINDS[kind]
        whole = (text * (800_000 // len(text) + 1))[:800_000]
        print(f"one answer of 200,000 tokens: {kind}")
        await _one(["go", whole + "\n```\n\nThe very end."])
    print("a prompt of one line of 2 MB")
    await _one(["word " * 400_000 + "The very end."])
    print("a prompt of one word of 2 MB")
    await _one(["w" * 2_000_000 + " The very end."])
    print("an answer of one word of 2 MB")
    await _one(["go", "w" * 2_000_000 + " The very end."])


async def _one(texts: list[str]) -> None:
    store = Store.in_memory()
    number = insert(store, "Long", *texts)
    async with watched(store) as (chat, watch):
        ends = lambda: "The very end." in chat.text  # noqa: E731
        await opening(chat, watch, "open", number, ends)
        chat.screen.prompt.focus()
        await rest(chat)
        await watch.key("page up", "pageup", lambda: True)
        await watch.key("page up", "pageup", lambda: True)
        await watch.key("to the beginning", "ctrl+home", lambda: True)
        await watch.key("to the end", "ctrl+end", ends)
        await asking(chat, watch)


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["messages", "search", "long"])
    parser.add_argument("--messages", type=int, default=_MESSAGES)
    args = parser.parse_args()
    if args.only in (None, "messages"):
        await messages(args.messages)
    if args.only in (None, "search"):
        await searching(args.messages)
    if args.only in (None, "long"):
        await long_ones()


if __name__ == "__main__":
    asyncio.run(_main())
