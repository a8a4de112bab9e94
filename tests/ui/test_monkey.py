"""Random use of the whole program."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.ui.monkey import Monkey, Move, random_session

_FOUND: dict[str, Sequence[Move]] = {
    "a click on an answer that is about to go": [
        ("end", ""), ("type", "one "), ("key", "enter"), ("wait", ""), ("cut", ""), ("click", (0.87, 0.11)),
    ],
    "enter twice where another repository is added": [
        ("end", ""), ("key", "f6"), ("wait", ""), ("type", "nothing "), ("key", "enter"),
    ],
}  # fmt: skip
"""Shortened sessions that once failed."""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("some text\n" * 20)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("seed", range(2))
async def test_random_sessions_do_not_crash_or_lose_text(seed: int, tmp_path: Path) -> None:
    await Monkey(tmp_path).play(random_session(seed, 60))


@pytest.mark.parametrize("moves", _FOUND.values(), ids=_FOUND)
async def test_sessions_that_failed_once(moves: Sequence[Move], tmp_path: Path) -> None:
    await Monkey(tmp_path).play(moves)


async def test_a_lost_draft_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("app.session.conversation.Conversation.set_unsent_text", lambda self, text: None)
    with pytest.raises(AssertionError):
        await Monkey(tmp_path).play([("end", "")])
