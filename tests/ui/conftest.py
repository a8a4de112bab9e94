"""Snapshots are SVG files, and are called so; nobody waits for a pace made for eyes."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from app.ui.messages import view
from app.ui.terminal import copying
from tests.ui.conversations_driver import NOW

SVGImageExtension.file_extension = "svg"
Programs = Callable[[], Sequence[Sequence[str]]]


@pytest.fixture(scope="session", autouse=True)
def parsed_once() -> Iterator[None]:
    """Every program in these tests has the same styles; Textual parses all of them anew in each, several times."""
    parse, known = Stylesheet._parse_rules, dict[Any, list[RuleSet]]()

    def parse_rules(self: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
        what = (source, tuple(more.items()), frozenset(self._variables.items()))
        if what not in known:
            known[what] = parse(self, *source, **more)
        return known[what]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_rules)
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where conversations are kept."""
    return tmp_path / "conversations.db"


@pytest.fixture(autouse=True)
def clipboard_programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """What would hold the clipboard here, for tests that ask; no test hands anything to the person's own."""
    found = copying._programs
    monkeypatch.setattr(copying, "_programs", lambda: ())
    return found


@pytest.fixture(autouse=True)
def quick_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.listening.pace.FASTEST_S", 0.05)
    monkeypatch.setattr("app.ui.listening.pace.SLOWEST_S", 0.05)
    monkeypatch.setattr("app.ui.readouts.state.TOLD_S", 0.0)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages are a long conversation where less of it is near."""
    monkeypatch.setattr(view, "_STEPS", (2, 3))
    monkeypatch.setattr(view, "_MOST_FAR", 2)


@pytest.fixture
def own_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For pictures: what compares them wants a loop of its own."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield
    asyncio.set_event_loop(None)


@pytest.fixture
def even_clock(own_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For pictures with ages, which depend on the clock."""
    monkeypatch.setattr("app.ui.conversations.list.time", lambda: NOW)
