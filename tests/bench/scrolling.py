"""How a long conversation opens and scrolls: python -m tests.bench.scrolling [MESSAGES ...]

Processor milliseconds of the thread that draws, from a key until the screen rests again, over a fake engine in a window
of 120 x 40; medians and the worst. What is mounted ahead counts too, so text is seen sooner than these figures say.
The messages are prompts and answers of mixed Markdown. The widgets are those of the whole screen, the memory is what
the process has taken since it had an empty chat.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from itertools import cycle
from pathlib import Path

from textual import events

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, State, Summary, Transcript, Tree
from tests.bench.reading import KINDS
from tests.ui.chat_driver import Chat, open_chat

_PAGES = 30
_ANSWERS = (
    KINDS["mixed"],
    KINDS["prose"],
    "Yes.",
    KINDS["list"] * 12,
    KINDS["code"][:900] + "```\n",
    KINDS["prose"] * 3,
)
_PROMPTS = ("Write a quicksort.", "And how fast is it?", "A longer prompt of some lines.\n\n" + "with words " * 40)


def long_store(messages: int) -> tuple[Store, int]:
    """A store in memory with one conversation; its first and its last message say so."""
    texts = {Role.USER: cycle(_PROMPTS), Role.ASSISTANT: cycle(_ANSWERS)}
    nodes = {}
    for n in range(1, messages + 1):
        role = Role.USER if n % 2 else Role.ASSISTANT
        mark = {1: "The first message.\n\n", messages: "The last message.\n\n"}.get(n, f"Number {n}.\n\n")
        nodes[n] = Node(n, n - 1 or None, role, mark + next(texts[role]), "", State.COMPLETE, float(n))
    store = Store.in_memory()
    (number,) = store.insert([Transcript(Conversation(Summary(0, "Long"), Tree(nodes, messages)))])
    return store, number


async def _rest(chat: Chat) -> None:
    """Wait until nothing is drawn and nothing is about to be."""
    for _ in range(4):
        drawn = asyncio.Event()
        chat.screen.messages.call_after_refresh(drawn.set)
        await drawn.wait()


async def _until(chat: Chat, text: str) -> None:
    while text not in chat.text:
        await _rest(chat)


def _press(chat: Chat, key: str) -> None:
    """As the terminal does it."""
    chat.pilot.app.post_message(events.Key(key, None))


async def _timed(chat: Chat, key: str, until: str = "") -> float:
    began = time.thread_time()
    _press(chat, key)
    await _rest(chat)
    await _until(chat, until)
    return (time.thread_time() - began) * 1e3


async def _pages(chat: Chat, what: str, key: str) -> None:
    times = [await _timed(chat, key) for _ in range(_PAGES)]
    _tell(what, statistics.median(times), f", worst {max(times):.0f} ms")


def _tell(what: str, ms: float, more: str = "") -> None:
    print(f"  {what:32}{ms:8.0f} ms{more}", flush=True)


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


async def _measure(messages: int) -> None:
    store, number = long_store(messages)
    async with open_chat(size=(120, 40), store=lambda: store) as chat:
        await _rest(chat)
        before = _resident()

        def count(when: str) -> None:
            print(
                f"  {when:32}{len(chat.screen.query('*')):8,} widgets, {_resident() - before:.0f} MB more than empty",
                flush=True,
            )

        print(f"{messages:,} messages")
        began = time.thread_time()
        await chat.screen.open_conversation(number)
        await _until(chat, "The last message.")
        _tell("open", (time.thread_time() - began) * 1e3)
        count("opened")
        await _pages(chat, "page up near the end", "pageup")
        await _pages(chat, "page down again", "pagedown")
        _tell("to the beginning", await _timed(chat, "ctrl+home", "The first message."))
        await _pages(chat, "page down near the beginning", "pagedown")
        await _pages(chat, "page up again", "pageup")
        _tell("to the end", await _timed(chat, "ctrl+end", "The last message."))
        count("seen both ends")
        if messages <= 2_000:
            await _read_all(chat)
            count("seen it all")


async def _read_all(chat: Chat) -> None:
    began, pages = time.thread_time(), 0
    while "The first message." not in chat.text:
        _press(chat, "pageup")
        await _rest(chat)
        pages += 1
    took = (time.thread_time() - began) * 1e3
    _tell(f"{pages:,} pages up to the first", took, f", {took / pages:.1f} ms each")


async def _main() -> None:
    for messages in [int(argument) for argument in sys.argv[1:]] or [2_000, 10_000]:
        await _measure(messages)


if __name__ == "__main__":
    asyncio.run(_main())
