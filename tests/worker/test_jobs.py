"""Jobs, requests and time limits of the worker."""

from dataclasses import replace
from itertools import count
from typing import cast

import pytest

from app.conversations.message import Message, Prefill, Role
from app.core.errors import UsageError
from app.core.pictures import MARK, read_picture
from app.engine.interfaces import Controls
from app.engine.text.segments import Segment
from app.engine.text.tool_calls import CallPart, ToolCall
from app.engine.types import FinishReason
from app.worker.events import Finished, JobEnded
from app.worker.jobs import TitleJob
from app.worker.request import AnswerRequest, LoadedPair, readable_by, written
from tests.core.test_pictures import png
from tests.fakes import FakeModel, mixing, script
from tests.pairs import FakePair
from tests.worker.harness import answered, question


@pytest.mark.parametrize(
    ("request_", "cancelled", "title"),
    [
        pytest.param(question("abcd", None), False, "cab", id="the answer"),
        pytest.param(question("abcd", None), True, "", id="stopped"),
        pytest.param(replace(question("ab", None), prefill=Prefill("cd")), False, "cab", id="after its beginning"),
        pytest.param(question("abcd", 2), False, "", id="it does not end"),
        pytest.param(question("a" * 13, None), False, "", id="the conversation fills the context"),
    ],
)
def test_a_title_is_a_whole_answer(request_: AnswerRequest, cancelled: bool, title: str) -> None:
    pair = FakePair(FakeModel(script([3, 1, 2], start=4), n_ctx=12))
    assert list(TitleJob(request_).run(pair, 9, Controls(lambda: cancelled))) == [JobEnded(9, title)]


CAT = read_picture(png(4, 3), "cat.png")
SHOWN, PLAIN = Message(Role.USER, f"What is {MARK}?", pictures=(CAT,)), Message(Role.USER, "More?")


def asked(*messages: Message) -> AnswerRequest:
    return AnswerRequest(messages)


def test_a_projector_reads_pictures_and_a_text_model_reads_their_names() -> None:
    pair = FakePair(FakeModel(mixing(5)))
    request = asked(SHOWN, PLAIN)
    read = readable_by(cast(LoadedPair, pair), request)
    assert ([each.content for each in read.messages], read.pictures) == (["What is [picture cat.png]?", "More?"], ())
    with pytest.raises(UsageError, match="cannot read pictures here: it is loaded without a projector"):
        readable_by(cast(LoadedPair, pair), asked(SHOWN))
    pair.info = replace(pair.info, projector="mmproj-F16.gguf")
    assert readable_by(cast(LoadedPair, pair), request) == request


def test_a_call_is_neither_text_nor_reasoning() -> None:
    segments = [
        Segment("Hm.", None, reasoning=True),
        Segment("I look.", None),
        Segment("{}", None, call=CallPart(0, ToolCall("f", "{}"))),
    ]
    assert written(asked(PLAIN), segments) == Prefill("I look.", "Hm.")
    assert written(replace(asked(PLAIN), prefill=Prefill("So ", "Ah. ")), segments) == Prefill("So I look.", "Ah. Hm.")


LINE_END = 10


def ended(max_predict_ms: int | None) -> Finished:
    """Return the end of an answer of ten short lines; each clock reading takes a millisecond."""
    pair = FakePair(FakeModel(script([1, 2, LINE_END] * 10, 3), n_ctx=256))
    pair.model.piece = lambda token: b"\n" if token == LINE_END else bytes([96 + token]) if token else b""  # type: ignore[method-assign]
    clock = count(step=1_000_000)
    request = replace(question(max_tokens=None), max_predict_ms=max_predict_ms)
    return answered(pair, request, clock=lambda: next(clock))[1]


def test_a_line_that_ends_late_is_the_last_one() -> None:
    limited, whole = ended(30), ended(None)
    assert (limited.reason, whole.reason) == (FinishReason.LENGTH, FinishReason.STOP)
    assert whole.text.startswith(limited.text)
    assert limited.text.endswith("ab\n")
    assert 1 <= limited.text.count("\n") < 10
    assert ended(1).text == "ab\n"
    assert ended(100_000).text == whole.text
    assert ended(-1).text == whole.text, "-1 is no limit, as in llama-server"
