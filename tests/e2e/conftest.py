"""A terminal for every test that wants one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.core.paths import conversations_file
from tests.e2e.terminal import Terminal


@pytest.fixture
def start(tmp_path: Path, demo_draft: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts the chat; the draft model is made before, and nothing that another test has typed is there."""
    started: list[Terminal] = []
    for file in conversations_file().parent.glob("conversations.db*"):
        file.unlink()

    def open_terminal(*flags: str) -> Terminal:
        chosen = () if "--target" in flags else ("--pair", "demo")
        started.append(Terminal(tmp_path, *chosen, *flags))
        started[-1].until(lambda s: "ask anything" in s)
        return started[-1]

    yield open_terminal
    for terminal in started:
        terminal.close()
