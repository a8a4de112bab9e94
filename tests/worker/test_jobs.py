"""The model names a conversation as a job."""

from __future__ import annotations

import pytest

from app.conversations.message import Message, Prefill, Role
from app.engine.interfaces import Controls
from app.worker.events import JobEnded
from app.worker.jobs import TitleJob
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, script
from tests.pairs import FakePair


@pytest.mark.parametrize(("cancelled", "title"), [(False, "cab"), (True, "")])
def test_the_result_is_the_title_unless_it_was_stopped(cancelled: bool, title: str) -> None:
    pair = FakePair(FakeModel(script([3, 1, 2], start=4)))
    job = TitleJob(AnswerRequest((Message(Role.USER, "abcd"),)))
    assert list(job.run(pair, 9, Controls(lambda: cancelled))) == [JobEnded(9, title)]


def test_the_title_is_what_follows_the_beginning_of_the_answer() -> None:
    pair = FakePair(FakeModel(script([3, 1, 2], start=6)))
    job = TitleJob(AnswerRequest((Message(Role.USER, "abcd"),), prefill=Prefill("ab")))
    assert list(job.run(pair, 9, Controls())) == [JobEnded(9, "cab")]


def test_a_title_that_does_not_end_is_left_out() -> None:
    pair = FakePair(FakeModel(script([3, 1, 2], start=4)))
    job = TitleJob(AnswerRequest((Message(Role.USER, "abcd"),), max_tokens=2))
    assert list(job.run(pair, 9, Controls())) == [JobEnded(9, "")]


def test_a_conversation_that_fills_the_context_keeps_its_title() -> None:
    pair = FakePair(FakeModel(script([1], start=4), n_ctx=8))
    job = TitleJob(AnswerRequest((Message(Role.USER, "a" * 9),)))
    assert list(job.run(pair, 9, Controls())) == [JobEnded(9, "")]
