"""Fixtures for the screens: SVG snapshots, fast redraws, and no real clipboard."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from selectors import DefaultSelector, SelectorKey
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from app.ui.terminal import copying
from tests.ui.driver import NOW, Driver
from tests.ui.pictures import SnapCompare

SVGImageExtension.file_extension = "svg"
Programs = Callable[[], Sequence[Sequence[str]]]
_PASSES = 20


@pytest.fixture(scope="session", autouse=True)
def parsed_once() -> Iterator[None]:
    """Parse each style sheet once; Textual parses all of them several times in every app."""
    parse, parsed = Stylesheet._parse_rules, dict[Any, list[RuleSet]]()

    def parse_rules(self: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
        key = (source, tuple(more.items()), frozenset(self._variables.items()))
        if key not in parsed:
            parsed[key] = parse(self, *source, **more)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_rules)
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of the conversation store."""
    return tmp_path / "conversations.db"


@pytest.fixture(autouse=True)
def clipboard_programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Return the function that finds clipboard programs; tests never use the developer's clipboard."""
    found = copying.clipboard_commands
    monkeypatch.setattr(copying, "clipboard_commands", lambda: ())
    return found


@pytest.fixture(autouse=True)
def quick_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Update the screen without the usual delays."""
    for name in ("FASTEST_S", "SLOWEST_S", "HEAVY_S"):
        monkeypatch.setattr(f"app.ui.event_queue.{name}", 0.01)
    monkeypatch.setattr("app.ui.sidebar.readouts.REDRAW_S", 0.0)
    # A full collection after each answer would be most of a short test.
    monkeypatch.setattr("app.ui.chat.renderer.COLLECT_DELAY_S", 3600.0)


@pytest.fixture(autouse=True)
def lasting_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep each message until the next one, however slowly a test reads it."""
    monkeypatch.setattr(App, "NOTIFICATION_TIMEOUT", 3600.0)
    for module in ("app.ui.widgets.hint", "app.ui.app"):
        monkeypatch.setattr(f"{module}.SHOWN_S", 3600.0)


@pytest.fixture(autouse=True)
def uncounted_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no typed prompt, however slowly a test types; a test of the count sets its own time."""
    monkeypatch.setattr("app.ui.chat.input_line.COUNT_AFTER_S", 3600.0)


@pytest.fixture(autouse=True)
def settled_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a pause last until the event loop has nothing left to run, however busy the machine is.

    Textual's own pause sends a message to every widget and ends when the process uses little CPU time.
    """

    async def wait_for_screen(self: Pilot[Any], timeout: float = 0) -> bool:
        await settle(self.app)
        return True

    async def pause(self: Pilot[Any], delay: float | None = None) -> None:
        await settle(self.app)
        if delay is not None:
            await asyncio.sleep(delay)
            await settle(self.app)

    async def idle(min_sleep: float = 0, max_sleep: float = 0) -> None:
        await until_idle()

    monkeypatch.setattr(Pilot, "_wait_for_screen", wait_for_screen)
    monkeypatch.setattr(Pilot, "pause", pause)
    monkeypatch.setattr("textual.app.wait_for_idle", idle)


class IdleSelector(DefaultSelector):
    """Tells when an event loop has nothing left to run: then it asks to wait for timers, threads and the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: asyncio.Future[bool] | None = None
        """Awaited by everything that waits for the idle loop; its value is whether anything ran before."""
        self._has_run = False

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if self.idle is None:
            return super().select(timeout)
        events = super().select(0)
        if events or timeout == 0:
            self._has_run = True
        else:
            if not self.idle.done():
                self.idle.set_result(self._has_run)
            self.idle = None
        return events

    async def until_idle(self) -> bool:
        """Let the event loop run until it is idle; return whether there was anything to run."""
        if self.idle is None or self.idle.done():
            self._has_run = False
            self.idle = asyncio.get_running_loop().create_future()
        return await self.idle


class IdleLoop(asyncio.SelectorEventLoop):
    """An event loop that reports when it is idle."""

    def __init__(self) -> None:
        self.selector = IdleSelector()
        super().__init__(self.selector)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"idle": IdleLoop}


async def until_idle() -> bool:
    """Let the event loop run until it only waits for timers, threads and the terminal; return whether anything ran."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, IdleLoop)
    return await loop.selector.until_idle()


async def settle(app: App[Any]) -> None:
    """Handle all messages and draw what they changed, without Textual's waits for the next frame and the next size."""
    await until_idle()
    for _ in range(_PASSES):
        if not app.is_running or not app.screen_stack:
            return
        if app._resize_timer is not None:
            app._check_resize()
        app.screen._on_timer_update()
        if not await until_idle():
            return


@pytest.fixture
def snap_compare(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> Iterator[SnapCompare]:
    """Take a snapshot when the screen no longer changes."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    loop = IdleLoop()

    def compare(
        app: App[None], *, terminal_size: tuple[int, int], run_before: Callable[[Pilot[None]], Awaitable[None]]
    ) -> bool:
        async def run_until_still(pilot: Pilot[None]) -> None:
            await run_before(pilot)
            await Driver(pilot).stands_still()

        monkeypatch.setattr(app, "run", partial(app.run, loop=loop))
        return snap_compare(app, terminal_size=terminal_size, run_before=run_until_still)

    yield compare
    loop.close()


@pytest.fixture
def even_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the clock for snapshots that show ages."""
    monkeypatch.setattr("app.ui.conversations.list.time", lambda: NOW)
