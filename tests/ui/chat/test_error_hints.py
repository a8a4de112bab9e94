"""Errors with the keys that fix them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.conversations.attached import Attachment, compose
from app.core.errors import AppError, ContextOverflowError, EngineLostError
from app.models.pair_info import ModelInfo, PairInfo
from app.models.recommend import Fit
from app.ui.chat.base import ChatBase
from app.ui.chat.error_hints import Situation, in_chat, with_keys
from app.ui.models.state import PairCard, PairsState

PAIR = PairInfo(ModelInfo("Big", "big.gguf", "Q4_K_M", 1000, 100, n_ctx_train=8192), None, 4096, "CPU")


FULL = replace(PAIR, n_ctx=8192)


ROOMY = PairCard("roomy", "A pair", "Another", context=32768, set_up=True)


TRAINED = "Big was trained for 8,192 tokens"


ANEW = "ctrl+n begins a new conversation"


EARLIER = f"{ANEW}, ctrl+up and e change an earlier prompt"


def hint(whose: str, n_tokens: int, situation: Situation) -> str:
    return with_keys(ContextOverflowError("Too long.", "--ctx", whose=whose, n_tokens=n_tokens), situation).hint


@pytest.mark.parametrize(
    ("whose", "shorter"),
    [
        ("prompt", "Shorten it"),
        ("system", "Shorten the system prompt (f4 or /system)"),
        ("conversation", EARLIER),
        ("answer", ANEW),
        ("file", "Include a part of it"),
    ],
)
def test_what_is_to_be_shorter_and_the_context_that_would_do(whose: str, shorter: str) -> None:
    assert hint(whose, 5000, Situation(PAIR)) == f"{shorter}, or set a longer context: f4, ctx 7168."
    assert hint(whose, 8190, Situation(PAIR)) == f"{shorter}, or set a longer context: f4, ctx 8192."
    none = f"{shorter}; the longest context here, 8,192, would not do: {TRAINED}."
    assert hint(whose, 9000, Situation(PAIR)) == none
    assert hint(whose, 9000, Situation(FULL)) == f"{shorter}; a longer context cannot be had: {TRAINED}."


def test_a_context_that_is_set_and_not_loaded_comes_first_if_it_would_do() -> None:
    said = "ctx 6144 is set and would hold it: f4, then ctrl+r, loads the models with it."
    assert hint("prompt", 5000, Situation(PAIR, context_after_reload=6144)) == f"{said} Shorten it."
    assert hint("prompt", 6144, Situation(PAIR, context_after_reload=6144)) == (
        "Shorten it, or set a longer context: f4, ctx 8192."
    )


def test_the_largest_text_that_is_included_can_be_left_out() -> None:
    files = [Attachment("a.md", "short"), Attachment("b.md", "a word and " * 5000)]
    asked = compose("Sum up @a.md and @b.md", files)
    said = hint("prompt", 16000, Situation(FULL, asked))
    assert said.startswith("Leave out b.md, the largest, or include a part of it; a longer context cannot")
    paste = compose("[pasted 1 KB]", [Attachment("pasted 1 KB", "a word and", is_file=False)])
    assert hint("prompt", 16000, Situation(FULL, paste)).startswith("Leave out [pasted 1 KB] or include")


def test_another_pair_is_offered_where_this_one_has_no_context_that_would_do() -> None:
    said = hint("prompt", 9000, Situation(FULL, roomier=ROOMY))
    assert said.endswith(f"{TRAINED}. The pair roomy can have one: f4, ctx 11264, then f6.")
    said = hint("prompt", 9000, Situation(FULL, roomier=replace(ROOMY, set_up=False)))
    assert said.endswith(f"{TRAINED}. A pair such as roomy can have one: f4, ctx 11264, then f6.")
    said = hint("prompt", 9000, Situation(FULL, roomier=replace(ROOMY, slow=True)))
    assert said.endswith("The pair roomy can have one, but is slow here: f4, ctx 11264, then f6.")
    assert "roomy" not in hint("prompt", 5000, Situation(PAIR, roomier=ROOMY))


def test_an_engine_that_ended_takes_no_conversation_with_it() -> None:
    error = in_chat(EngineLostError("It ended.", "Ask again."), ChatBase.__new__(ChatBase))
    assert isinstance(error, EngineLostError)
    assert error.sentences == "It ended. The conversation is kept. Ask again."


def test_any_other_failure_is_told_as_it_is() -> None:
    error = AppError("It broke.", "Fix it.")
    assert with_keys(error, Situation(PAIR)) is error


def _offered(*cards: PairCard) -> PairCard | None:
    return PairsState(cards=cards).with_longer_context(9000)


def test_offers_a_pair_with_a_longer_context_ready_and_fast_ones_first() -> None:
    short, large = replace(ROOMY, name="short", context=4096), replace(ROOMY, name="large", fit=Fit.TOO_BIG)
    to_come = replace(ROOMY, name="to come", set_up=False)
    is_open = replace(ROOMY, name="open", is_open=True)

    assert _offered(short, large, is_open, to_come, ROOMY) is ROOMY
    assert _offered(short, large, is_open, to_come) is to_come
    assert _offered(short, large, is_open, replace(ROOMY, context=9000)) is None

    slow, fast = replace(to_come, slow=True), to_come
    assert _offered(slow, fast) is fast
    assert _offered(slow) is slow
