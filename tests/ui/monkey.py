"""Random use of the whole program over a scripted engine: nothing breaks, nothing typed or shown gets lost."""

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from app.compare.report import Comparison as Compared
from app.conversations.store import Store
from app.core.errors import DecodeError, EngineLostError, ModelLoadError, StoppedError
from app.engine.types import FinishReason
from app.session.state import Phase
from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui.actions import BY_ID
from app.ui.chat.screen import ChatScreen
from app.ui.models.state import LoadRequest
from app.worker.engine_worker import Loader
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, Notice
from app.worker.jobs import Job
from app.worker.request import AnswerRequest
from tests.fake_engine import FIRST_JOB, PAIR, STATS, FakeEngine, no_loader
from tests.ui.driver import Driver
from tests.ui.fakes import fake_app

Move = tuple[str, object]
"""An action and its value: a key, a text, a size, a mouse position, or an event of the engine."""

_TEXTS = (
    "hello",
    "[red]x[/red]",
    "two\nlines",
    "/help",
    "/copy code",
    "/copy",
    "/new",
    "/",
    "@",
    "@file.txt ",
    "é👨‍👩‍👧",
    "w " * 60,
)
_PASTES = ("one line", "line\n" * 30, "\x1b[2J\x07a\x00b", "\u202e\u05e9\u05dc" * 20, "[@click=app.quit]x[/]", "\ud800")
_MODEL_TEXTS = (
    "word ",
    "A sentence. " * 20,
    "\n\n",
    "```python\nx = 1\n",
    "- item\n" * 10,
    "| a |\n|---|\n| 1 |\n",
    "\x1b[2J",
    "x" * 300,
)
_SIZES = ((1, 1), (20, 5), (40, 10), (80, 24), (100, 30), (120, 40), (250, 80), (80, 3))
_COMMON_KEYS = (
    "enter", "enter", "escape", "escape", "up", "down", "ctrl+n", "ctrl+o", "ctrl+r", "ctrl+up", "f1", "f2", "f3", "f4",
    "f5", "f6", "f7", "ctrl+p", "ctrl+d", "tab", "pageup", "ctrl+g", "ctrl+e", "ctrl+s", "delete", "ctrl+k", "f8",
    "left", "right",
)  # fmt: skip
_CHARACTERS = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " "}


def random_session(seed: int, length: int) -> Sequence[Move]:
    """Return moves, equal for equal seeds."""
    random = Random(seed)
    declared = [binding.key for binding in Binding.make_bindings([*TextArea.BINDINGS, *Input.BINDINGS])]
    declared += [action.keys for action in BY_ID.values() if action.keys]
    keys = sorted({key.strip() for keys in declared for key in keys.split(",")} - {"ctrl+q", "ctrl+z"})
    makers: Sequence[Callable[[], Move]] = (
        lambda: ("key", random.choice(_COMMON_KEYS)),
        lambda: ("key", random.choice(keys)),
        lambda: ("type", random.choice(_TEXTS)),
        lambda: ("paste", random.choice(_PASTES)),
        lambda: ("click", (random.random(), random.random())),
        lambda: ("resize", random.choice(_SIZES)),
        lambda: ("say", random.choice(_MODEL_TEXTS)),
        lambda: (random.choice(("end", "end", "end", "cut", "fail", "die", "notice")), ""),
        lambda: ("wait", ""),
    )
    return [("end", ""), *(random.choices(makers, (20, 6, 8, 3, 6, 3, 12, 12, 8))[0]() for _ in range(length))]


