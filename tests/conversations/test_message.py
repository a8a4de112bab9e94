"""Why an answer ended, in the store and back: a failure names no key and no flag."""

from __future__ import annotations

import json

import pytest

from app.conversations.message import UNKNOWN, Ending, ending_in
from app.core.errors import AppError, ContextOverflowError, DoesNotFitError
from app.engine.types import FinishReason

FULL = ContextOverflowError("It has 272 tokens.", "Shorten it, or --ctx 512.", whose="prompt", n_tokens=272, n_ctx=256)


@pytest.mark.parametrize(
    ("failure", "stored"),
    [
        (FULL, {"message": "It has 272 tokens.", "kind": "context", "whose": "prompt", "n_tokens": 272}),
        (DoesNotFitError("It needs 3 GB.", ("an offer",)), {"message": "It needs 3 GB.", "kind": "memory"}),
        (AppError("It broke.", "Load a smaller pair."), {"message": "It broke.", "hint": "Load a smaller pair."}),
    ],
)
def test_a_failure_is_stored_with_the_facts_for_its_fix(failure: AppError, stored: dict[str, object]) -> None:
    numbers = Ending(failure=failure).numbers
    assert numbers == {"error": stored}

    again = ending_in(json.loads(json.dumps(numbers))).failure
    assert again is not None
    assert (type(again), again.message) == (type(failure), failure.message)
    assert Ending(failure=again).numbers == numbers


def test_a_failure_of_an_earlier_version_keeps_its_fix_as_text() -> None:
    hint = "Start a new conversation (ctrl+n), or set a longer context (f4, ctx 2048)."
    failure = ending_in({"error": {"message": "It has 272 tokens.", "hint": hint}}).failure
    assert failure is not None
    assert (type(failure), failure.sentences) == (AppError, f"It has 272 tokens. {hint}")


def test_an_end_without_failure_is_read_back() -> None:
    ending = Ending(FinishReason.REPETITION, repeats=4, at_limit=True)
    assert ending_in(ending.numbers) == ending


@pytest.mark.parametrize("error", [5, {}, {"message": 5}, {"message": " "}, {"kind": "context", "n_tokens": 5}])
def test_values_that_describe_no_end_are_ignored(error: object) -> None:
    assert ending_in({"error": error, "reason": "bored", "repeats": True, "at_limit": 1}) == UNKNOWN


@pytest.mark.parametrize("given", [{"kind": []}, {"kind": "context", "whose": 5, "n_tokens": "many"}])
def test_an_invalid_kind_or_number_leaves_the_message(given: dict[str, object]) -> None:
    failure = ending_in({"error": {"message": "Full.", **given}}).failure
    assert failure is not None
    assert failure.message == "Full."
