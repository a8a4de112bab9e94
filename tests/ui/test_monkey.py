"""Random use of the whole program; `python -m tests.ui.monkey` goes on where this ends."""

from __future__ import annotations

import pytest

from tests.ui.monkey.moves import Engine, Key, Mouse, Session, Type, Wait, random_session
from tests.ui.monkey.play import TroubleError, play

SEEDS = (3, 8, 22, 27)
ONCE: dict[str, Session] = {
    "a click on an answer that is about to go": (
        Type("one "), Key("enter"), Wait(), Engine("cut"), Mouse("double", 870, 114),
    ),
    "enter twice where another repository is added": (
        Key("f6"), Engine("end"), Wait(), Type("nothing "), Key("enter"), Key("enter"), Wait(),
    ),
}  # fmt: skip
"""Sessions that went wrong once, made short."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_breaks_and_nothing_is_lost(seed: int) -> None:
    await play(random_session(seed, 50))


@pytest.mark.parametrize("session", ONCE.values(), ids=ONCE)
async def test_what_went_wrong_once(session: Session) -> None:
    await play(session)


async def test_what_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.session.conversation.Conversation.add", lambda self, segments: None)
    with pytest.raises(TroubleError, match="was shown and is not kept"):
        await play(
            (Engine("end"), Wait(), Type("one "), Key("enter"), Wait(), Engine("say", "lost"), Wait(), Engine("die"))
        )
