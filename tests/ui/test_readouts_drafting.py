"""What the numbers beside the conversation say of drafting: why it is off, who switched it, and for which answer."""

from __future__ import annotations

from dataclasses import replace

from app.engine.fixed import NEVER_MEASURED
from app.engine.types import MODEL_OFF, DraftingStatus
from app.ui.sidebar.readouts import Readouts
from app.worker.events import Step
from tests.ui.fakes import STATS
from tests.ui.readouts_driver import SECOND, shown

SWITCHED_OFF = "off: you switched it off"
LOOKS_UP = DraftingStatus("off", f"{MODEL_OFF}it is slow; look-up still runs", "winning", 1.2, measured=True)


def test_drafting_that_is_off_says_why() -> None:
    readouts = Readouts()
    drafting = DraftingStatus("off", "paused: system is busy", "break-even", 1.01, measured=True)
    readouts.follow(Step(1, (), STATS, drafting))
    assert "speedup     no speedup" in shown(readouts)
    assert "off: paused: system is busy\n" in shown(readouts)


def test_a_draft_model_that_is_off_does_not_speak_for_the_look_up() -> None:
    readouts = Readouts()
    readouts.follow(Step(1, (), STATS, DraftingStatus("off", f"{MODEL_OFF}it is slow; look-up still runs")))
    assert "\ndraft model off\n" in shown(readouts)


def test_drafting_that_was_switched_off_in_the_answer_is_the_reason_from_then_on() -> None:
    readouts = Readouts()
    readouts.source("automatic", drafting=True)
    readouts.begin()
    readouts.follow(Step(1, (), STATS, LOOKS_UP))
    assert "draft model off" in shown(readouts)

    readouts.source("draft off", drafting=False)
    assert SWITCHED_OFF in shown(readouts)
    # A round that was on its way still has the old status.
    readouts.follow(Step(1, (), STATS, LOOKS_UP))
    readouts.follow(Step(1, (), STATS))
    assert SWITCHED_OFF in shown(readouts)
    assert "draft model off" not in shown(readouts)

    readouts.source("automatic", drafting=True)
    readouts.follow(Step(1, (), STATS, LOOKS_UP))
    assert SWITCHED_OFF not in shown(readouts)


def test_what_was_measured_of_an_answer_stays_when_drafting_is_switched_off_in_it() -> None:
    readouts = Readouts()
    readouts.source("automatic", drafting=True)
    readouts.begin()
    readouts.follow(Step(1, (), STATS, LOOKS_UP))
    readouts.source("draft off", drafting=False)
    for live in (True, False):
        readouts.measured(STATS, LOOKS_UP.switched_off, live=live)
        assert "speedup       1.2×" in shown(readouts)
        assert "no draft        89 tok/s" in shown(readouts)
        assert SWITCHED_OFF in shown(readouts)


def test_a_switch_between_two_answers_is_told_apart_from_what_was_measured() -> None:
    readouts = Readouts()
    readouts.source("automatic", drafting=True)
    readouts.begin()
    readouts.measured(STATS, LOOKS_UP, live=True)
    readouts.measured(STATS, LOOKS_UP, live=False)
    readouts.source("draft off", drafting=False)
    assert SWITCHED_OFF in shown(readouts)
    assert "draft model off" not in shown(readouts)
    readouts.source("automatic", drafting=True)
    assert "draft model off" in shown(readouts), "it is as it was"
    readouts.source("model", drafting=True, n_max=7)
    assert "model from next answer" in shown(readouts)
    readouts.source("draft off", drafting=False)

    readouts.begin()
    readouts.measured(replace(STATS, draft_n=0), None, live=True)
    assert SWITCHED_OFF not in shown(readouts), "it was never on"


def test_drafting_that_comes_back_after_an_answer_is_for_the_next_one() -> None:
    readouts = Readouts()
    readouts.source("automatic", drafting=True)
    readouts.begin()
    readouts.measured(STATS, LOOKS_UP, live=True)
    readouts.source("draft off", drafting=False)
    readouts.measured(STATS, None, live=False)
    assert SWITCHED_OFF in shown(readouts)
    readouts.source("automatic", drafting=True)
    assert SWITCHED_OFF not in shown(readouts)
    assert "automatic from next answer" in shown(readouts)


def test_a_fixed_length_is_named_with_what_drafts_next() -> None:
    readouts = Readouts()
    readouts.source("model", drafting=True, n_max=7)
    readouts.follow(Step(1, (), replace(STATS, drafted_steps=100)))
    assert "drafting    model, up to 7" in shown(readouts)
    assert "draft length   5.0 tokens" in shown(readouts)


def test_the_length_of_drafts_means_the_same_before_and_after_the_end() -> None:
    readouts = Readouts()
    short = replace(STATS, draft_n=40, drafted_steps=10, verify_steps=10, predicted_n=30, predicted_ns=SECOND)
    long = replace(STATS, draft_n=400, drafted_steps=40, verify_steps=40, predicted_n=300, predicted_ns=5 * SECOND)
    for stats, live in ((short, True), (long, True), (long, False)):
        readouts.measured(stats, None, live=live)
        mean = stats.draft_n / stats.drafted_steps
        assert f"draft length{mean:>6.1f} tokens" in shown(readouts)


def test_of_two_drafters_neither_is_said_to_have_written_all_or_nothing() -> None:
    readouts = Readouts()
    stats = replace(STATS, draft_n=1000, draft_n_accepted=700, draft_n_model=998)
    readouts.follow(Step(1, (), stats, None))
    assert [line.split() for line in shown(readouts).split("\n") if "%" in line and "━" not in line] == [
        ["source", ">99%", "draft", "model"],
        ["<1%", "n-gram"],
    ]


def test_fixed_drafting_says_what_it_gains_without_a_reason() -> None:
    readouts = Readouts()
    readouts.source("model", drafting=True, n_max=7)
    readouts.begin()
    readouts.follow(Step(1, (), STATS, DraftingStatus("model", "", "losing", 0.8, measured=True)))
    assert "speedup       0.8×" in shown(readouts)
    assert "\ndraft model" not in shown(readouts)


def test_fixed_drafting_with_a_pair_that_nobody_measured_says_why_it_knows_no_gain() -> None:
    readouts = Readouts()
    readouts.source("model", drafting=True, n_max=7)
    readouts.begin()
    readouts.follow(Step(1, (), STATS, DraftingStatus("model", NEVER_MEASURED)))
    assert "what it gains is not known" in shown(readouts)
    assert "speedup" not in shown(readouts)
