"""What does not fit is refused before any work, and the sentence says whose length it is."""

from __future__ import annotations

import pytest

from app.chat.message import Begun, Message, Role
from app.engine.types import AutoDraft, FinishReason
from app.errors import ContextOverflowError
from app.events import Event, Finished, StepCompleted
from app.request import AnswerRequest
from app.responder import answer
from tests.fakes import FakeModel, always, mixing
from tests.pairs import FakePair


def said(*texts: str, system: str = "") -> tuple[Message, ...]:
    """Turn and turn about, ending with the user."""
    roles = [Role.USER if (len(texts) - at) % 2 else Role.ASSISTANT for at in range(len(texts))]
    turns = [Message(role, text) for role, text in zip(roles, texts, strict=True)]
    return (*([Message(Role.SYSTEM, system)] if system else []), *turns)


def events(pair: FakePair, request: AnswerRequest) -> list[Event]:
    return list(answer(pair, 1, request, lambda: False))


@pytest.mark.parametrize(
    ("request_", "message", "is_prompt"),
    [
        (AnswerRequest(said("a" * 17)), "The prompt has 17 tokens and the context holds 16.", True),
        (AnswerRequest(said("a", system="b" * 16)), "The prompt has 17 tokens and the context holds 16.", True),
        (AnswerRequest(said("a" * 9, "b" * 5, "c" * 20)), "The prompt has 20 tokens and the context holds 16.", True),
        (
            AnswerRequest(said("a" * 9, "b" * 6, "cc")),
            "With this prompt the conversation has 17 tokens and the context holds 16.",
            False,
        ),
        (
            AnswerRequest(said("a" * 9), begun=Begun("b" * 8)),
            "With the answer so far there are 17 tokens and the context holds 16.",
            False,
        ),
    ],
)
def test_whose_length_it_is(request_: AnswerRequest, message: str, is_prompt: bool) -> None:
    model = FakeModel(mixing(1), n_ctx=16)
    with pytest.raises(ContextOverflowError) as failed:
        events(FakePair(model), request_)
    assert (failed.value.message, failed.value.is_prompt) == (message, is_prompt)
    assert "(--ctx)" in failed.value.hint
    assert ("new conversation" in failed.value.hint) is not is_prompt


def test_nothing_is_measured_for_what_does_not_fit() -> None:
    pair = FakePair(FakeModel(mixing(1), n_ctx=16), FakeModel(mixing(1), n_ctx=16))
    with pytest.raises(ContextOverflowError):
        events(pair, AnswerRequest(said("a" * 17), drafting=AutoDraft()))
    assert pair.memory is None
    assert not pair.samplers


def test_what_fits_to_the_last_token_is_answered() -> None:
    *_, finished = events(FakePair(FakeModel(mixing(1), n_ctx=16)), AnswerRequest(said("a" * 9, "b" * 5, "cc")))
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.stats.predicted_n) == (FinishReason.CONTEXT, 1)


def test_an_answer_that_goes_round_in_circles_says_so_while_it_does_and_in_the_end() -> None:
    told = events(FakePair(FakeModel(always(5), n_ctx=1000)), AnswerRequest(said("a"), max_tokens=450))
    steps = [event.repeating for event in told if isinstance(event, StepCompleted)]
    assert (steps[398], steps[399], steps[449]) == (0, 400, 450)
    assert isinstance(told[-1], Finished)
    assert told[-1].repeating == 450
