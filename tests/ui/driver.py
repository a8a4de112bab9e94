"""Drive a running program as its user does: keys in, screen text out."""

import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from itertools import cycle
from pathlib import Path

from textual import events
from textual.app import App
from textual.pilot import Pilot

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import AppError, ContextOverflowError
from app.engine.types import FinishReason
from app.session.library import StoreOpener
from app.session.state import Phase
from app.session.tool_use import ToolUse
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.chat.screen import ChatScreen
from app.ui.conversations.picker import ConversationPicker, ConversationsScreen
from app.ui.sidebar.panel import StatusLine
from app.ui.transcript.answer import AnswerMessage
from tests.fake_engine import FIXED, FakeEngine
from tests.hanging import HANGS_S
from tests.ui.fakes import fake_app

Condition = Callable[[], object]
WIDE = (150, 30)
"""A window with room for everything beside the conversation."""
NOW = 1_700_000_000.0
"""The time at which pictures are taken; see `even_clock`."""
_EQUAL_FRAMES = 3
"""Equal frames, with all messages handled in between, after which the screen counts as unchanged."""
_FRAME_S = 0.03
"""Pause between two frames; all of them together take longer than the pace of `quick_pace`."""
FULL = ContextOverflowError(
    "With this prompt the conversation has 272 tokens and the context holds 256.",
    "Start a new conversation, or ask for a longer context (--ctx).",
)
BROKEN = AppError("llama.cpp failed.", "Load a smaller pair.")
REFUSAL = ["Answer", f"┃ {FULL.message}"]
"""The rows below a prompt that was refused with FULL, before the fixes."""
WAYS_OUT = [
    "┃ Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up, then enter), or",
    "┃ set a longer context (f4, ctx).",
]


