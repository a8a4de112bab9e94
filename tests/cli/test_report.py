"""The line and the object that `tandem run` ends with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cli.json_keys import TIMINGS
from app.cli.report import as_json, pace, summary
from app.engine.fixed import NEVER_MEASURED
from app.engine.stats import GenerationStats
from app.engine.types import MODEL_OFF, DraftingStatus, DraftParams, FinishReason
from app.session.answer_numbers import answer_numbers
from app.worker.events import AnswerPlan, Finished
from tests.ui.fakes import PAIR

LINE, TTFT = "101 tokens, 50 tok/s", ", TTFT 0.2 s"
UNDRAFTED = GenerationStats(predicted_n=101, first_token_ns=210_000_000, predicted_ns=2_000_000_000)
STATS = replace(UNDRAFTED, draft_n=40, draft_n_accepted=18, drafted_steps=10, verify_steps=80)
STATUS = DraftingStatus("off", f"{MODEL_OFF}it cannot pay; n-gram drafting still runs", "break-even", 1.01)


def ended(
    stats: GenerationStats, drafting: DraftingStatus | None, mode: str = "auto", fixed: DraftParams | None = None
) -> Finished:
    plan = AnswerPlan(mode, "model+ngram", fixed, None)
    return Finished(1, FinishReason.STOP, "Hi.", "", stats, plan, drafting)


def test_the_line_says_what_drafting_did() -> None:
    won = DraftingStatus("model", "", "winning", 3.1, measured=True)

    for status, gain in ((won, ", 3.1×"), (replace(won, measured=False), ", about 3.1× (estimated)"), (None, "")):
        line = summary(ended(STATS, status, "fixed"), PAIR)
        assert line == f"{LINE}{gain} (45% accepted, 1.2 tokens per step){TTFT}"


def test_a_pair_without_measured_costs_is_said_to_have_no_known_speedup() -> None:
    line = summary(ended(STATS, DraftingStatus("model", NEVER_MEASURED), "fixed"), PAIR)

    assert line.endswith(f"{TTFT}; speedup unknown; measure this pair with tandem tune")


def test_where_nothing_was_drafted_it_says_why() -> None:
    line = summary(ended(UNDRAFTED, STATUS), PAIR)

    assert line == f"{LINE}{TTFT}; draft model off: it cannot pay; n-gram drafting still runs"


@pytest.mark.parametrize(
    ("fixed", "why"),
    [
        (DraftParams(n_max=0), "n_max is 0"),
        (DraftParams(p_min=1.0), "the draft model was never sure enough for p_min 1"),
        (DraftParams(4, 3, 0.5), "the draft model was never sure enough for p_min 0.5 for as many tokens as n_min 3"),
    ],
)
def test_where_a_fixed_setting_drafted_nothing_it_is_named(fixed: DraftParams, why: str) -> None:
    line = summary(ended(UNDRAFTED, None, "fixed", fixed), PAIR)

    assert line == f"{LINE}{TTFT}; no draft used: {why}"


def test_a_short_answer_took_some_time() -> None:
    stats = GenerationStats(predicted_n=4, first_token_ns=1_260_000_000, predicted_ns=49_000_000)

    assert summary(ended(stats, None, "off"), PAIR) == "4 tokens, 61 tok/s, TTFT 1.3 s; no draft"
    single = replace(stats, predicted_n=1, first_token_ns=48_000_000)
    assert summary(ended(single, None, "off"), PAIR) == "1 token, TTFT 0.05 s; no draft"


def test_measuring_a_new_pair_is_part_of_the_wait_and_reading_by_the_draft_model_of_the_speed() -> None:
    stats = replace(STATS, draft_n_model=40, measuring_ns=3_000_000_000, draft_prompt_ns=500_000_000)
    line = summary(ended(stats, None, "fixed"), PAIR)

    assert line == "101 tokens, 40 tok/s (45% accepted, 1.2 tokens per step), TTFT 3.2 s including measuring the pair"


def test_a_draft_model_that_no_one_asked_is_not_called_unsure() -> None:
    stats = GenerationStats(predicted_n=1, first_token_ns=300_000_000, draft_prompt_ns=20_000_000_000)
    stopped = replace(ended(stats, None, "fixed", DraftParams(p_min=0.5)), reason=FinishReason.CANCELLED)

    assert summary(stopped, PAIR) == "1 token, TTFT 0.3 s; no draft used; stopped"


def test_of_an_answer_that_never_began_nothing_is_said_but_that() -> None:
    stopped = replace(ended(GenerationStats(), None, "off"), reason=FinishReason.CANCELLED)

    assert summary(stopped, PAIR) == "0 tokens; stopped"


@pytest.mark.parametrize(
    "mode", [("fixed", None, DraftParams(4, 0, 0.5)), ("auto", DraftingStatus("model", "the draft was not sure"), None)]
)
def test_a_draft_model_that_failed_is_not_called_unsure(
    mode: tuple[str, DraftingStatus | None, DraftParams | None],
) -> None:
    name, status, fixed = mode
    nothing = ended(UNDRAFTED, status, name, fixed)
    line = summary(replace(nothing, lost="llama.cpp refused the batch."), PAIR)

    assert line == f"{LINE}{TTFT}; no draft used: the draft model failed"


def test_a_source_that_was_asked_and_drafted_nothing_is_not_called_off() -> None:
    status = DraftingStatus("model", "the draft model was not sure enough for its draft to be worth checking")
    line = summary(ended(UNDRAFTED, status), PAIR)

    assert "; no draft used: the draft model was not sure enough" in line


def test_scripts_get_the_share_of_the_draft_model() -> None:
    told = as_json(ended(replace(STATS, draft_n_model=13), STATUS), PAIR, [])

    assert (told["timings"]["draft_n"], told["speculation"]["draft_n_model"]) == (40, 13)


def test_scripts_find_both_speeds_and_what_tells_them_apart() -> None:
    stats = replace(STATS, prompt_ns=1_000_000_000, draft_prompt_ns=500_000_000)
    timings = as_json(ended(stats, STATUS), PAIR, [])["timings"]

    assert tuple(timings) == TIMINGS
    assert (timings["prompt_ms"], timings["draft_prompt_ms"]) == (1500.0, 500.0)
    assert (timings["predicted_per_second"], timings["tokens_per_second"]) == (50.0, 40.0)


def test_the_speed_of_a_single_token_was_not_measured() -> None:
    stats = replace(STATS, predicted_n=1, predicted_ns=0)
    timings = as_json(ended(stats, STATUS), PAIR, [])["timings"]

    assert (timings["predicted_per_second"], timings["tokens_per_second"]) == (None, None)
    assert pace(stats) == "1 token"
    assert pace(STATS) == LINE
    kept = answer_numbers(ended(stats, STATUS))
    assert "predicted_per_second" not in kept
    assert "tokens_per_second" not in kept


def test_a_repeated_answer_is_reported_without_a_speedup() -> None:
    event = replace(ended(STATS, STATUS.without_speedup), reason=FinishReason.REPETITION, repeats=4)

    line = summary(event, PAIR)

    assert line.endswith("TTFT 0.2 s; stopped: the answer repeated itself 4 times (--stop-on-repeat off)")
    assert "×" not in line
    assert as_json(event, PAIR, [])["finish_reason"] == "repetition"
    assert as_json(event, PAIR, [])["speculation"]["speedup"] is None