class MonkeyEngine(FakeEngine):
    """Executes the commands in order, each when a session lets it continue."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        super().__init__(emit)
        self.waiting: deque[int | None] = deque()
        """Numbers of the commands; None for a load."""
        self._n_stopped = 0
        """How many of the oldest commands are stopped."""
        self._has_pair = False

    def load(self, loader: Loader) -> None:
        self.waiting.append(None)

    def answer(self, request: AnswerRequest) -> int:
        self.waiting.append(number := super().answer(request))
        return number

    def run(self, job: Job) -> int:
        self.waiting.append(number := super().run(job))
        return number

    def cancel(self, number: int | None = None) -> None:
        self._n_stopped = len(self.waiting)

    def go_on(self, what: str, text: str = "") -> None:
        """Continue the oldest command: `say` a text, or end as `end`, `cut`, `fail` or `die`."""
        if what == "notice" or not self.waiting:
            self.emit(Notice("Something is worth a word."))
            return
        number, is_stopped = self.waiting[0], self._n_stopped > 0
        is_job = number is not None and number >= FIRST_JOB
        if what == "say" and not is_stopped and not is_job:
            self.load_progress(0.5) if number is None else self.says(text, request=number)
            return
        self.waiting.popleft()
        self._n_stopped = max(0, self._n_stopped - 1)
        fails = what in ("fail", "die") and not is_stopped
        if number is None:
            self._has_pair = what == "end" and not is_stopped
            error = StoppedError("Stopped.") if is_stopped else ModelLoadError("It is gone.", "Bring it back.")
            self.emit(Loaded(PAIR) if self._has_pair else Failed(None, error))
        elif fails or not self._has_pair:
            lost = EngineLostError("The engine ended.", "")
            self.emit(Failed(number, lost if what == "die" else DecodeError("The target failed.")))
        elif is_job:
            self.emit(JobEnded(number, Compared(stopped=True)))
        else:
            reason = FinishReason.LENGTH if what == "cut" else FinishReason.STOP
            reason = FinishReason.CANCELLED if is_stopped else reason
            self.emit(Finished(number, reason, self._text, "", STATS))


class Monkey:
    """A run of the program."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "conversations.db"
        live = LiveSettings(SettingsFile(folder / "settings.toml"))
        live.loading()
        self.app, engine = fake_app(engine=MonkeyEngine, live=live, store=lambda: Store(self.file))
        assert isinstance(engine, MonkeyEngine)
        self.engine = engine
        self.pilot: Pilot[None]

    @property
    def chat(self) -> ChatScreen:
        chat = self.app.screen_stack[0]
        assert isinstance(chat, ChatScreen)
        return chat

    async def play(self, moves: Sequence[Move]) -> None:
        """Play a session; then a user presses escape until the prompt has the focus, and sends a prompt."""
        async with self.app.run_test(size=(100, 30)) as self.pilot:
            await self.rest()
            for what, value in moves:
                self._do(what, value)
                if what == "wait":
                    await self.rest()
                kinds = [type(screen) for screen in self.app.screen_stack]
                assert len(kinds) == len(set(kinds)), f"a screen is open twice: {kinds}"
            await self._come_back()
            await self._ask("probe", "the probe is answered")
            self._type("unsent")
            await self.rest()
            assert "unsent" in self.chat.controller.line.pending_text
            shown = [message.id for message in self.chat.view.messages.messages if message.id is not None]
            path = [node.id for node in self.chat.session.conversation.tree.path]
            assert shown == path[-len(shown) :]
            self.app.action_help_quit()
            self.app.action_help_quit()
        assert "the probe is answered" in self.texts()
        assert "unsent" in self.texts()

    async def rest(self) -> None:
        for _ in range(3):
            await self.pilot.pause()

    def texts(self) -> str:
        """Return everything in the store."""
        with sqlite3.connect(self.file) as db:
            rows = [*db.execute("SELECT text FROM messages"), *db.execute("SELECT draft FROM conversations")]
        db.close()
        return "\n".join(str(text) for row in rows for text in row)

    async def _come_back(self) -> None:
        self._do("resize", (100, 30))
        for _ in range(12):
            await self.rest()
            if (
                self.app.screen is self.chat
                and self.chat.view.prompt.has_focus
                and not self.chat.controller.line.is_borrowed
            ):
                break
            if self.engine.waiting and self.app.screen is not self.chat:
                self.engine.go_on("end")
            self._do("key", "escape")
        assert self.app.screen is self.chat, f"no way back from {self.app.screen}"
        assert self.chat.view.prompt.has_focus, f"escape leads to {self.app.focused}"
        while self.engine.waiting:
            self.engine.go_on("end")
            await self.rest()
        await self.pilot.pause(0.3)
        if self.chat.session.phase is Phase.UNLOADED:
            await self.chat.controller.load_pair(LoadRequest(no_loader, "Another"))
            self.engine.go_on("end")
        await self._until_ready()

    async def _ask(self, prompt: str, answer: str) -> None:
        self.chat.view.prompt.action_dismiss()
        self.chat.view.prompt.clear()
        asked = len(self.engine.requests)
        self._type(prompt)
        self._do("key", "enter")
        await self.rest()
        assert len(self.engine.requests) == asked + 1, f"the prompt was not sent: {self.chat.view.prompt.text!r}"
        self.engine.go_on("say", answer)
        self.engine.go_on("end")
        await self._until_ready()

    async def _until_ready(self) -> None:
        for _ in range(100):
            await self.pilot.pause(0.02)
            if self.chat.session.phase is Phase.READY:
                return
        raise AssertionError(f"the chat waits: {self.chat.session.phase}")

    def _do(self, what: str, value: object) -> None:
        match what, value:
            case "key", str(key):
                self._send(events.Key(key, _CHARACTERS.get(key, key if len(key) == 1 else None)))
            case "type", str(text):
                self._type(text)
            case "paste", str(text):
                self._send(events.Paste(text))
            case "resize", (int(width), int(height)):
                self._send(events.Resize(Size(width, height), Size(width, height)))
            case "click", (float(x), float(y)):
                at = int(x * self.app.size.width), int(y * self.app.size.height)
                for kind in (events.MouseMove, events.MouseDown, events.MouseUp):
                    self._send(kind(None, *at, 0, 0, int(kind is not events.MouseMove), False, False, False, *at))
            case "wait", _:
                pass
            case what, str(text):
                self.engine.go_on(what, text)

    def _type(self, text: str) -> None:
        names = {" ": "space", "\n": "shift+enter", "/": "slash", "@": "at"}
        for character in text:
            self._send(events.Key(names.get(character, character), character))

    def _send(self, event: events.Event) -> None:
        Driver(self.pilot).receive(event)
