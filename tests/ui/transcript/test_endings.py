"""Errors with the keys that fix them."""

from __future__ import annotations

import pytest

from app.core.errors import AppError, ContextOverflowError, DoesNotFitError
from app.models.pair_info import ModelInfo, PairInfo
from app.ui.transcript.endings import in_keys

PAIR = PairInfo(ModelInfo("Big", "big.gguf", "Q4_K_M", 1000, 100, n_ctx_train=8192), None, 4096, "CPU")
NEW = "Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up, then e)"


@pytest.mark.parametrize(
    ("whose", "n_tokens", "hint"),
    [
        ("system", 5000, "Shorten the system prompt (f4 or /system), or set a longer context (f4, ctx 7168)."),
        (
            "conversation",
            9000,
            f"{NEW}; the longest context here, 8,192, would not do: Big was trained for 8,192 tokens.",
        ),
        ("prompt", 0, "Shorten it, or include a part of its files (@file.pdf:3-7), or set a longer context (f4, ctx)."),
    ],
)
def test_an_overflow_names_what_to_shorten_and_a_context_that_would_do(whose: str, n_tokens: int, hint: str) -> None:
    assert in_keys(ContextOverflowError("Too long.", "--ctx", whose=whose, n_tokens=n_tokens), PAIR).hint == hint


def test_a_pair_without_room_names_the_list_of_pairs() -> None:
    hint = "Free some memory and send the prompt again; f6 chooses another pair."
    assert in_keys(DoesNotFitError("It does not fit."), PAIR).hint == hint


def test_any_other_failure_is_reported_as_it_is() -> None:
    error = AppError("No.", "Try again.")
    assert in_keys(error, PAIR) is error
