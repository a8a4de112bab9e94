"""The line and the object at the end of `tandem run`."""

from dataclasses import replace

import pytest

from app.cli.report import as_json, summary
from app.engine.drafting_report import Speedup
from app.engine.fixed import NEVER_MEASURED
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus, DraftParams, FinishReason
from app.worker.events import Finished
from tests.cli.json_keys import TIMINGS
from tests.fake_engine import PAIR

LINE, TTFT = "101 tokens, 50 tok/s", ", first token after 0.2 s"
UNDRAFTED = GenerationStats(predicted_n=101, first_token_ns=210_000_000, predicted_ns=2_000_000_000)
STATS = replace(UNDRAFTED, draft_n=40, draft_n_accepted=18, drafted_steps=10, verify_steps=80)
STATUS = DraftingStatus("off", Source.MODEL.turned_off("it cannot pay; n-gram drafting still runs"))


def ended(
    stats: GenerationStats, drafting: DraftingStatus | None, mode: str = "auto", fixed: DraftParams | None = None
) -> Finished:
    numbers = replace(stats, drafter="model+ngram", mode=mode)
    return Finished(1, FinishReason.STOP, "Hi.", "", numbers, drafting, fixed)


SHORT = GenerationStats(predicted_n=4, first_token_ns=1_260_000_000, predicted_ns=49_000_000)

WON = replace(STATS, speedup=Speedup(3.1, measured=True, verdict="winning"))
DRAFTING = DraftingStatus(Source.MODEL, None)
UNSURE_REASON = "the draft model was never sure enough for p_min 0.5 for as many tokens as n_min 3"
DRAFTED = "(45% accepted, 1.2 tokens per step)"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (ended(WON, DRAFTING), f"{LINE}, 3.1× {DRAFTED}{TTFT}"),
        (ended(replace(STATS, speedup=Speedup(3.1)), DRAFTING), f"{LINE}, 3.1× (estimate) {DRAFTED}{TTFT}"),
        (ended(STATS, None, "fixed"), f"{LINE} {DRAFTED}{TTFT}"),
        (
            ended(STATS, DraftingStatus(Source.MODEL, NEVER_MEASURED), "fixed"),
            f"{LINE} {DRAFTED}{TTFT}; speedup unknown; measure this pair with tandem tune",
        ),
        (ended(UNDRAFTED, STATUS), f"{LINE}{TTFT}; draft model off: it cannot pay; n-gram drafting still runs"),
        (ended(UNDRAFTED, None, "fixed", DraftParams(n_max=0)), f"{LINE}{TTFT}; no draft: n_max is 0"),
        (ended(UNDRAFTED, None, "fixed", DraftParams(4, 3, 0.5)), f"{LINE}{TTFT}; no draft: {UNSURE_REASON}"),
        (
            replace(ended(UNDRAFTED, None, "fixed", DraftParams(4, 0, 0.5)), lost="llama.cpp refused the batch."),
            f"{LINE}{TTFT}; no draft: the draft model failed",
        ),
        (ended(SHORT, None, "off"), "4 tokens, 61 tok/s, first token after 1.3 s; no draft"),
        (
            ended(replace(SHORT, predicted_n=1, first_token_ns=48_000_000), None, "off"),
            "1 token, first token after 0.05 s; no draft",
        ),
        (replace(ended(GenerationStats(), None, "off"), reason=FinishReason.CANCELLED), "0 tokens; stopped"),
    ],
)
def test_the_line_shows_speed_drafting_and_wait(event: Finished, line: str) -> None:
    assert summary(event, PAIR) == line


def test_json_has_speed_with_and_without_draft_prefill() -> None:
    stats = replace(STATS, prompt_ns=1_000_000_000, draft_prompt_ns=500_000_000)
    timings = as_json(ended(stats, STATUS), PAIR, [])["timings"]

    assert tuple(timings) == TIMINGS
    assert (timings["prompt_ms"], timings["draft_prompt_ms"]) == (1500.0, 500.0)
    assert (timings["predicted_per_second"], timings["tokens_per_second"]) == (50.0, 40.0)


def test_a_repeated_answer_is_reported_without_a_speedup() -> None:
    event = replace(ended(STATS, STATUS), reason=FinishReason.REPETITION, repeats=4)

    line = summary(event, PAIR)

    assert line.endswith("first token after 0.2 s; stopped: the answer repeated itself 4 times (--stop-on-repeat off)")
    assert "×" not in line
    assert as_json(event, PAIR, [])["finish_reason"] == "repetition"
    assert as_json(event, PAIR, [])["speculation"]["speedup"] is None
