"""The program in a session: the real one, over an engine, pairs and a disk to which things happen."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size
from textual.pilot import Pilot

from app.conversations.message import Role
from app.conversations.store import Store
from app.core.errors import PairError, StoreError
from app.engine.text.segments import Segment
from app.engine.types import AutoDraft
from app.session.chat_settings import ChatSettings
from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui.app import TandemApp
from app.ui.models.state import LoadRequest, SetupProgress, SourceCheck, Stage, Tuning
from app.ui.screens.chat import ChatScreen
from app.ui.transcript.message import AnswerMessage
from app.worker.events import Event
from tests.ui.fakes import no_loader
from tests.ui.models.fake_pairs import CODER, FakePairs
from tests.ui.monkey.engine import MonkeyEngine
from tests.ui.monkey.moves import Engine, Key, Mouse, Move, Other, Pairs, Paste, Resize, Theme, Type, Wait, Word

_CHARACTERS = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " "}
_REST_S = 20.0


class Home:
    """What outlives a run of the program.

    Attributes:
        words: Words that were typed and must be somewhere.
        shown: What was shown of every answer, in order.
        is_well: Whether the disk took everything and no other program took anything away.
        conversation: Which one went on at the end.
        unsent: What was typed and not sent then.
        path: What was said in it, by id.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "conversations.db"
        self.words: list[str] = []
        self.shown: list[str] = []
        self.is_well = True
        self.conversation: int | None = None
        self.unsent = ""
        self.path: list[tuple[int | None, str]] = []
        (folder / "sub").mkdir()
        (folder / "file.txt").write_text("some text\n" * 20)
        (folder / "sub" / "other.txt").write_text("other\n")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what is shown of answers meanwhile."""
        add = AnswerMessage.add

        async def noting(answer: AnswerMessage, segments: list[Segment]) -> None:
            await add(answer, segments)
            for reasoning in (False, True):
                if text := "".join(part.text for part in segments if part.reasoning is reasoning).strip():
                    self.shown.append(text)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AnswerMessage, "add", noting)
            patch.setattr("app.ui.chat.input_mode.STORE_AFTER_S", 0.05)
            patch.setattr("app.ui.event_dispatcher.FASTEST_S", 0.02)
            patch.setattr("app.ui.event_dispatcher.SLOWEST_S", 0.02)
            # On a machine that is busy with other tests a screen takes longer to open than a user's would.
            patch.setattr("app.ui.keys.input_queue.PATIENCE_S", 30.0)
            patch.chdir(self.folder)
            yield

    def texts(self) -> str:
        """Everything that is in the store, with line ends left out."""
        with sqlite3.connect(self.file) as db:
            rows = [
                *db.execute("SELECT text, reasoning FROM messages"),
                *db.execute("SELECT title, draft FROM conversations"),
            ]
        db.close()
        return "\n".join(str(text) for row in rows for text in row)


class Program:
    """One run of it.

    Args:
        home: What it finds and leaves.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        live = LiveSettings(SettingsFile(home.folder / "settings.toml"))
        live.loading()
        settings = ChatSettings("A pair", drafting=AutoDraft())

        def reopen() -> LoadRequest:
            live.loading()
            return LoadRequest(no_loader, replace(settings, title="Again"))

        def factory(emit: Callable[[Event], None]) -> MonkeyEngine:
            self.engine = MonkeyEngine(emit)
            return self.engine

        self.pairs = FakePairs()
        self.app = TandemApp(
            factory,
            no_loader,
            settings,
            self.pairs,
            store=lambda: Store.open_anyway(home.file),
            tuning=Tuning(live, reopen),
        )
        self.pilot: Pilot[None]

    @property
    def chat(self) -> ChatScreen:
        return self.app._chat

    @property
    def runs(self) -> bool:
        """Whether it has not been quit."""
        return self.app.is_running and not self.app._exit

    async def rest(self) -> None:
        """Let everything that was begun come to rest."""
        while self.runs:
            await self.pilot.pause()
            if self.app.input_queue.is_idle:
                return

    # Moves

    async def do(self, move: Move) -> None:
        """Let a move happen; what follows from it does not before `rest`."""
        match move:
            case Key(key):
                self._send(events.Key(key, _CHARACTERS.get(key, key if len(key) == 1 else None)))
            case Type(text):
                self._type(text)
            case Word(text):
                if self.app.screen is self.chat and self.chat.prompt.has_focus and not self.chat.input_mode.is_active:
                    self.home.words.append(text.strip())
                    self._type(text)
            case Paste(text, times):
                self._send(events.Paste(text * times))
            case Mouse():
                self._use_mouse(move)
            case Resize(width, height):
                self._resize(Size(width, height))
            case Engine(what, text, times):
                self.engine.go_on(what, text * times)
            case Other(what):
                self._meddle(what)
            case Pairs(what):
                self._change_pairs(what)
            case Theme(name):
                with suppress(Exception):
                    self.app.theme = name
            case Wait():
                await self.rest()

    def _type(self, text: str) -> None:
        for character in text:
            key = {" ": "space", "\n": "shift+enter", "/": "slash", "@": "at", "?": "question_mark", ".": "full_stop"}
            self._send(events.Key(key.get(character, character), character))

    def _send(self, event: events.Event) -> None:
        driver = self.app._driver
        assert driver is not None
        driver.process_message(event)

    def _resize(self, size: Size) -> None:
        driver = self.app._driver
        assert driver is not None
        driver._size = (size.width, size.height)
        self._send(events.Resize(size, size))

    def _use_mouse(self, move: Mouse) -> None:
        width, height = self.app.size
        here = move.x * width // 1000, move.y * height // 1000
        there = move.to_x * width // 1000, move.to_y * height // 1000

        def point(kind: type[events.MouseEvent], at: tuple[int, int], button: int = 0) -> None:
            x, y = at
            self._send(kind(None, x, y, 0, 0, button, False, False, False, x, y))

        point(events.MouseMove, here)
        match move.what:
            case "click" | "double" | "right":
                for _ in range(2 if move.what == "double" else 1):
                    point(events.MouseDown, here, 3 if move.what == "right" else 1)
                    point(events.MouseUp, here, 3 if move.what == "right" else 1)
            case "drag":
                point(events.MouseDown, here, 1)
                point(events.MouseMove, there, 1)
                point(events.MouseUp, there, 1)
            case "scroll up":
                point(events.MouseScrollUp, here)
            case "scroll down":
                point(events.MouseScrollDown, here)

    def _meddle(self, what: str) -> None:
        """Do what another program, or the disk, may do at any time."""
        store = self.chat.library.disk.store
        if what == "disk full":
            self.home.is_well = False
            if store is not None and store.on_disk:
                (pages,) = store.database.connection.execute("PRAGMA page_count").fetchone()
                store.database.connection.execute(f"PRAGMA max_page_count = {pages}")
            return
        with suppress(StoreError):
            other = Store.open(self.home.file)
            try:
                self._meddle_with(other, what)
            finally:
                other.close()

    def _meddle_with(self, other: Store, what: str) -> None:
        for summary in other.summaries()[:2]:
            match what:
                case "delete":
                    other.delete(summary.id)
                case "remove":
                    self.home.is_well = False
                    other.database.connection.execute("DELETE FROM conversations WHERE id = ?", (summary.id,))
                case "rename":
                    other.rename(summary.id, "Named [b]elsewhere[/b]")
                case "draft":
                    self.home.is_well = False
                    other.set_draft(summary.id, "typed elsewhere")
                case "add":
                    tree = other.load(summary.id).tree
                    other.add(summary.id, Role.USER, "asked elsewhere", parent=tree.leaf)

    def _change_pairs(self, what: str) -> None:
        match what:
            case "ready":
                self.pairs.goes(CODER.name, SetupProgress(Stage.READY))
            case "fails":
                self.pairs.goes(CODER.name, SetupProgress(Stage.FAILED, error=PairError("It is not what it was.")))
            case "asked":
                self.pairs.answers(SourceCheck())
            case "refuses":
                self.pairs.refuses = PairError("It cannot be chosen now.", "Choose another one.")
