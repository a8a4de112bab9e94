"""The numbers of an answer: from counters, to the store and back, and as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine.answer_numbers import AnswerNumbers
from app.engine.drafting_report import Speedup
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus

STATS = GenerationStats(
    prompt_n=100,
    predicted_n=101,
    draft_n=40,
    draft_n_accepted=18,
    draft_n_model=40,
    drafted_steps=10,
    verify_steps=80,
    prompt_ns=1_000_000_000,
    first_token_ns=210_000_000,
    predicted_ns=2_000_000_000,
)
STATUS = DraftingStatus(Source.MTP, "", "winning", 2.0, measured=True, drafter=Source.MTP)


def test_numbers_are_read_back_from_the_store() -> None:
    numbers = AnswerNumbers.of(STATS, STATUS, "mtp+ngram", "auto")

    assert AnswerNumbers.read(numbers.document) == numbers
    assert str(numbers) == "101 tokens, 50 tok/s, 2.0×, MTP layer, 45% accepted, 1.2 tokens per step"


def test_the_store_has_the_names_of_every_version() -> None:
    assert AnswerNumbers.of(STATS, STATUS, "mtp+ngram", "auto").document == {
        "prompt_n": 100,
        "cache_n": 0,
        "predicted_n": 101,
        "predicted_per_second": 50.0,
        "tokens_per_second": 50.0,
        "reading_per_second": 100.0,
        "draft_n": 40,
        "draft_n_accepted": 18,
        "mean_accepted_length": 1.25,
        "first_token_ms": 210.0,
        "predicted_ms": 2000.0,
        "acceptance": 0.45,
        "draft_length": 4.0,
        "drafter": "mtp+ngram",
        "mode": "auto",
        "model_share": 1.0,
        "speedup": 2.0,
        "speedup_measured": True,
        "verdict": "winning",
    }


def test_an_answer_of_an_earlier_version_has_an_estimate_and_its_measuring_time() -> None:
    old = {"predicted_n": 412, "predicted_per_second": 106.7, "draft_n": 9, "acceptance": 0.78, "speedup": 3.14}
    numbers = AnswerNumbers.read({**old, "first_token_ms": 210, "measuring_ms": 90})

    assert (numbers.speedup, numbers.first_token_ms) == (Speedup(3.14, measured=False), 300)
    assert str(numbers) == "412 tokens, 107 tok/s, 3.1× (estimate), 7 of 9 accepted"


@pytest.mark.parametrize("value", ["fast", None, True, float("nan"), float("inf"), 10**400, -1, [], {}])
def test_stored_values_that_are_no_numbers_are_left_out(value: object) -> None:
    names = ("predicted_n", "predicted_per_second", "speedup", "acceptance", "first_token_ms", "draft_n")
    numbers = AnswerNumbers.read(dict.fromkeys(names, value) | {"verdict": 7})

    assert numbers == AnswerNumbers()
    assert str(numbers) == "No numbers were stored."


def test_the_speed_of_a_single_token_was_not_measured() -> None:
    numbers = AnswerNumbers.of(replace(STATS, predicted_n=1, predicted_ns=0), None)

    assert numbers.pace == "1 token"
    assert not {"predicted_per_second", "tokens_per_second"} & numbers.document.keys()


def test_the_speed_without_drafts_is_known_only_if_measured() -> None:
    assert AnswerNumbers.of(STATS, STATUS).undrafted_speed == 25.0
    assert AnswerNumbers.of(STATS, replace(STATUS, measured=False)).undrafted_speed is None
