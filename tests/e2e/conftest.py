"""A terminal for tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.core.paths import conversations_file
from tests.e2e.terminal import Terminal


@pytest.fixture
def start(tmp_path: Path, demo_draft: Path) -> Iterator[Callable[..., Terminal]]:
    """Start the chat, with an existing draft model and a fresh data folder."""
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