class Driver:
    """Read any screen and wait for it."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self.pilot = pilot

    async def until(self, condition: Condition) -> None:
        """Handle all messages, then wait for a condition; fail if the program hangs."""
        end = time.monotonic() + HANGS_S
        await self.pilot.pause()
        while not condition():
            assert time.monotonic() < end, f"never came true; the screen shows:\n{self.text}"
            await self.pilot.pause(0.01)

    async def shows(self, *texts: str) -> None:
        """Wait until all these texts are on the screen."""
        await self.until(lambda: all(text in self.text for text in texts))

    async def stands_still(self) -> None:
        """Wait until the screen no longer changes."""
        shown, equal = None, 0
        end = time.monotonic() + HANGS_S
        while time.monotonic() < end:
            await self.pilot.pause(_FRAME_S)
            screen = self.app.screen
            now = screen, screen._compositor.render_strips(screen.size)
            equal = equal + 1 if now == shown else 0
            if equal == _EQUAL_FRAMES:
                return
            shown = now
        raise AssertionError(f"never stood still; the screen shows:\n{self.text}")

    @property
    def rows(self) -> list[str]:
        """The text of the terminal, row by row."""
        width, height = self.app.size
        screen = self.app.screen
        strips = screen._compositor.render_strips(screen.size)
        assert len(strips) == height
        return [strip.text[:width].rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    def styled(self, attribute: str) -> list[str]:
        """Return the texts on the screen with an attribute such as "underline", row by row."""
        screen = self.app.screen
        strips = screen._compositor.render_strips(screen.size)
        return [part.text for strip in strips for part in strip if getattr(part.style, attribute, False)]

    @property
    def app(self) -> App[None]:
        return self.pilot.app

    def receive(self, event: events.Event) -> None:
        """Handle an event as one of the terminal."""
        driver = self.app._driver
        assert driver is not None
        if isinstance(event, events.Resize):
            driver._size = event.size
        driver.process_message(event)

    def hit(self, text: str = "", *keys: str) -> None:
        """Send the keys of a text and other keys at the same moment, as from a quick typist, without waiting."""
        for character in text:
            self.app.post_message(events.Key("space" if character == " " else character, character))
        for key in keys:
            self.app.post_message(events.Key(key, None))

    async def press(self, *keys: str, shows: str | None = None, until: Condition | None = None) -> None:
        """Press keys, and wait for a text or a condition if one is given."""
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()
        await self._wait(shows, until)

    async def _wait(self, text: str | None, condition: Condition | None) -> None:
        if text is not None:
            await self.shows(text)
        if condition is not None:
            await self.until(condition)


class Chat(Driver):
    """A running chat over a fake engine."""

    def __init__(self, pilot: Pilot[None], screen: ChatScreen, engine: FakeEngine) -> None:
        super().__init__(pilot)
        self.screen = screen
        self.engine = engine

    async def type(self, text: str) -> None:
        """Type quickly, like a paste into the terminal."""
        before = self.prompt
        self.hit(text)
        await self.until(lambda: self.prompt == before + text)

    async def send(self, text: str) -> None:
        """Type a prompt, press Enter, and wait for the engine's request."""
        asked = len(self.engine.requests)
        await self.type(text)
        await self.pilot.press("enter")
        await self.until(lambda: len(self.engine.requests) > asked)

    async def enter(self, line: str, shown: str | None = None, *, until: Condition | None = None) -> None:
        """Type a line, press Enter, and wait for what it shows or for a condition."""
        await self.type(line)
        await self.press("enter", shows=shown, until=until)

    async def next_request(self, *keys: str) -> None:
        """Press keys that ask the engine for something."""
        count = len(self.engine.requests)
        await self.press(*keys)
        await self.until(lambda: len(self.engine.requests) > count)

    async def writes(self, text: str) -> None:
        """Let the engine write a part of an answer, and wait until it is shown."""
        self.engine.says(text)
        await self.shows(text)

    async def answer(self, text: str, reason: FinishReason = FinishReason.STOP) -> None:
        """Let the engine write the rest of an answer and end it."""
        self.engine.goes_on(text, reason)
        await self.ready()
        await self.pilot.pause()

    async def refuse(self, error: AppError = FULL) -> None:
        """Let the running answer fail."""
        self.engine.fails(error)
        await self.ready()

    async def exchange(self, prompt: str, answer: str, reason: FinishReason = FinishReason.STOP) -> None:
        await self.send(prompt)
        await self.answer(answer, reason)

    async def click(self, word: str, *, shows: str | None = None, until: Condition | None = None) -> None:
        """Click on the first occurrence of a word on the screen, and wait as after a key."""
        y = next(y for y, line in enumerate(self.rows) if re.search(rf"\b{word}\b", line))
        await self.pilot.click(offset=(self.rows[y].index(word), y))
        await self._wait(shows, until)

    async def look_away(self) -> None:
        """Bring another window in front of the terminal."""
        self.app.post_message(events.AppBlur())
        await self.until(lambda: not self.app.app_focus)
        await self.pilot.pause()

    async def come_back(self) -> None:
        """Bring the terminal to the front again."""
        self.app.post_message(events.AppFocus())
        await self.until(lambda: self.app.app_focus)
        await self.pilot.pause()

    async def load(self) -> None:
        self.engine.loaded()
        await self.ready()

    async def ready(self) -> None:
        """Wait for the end of the load or of the running answer."""
        await self.until(lambda: self.screen.session.phase is Phase.READY)

    async def list_conversations(self) -> ConversationsScreen:
        await self.press("ctrl+o")
        if self.screen.view.sidebar.has_focus_within:
            await self.pilot.press("ctrl+o")
        await self.until(lambda: isinstance(self.app.screen, ConversationsScreen))
        await self.pilot.pause()
        screen = self.app.screen
        assert isinstance(screen, ConversationsScreen)
        return screen

    @property
    def is_in_front(self) -> bool:
        return self.app.screen is self.screen

    async def in_front(self, *keys: str) -> None:
        """Press keys, and wait until the chat is the screen in front."""
        await self.press(*keys, until=lambda: self.is_in_front)

    async def picker(self) -> ConversationPicker:
        """Return the list of conversations beside the chat, when it exists."""
        await self.until(lambda: self.screen.view.sidebar.query(ConversationPicker))
        await self.pilot.pause()
        return self.screen.view.sidebar.query_one(ConversationPicker)

    @property
    def prompt(self) -> str:
        return self.screen.view.prompt.text

    @property
    def answers(self) -> list[AnswerMessage]:
        return self.screen.view.messages.answers

    @property
    def status(self) -> str:
        line = self.screen.query_one(StatusLine)
        return line.lines(*line.size)[0].plain

    @property
    def said(self) -> list[str]:
        """The rows of the conversation, without panes and empty rows."""
        left, top, width, height = self.screen.view.messages.region
        rows = [row[left : left + width - 1].strip() for row in self.rows[top : top + height]]
        return [row for row in rows if row]

    @property
    def n_messages(self) -> int:
        """Number of messages in the open conversation."""
        return len(self.screen.view.messages.messages)

    @property
    def asked(self) -> list[str]:
        """The messages of the last request."""
        return [message.content for message in self.engine.requests[-1].messages]

    @property
    def chosen(self) -> str:
        """The text of the chosen message, or ""."""
        chosen = self.screen.view.messages.chosen
        return chosen.text if chosen is not None else ""


