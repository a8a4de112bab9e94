"""Recording a trace: an answer that a draft model then follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from app.compare.recording import record
from app.conversations.message import Begun, Message, Role
from app.core.errors import Interrupted
from app.settings.thinking import AS_TRAINED, Thinking
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair, FakePrompt

HELLO = (Message(Role.USER, "hello"),)


@pytest.mark.parametrize("looks", range(12))
def test_a_stop_at_any_place_is_an_interruption(looks: int) -> None:
    pair = FakePair(FakeModel(mixing(4)), FakeModel(mixing(4)))
    left: Iterator[int] = iter(range(looks))
    recording = record(pair, HELLO, name="x", kind="x", n_tokens=8, depth=2, cancelled=lambda: next(left, None) is None)

    with pytest.raises(Interrupted):
        list(recording)


def test_what_is_recorded_is_asked_as_answers_are() -> None:
    asked: list[tuple[Sequence[Message], Thinking]] = []

    class Asked(FakePair):
        def build_prompt(
            self, messages: Sequence[Message], begun: Begun | None = None, thinking: Thinking = AS_TRAINED
        ) -> FakePrompt:
            asked.append((messages, thinking))
            return super().build_prompt(messages, begun, thinking)

    pair = Asked(FakeModel(mixing(4)), FakeModel(mixing(4)))
    messages = (Message(Role.SYSTEM, "brief"), *HELLO)
    off = Thinking(wanted=False)
    list(record(pair, messages, name="x", kind="x", n_tokens=2, depth=1, cancelled=lambda: False, thinking=off))

    assert asked == [(messages, off)]
