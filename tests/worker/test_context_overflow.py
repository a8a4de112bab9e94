"""An overlong prompt is refused before any work, naming its longest part."""

from dataclasses import replace
from typing import Any

import pytest

from app.conversations.message import Message, Prefill, Role
from app.core.errors import ContextOverflowError
from app.engine.text.reasoning import RenderedPrompt
from app.engine.types import FinishReason
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair, LetterPrompts
from tests.worker.harness import answered


def said(*texts: str, system: str = "") -> tuple[Message, ...]:
    """Return alternating messages, ending with the user."""
    roles = [Role.USER if (len(texts) - at) % 2 else Role.ASSISTANT for at in range(len(texts))]
    turns = [Message(role, text) for role, text in zip(roles, texts, strict=True)]
    return (*([Message(Role.SYSTEM, system)] if system else []), *turns)


@pytest.mark.parametrize(
    ("request_", "subject", "whose"),
    [
        (AnswerRequest(said("a" * 17)), "The prompt has 17", "prompt"),
        (AnswerRequest(said("a", system="b" * 16)), "The system prompt and this prompt have 17", "system"),
        (AnswerRequest(said("a" * 9, "b" * 5, "c" * 20)), "The prompt has 20", "prompt"),
        (AnswerRequest(said("a" * 9, "b" * 6, "cc")), "With this prompt the conversation has 17", "conversation"),
        (AnswerRequest(said("a" * 9), prefill=Prefill("b" * 8)), "With the answer so far there are 17", "answer"),
    ],
)
def test_a_context_overflow_names_its_cause(request_: AnswerRequest, subject: str, whose: str) -> None:
    with pytest.raises(ContextOverflowError) as failed:
        answered(FakePair(FakeModel(mixing(1), n_ctx=16)), request_)
    error = failed.value
    assert error.message == f"{subject} tokens and the context holds 16."
    assert (error.whose, error.n_tokens) == (whose, int(subject.split()[-1]))
    assert error.hint.endswith(", or set a longer context (⟨model.ctx=2048⟩).")
    assert ("new conversation" in error.hint) is (whose == "conversation")
    assert ("answer.system" in error.hint) is (whose == "system")


TRAINED, ROOM = "Fake was trained for {:,} tokens", "memory had room for {:,} tokens at the last loading"


@pytest.mark.parametrize(
    ("n_ctx_train", "n_ctx_room", "longer"),
    [
        (4096, 0, ", or set a longer context (⟨model.ctx=2048⟩)."),
        (1024, 0, ", or set a longer context (⟨model.ctx=1024⟩)."),
        (256, 0, f"; a longer context is not possible: {TRAINED.format(256)}."),
        (512, 0, f"; even the longest context here, 512, is too short: {TRAINED.format(512)}."),
        (4096, 256, f"; a longer context is not possible: {ROOM.format(256)}."),
        (4096, 512, f"; even the longest context here, 512, is too short: {ROOM.format(512)}."),
    ],
)
def test_a_longer_context_is_offered_only_where_it_is_available(n_ctx_train: int, n_ctx_room: int, longer: str) -> None:
    pair = FakePair(FakeModel(mixing(1), n_ctx=256))
    pair.info = replace(pair.info, target=replace(pair.info.target, n_ctx_train=n_ctx_train), n_ctx_room=n_ctx_room)
    with pytest.raises(ContextOverflowError) as failed:
        answered(pair, AnswerRequest(said("a" * 600)))
    assert failed.value.hint == f"Shorten it{longer}"


@pytest.mark.parametrize(("n_ctx_train", "at_limit"), [(16, True), (512, False)])
def test_an_answer_that_fills_the_context_shows_whether_a_longer_one_is_available(
    n_ctx_train: int, at_limit: bool
) -> None:
    pair = FakePair(FakeModel(mixing(1), n_ctx=256))
    pair.info = replace(pair.info, target=replace(pair.info.target, n_ctx_train=n_ctx_train))
    _, finished = answered(pair, AnswerRequest(said("a" * 256)))
    assert (finished.reason, finished.at_limit) == (FinishReason.CONTEXT, at_limit)


def test_a_prompt_that_fits_exactly_is_answered() -> None:
    _, finished = answered(FakePair(FakeModel(mixing(1), n_ctx=16)), AnswerRequest(said("a" * 9, "b" * 5, "cc")))
    assert (finished.reason, finished.stats.predicted_n) == (FinishReason.CONTEXT, 1)


@pytest.mark.parametrize(
    ("n_prompt", "n_room", "fits"), [(60, 0, True), (60, 4, True), (60, 5, False), (48, 1000, True), (49, 1000, False)]
)
def test_messages_leave_room_for_an_answer_up_to_a_quarter_of_the_context(
    n_prompt: int, n_room: int, fits: bool
) -> None:
    pair = FakePair(FakeModel(mixing(1), n_ctx=64))
    request = AnswerRequest(said("a" * 20, "b" * 20, "c" * (n_prompt - 40)), n_room=n_room, max_tokens=1)
    if fits:
        answered(pair, request)
        return
    with pytest.raises(ContextOverflowError) as caught:
        answered(pair, request)
    assert caught.value.whose == "conversation"


class ToolPrompts(LetterPrompts):
    """Prompts with ten tokens for each tool."""

    def build(self, messages: Any, prefill: Any = None, thinking: Any = None, tools: Any = (), *more: Any) -> Any:
        return RenderedPrompt((1,) * (sum(len(message.content) for message in messages) + 10 * len(tools)))


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {}}}


RESULT = (Message(Role.ASSISTANT, "a"), Message(Role.TOOL, "b" * 30, tool_call_id="1"))


@pytest.mark.parametrize(
    ("messages", "tools", "message", "whose"),
    [
        (
            (Message(Role.USER, "a"),),
            (tool("small"), tool("big", "long"), tool("other")),
            "The definitions of 3 tools, of which big is the largest, have 30 tokens and the context holds 16.",
            "tools",
        ),
        ((Message(Role.USER, "a"), *RESULT), (), "The prompt has 32 tokens and the context holds 16.", "prompt"),
        (
            (*said("a" * 9, "b" * 4, "cc"), Message(Role.ASSISTANT, "d"), Message(Role.TOOL, "e", tool_call_id="1")),
            (),
            "With this prompt the conversation has 17 tokens and the context holds 16.",
            "conversation",
        ),
    ],
)
def test_tools_and_results_that_do_not_fit(
    messages: tuple[Message, ...], tools: tuple[dict[str, Any], ...], message: str, whose: str
) -> None:
    pair = FakePair(FakeModel(mixing(1), n_ctx=16))
    pair.prompts = ToolPrompts()
    with pytest.raises(ContextOverflowError) as failed:
        answered(pair, AnswerRequest(messages, tools=tools))
    assert (failed.value.message, failed.value.whose) == (message, whose)