@asynccontextmanager
async def open_chat(
    flags: Layer = FIXED,
    *,
    loaded: bool = True,
    size: tuple[int, int] = (80, 24),
    store: StoreOpener | None = None,
    live: LiveSettings | None = None,
    continues: bool = False,
    tools: ToolUse | None = None,
) -> AsyncIterator[Chat]:
    """Run the chat over a fake engine."""
    app, engine = fake_app(flags, store=store, live=live, continues=continues, tools=tools)
    async with app.run_test(size=size) as pilot:
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        chat = Chat(pilot, screen, engine)
        await chat.until(lambda: engine.loads)
        if loaded:
            await chat.load()
        yield chat


# Conversations on disk


@asynccontextmanager
async def kept_chat(
    file: Path, *, loaded: bool = True, again: bool = False, size: tuple[int, int] = (90, 40), continues: bool = False
) -> AsyncIterator[Chat]:
    """Open a chat with a store; optionally open its first conversation."""
    async with open_chat(store=lambda: Store(file), size=size, loaded=loaded, continues=continues) as chat:
        if again:
            await chat.screen.controller.open_conversation(1)
        yield chat


async def is_shown_again(file: Path, before: list[str]) -> None:
    """Check that another start shows the same rows."""
    async with kept_chat(file, again=True) as chat:
        await chat.until(lambda: chat.said == before)


def converse(
    store: Store, *texts: str, roles: Sequence[Role] = (Role.USER, Role.ASSISTANT), reasoning: str = ""
) -> int:
    """Store a conversation of texts with alternating authors; return its number. The last text has the reasoning."""
    number, parent = store.create(), None
    for role, text in zip(cycle(roles), texts, strict=False):
        thought = reasoning if text is texts[-1] else ""
        parent = store.add(number, role, text, parent=parent, reasoning=thought).id
    return number


def keep(file: Path, *texts: str, roles: Sequence[Role] = (Role.USER, Role.ASSISTANT), reasoning: str = "") -> int:
    """Store a conversation in a file, as `converse` does."""
    with closing(Store(file)) as store:
        return converse(store, *texts, roles=roles, reasoning=reasoning)


def fill(file: Path, *titles: str) -> None:
    """Store a conversation of one exchange for each title."""
    for title in titles:
        keep(file, title, f"The answer about {title} is long.")


def texts(file: Path, conversation: int = 1) -> list[str]:
    """Return the texts of the stored active branch."""
    store = Store(file)
    path = store.load(conversation).tree.path
    store.close()
    return [node.text for node in path]


def everything(file: Path) -> list[tuple[str, State]]:
    """Return text and state of all messages of the first conversation."""
    store = Store(file)
    nodes = store.load(1).tree.nodes.values()
    store.close()
    return [(node.text, node.state) for node in nodes]


def title_of(picker: ConversationPicker) -> str:
    """Return the title of the chosen conversation, or ""."""
    row = picker.conversations.row
    return row.summary.title if row is not None else ""
