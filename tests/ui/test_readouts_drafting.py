"""What the numbers beside the conversation say of drafting: why it is off, who switched it, and for which answer."""

from __future__ import annotations

from dataclasses import replace

from app.engine.strategies.fixed import NEVER_MEASURED
from app.engine.types import MODEL_OFF, DraftingStatus
from app.events import (
    StepCompleted,
)
from app.ui.readouts.state import Readouts
from tests.ui.fakes import STATS
from tests.ui.readouts_driver import SECOND, shown

SWITCHED_OFF = "off: you switched it off"
LOOKS_UP = DraftingStatus("off", f"{MODEL_OFF}it is slow; look-up still runs", "winning", 1.2)


def test_drafting_that_is_off_says_why() -> None:
    readouts = Readouts()
    drafting = DraftingStatus("off", "drafts cost more than they brought lately", "break-even", 1.01)
    readouts.follow(StepCompleted(1, (), STATS, drafting))
    assert "verdict     1.0x break-even" in shown(readouts)
    assert "off: drafts cost more than\nthey brought lately" in shown(readouts)


def test_a_draft_model_that_is_off_does_not_speak_for_the_look_up() -> None:
    readouts = Readouts()
    readouts.follow(StepCompleted(1, (), STATS, DraftingStatus("off", f"{MODEL_OFF}it is slow; look-up still runs")))
    assert "draft model off: it is slow;\nlook-up still runs" in shown(readouts)
    assert "off: draft model" not in shown(readouts)


def test_drafting_that_was_switched_off_in_the_answer_is_the_reason_from_then_on() -> None:
    readouts = Readouts()
    readouts.source("automatic", drafting=True)
    readouts.begin()
    readouts.follow(StepCompleted(1, (), STATS, LOOKS_UP))
    assert "look-up still runs" in shown(readouts)

    readouts.source("draft off", drafting=False)
    assert SWITCHED_OFF in shown(readouts)
    # A round that was on its way still has the old status.
    readouts.follow(StepCompleted(1, (), STATS, LOOKS_UP))
    readouts.follow(StepCompleted(1, (), STATS))
    assert SWITCHED_OFF in shown(readouts)
    assert "look-up still runs" not in shown(readouts)

    readouts.source("automatic", drafting=True)
    readouts.follow(StepCompleted(1, (), STATS, LOOKS_UP))
    assert SWITCHED_OFF not in shown(readouts)


def test_what_was_measured_of_an_answer_stays_when_drafting_is_switched_off_in_it() -> None:
    readouts = Readouts()
    readouts.source("automatic", drafting=True)
    readouts.begin()
    readouts.follow(StepCompleted(1, (), STATS, LOOKS_UP))
    readouts.source("draft off", drafting=False)
    for live in (True, False):
        readouts.measured(STATS, LOOKS_UP.switched_off, live=live)
        assert "verdict     1.2x winning" in shown(readouts)
        assert "plain       88.9 t/s" in shown(readouts)
        assert SWITCHED_OFF in shown(readouts)


def test_a_switch_between_two_answers_is_told_apart_from_what_was_measured() -> None:
    readouts = Readouts()
    readouts.source("automatic", drafting=True)
    readouts.begin()
    readouts.measured(STATS, LOOKS_UP, live=True)
    readouts.measured(STATS, LOOKS_UP, live=False)
    readouts.source("draft off", drafting=False)
    assert f"{SWITCHED_OFF}; the\nnumbers are the last answer's" in shown(readouts)
    assert "look-up still runs" not in shown(readouts)
    readouts.source("automatic", drafting=True)
    assert "look-up still runs" in shown(readouts), "it is as it was"
    readouts.source("model", drafting=True, n_max=7)
    assert "model from the next answer on;\nthe numbers are the last\nanswer's" in shown(readouts)
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
    assert f"{SWITCHED_OFF}; the" not in shown(readouts)
    readouts.source("automatic", drafting=True)
    assert SWITCHED_OFF not in shown(readouts)
    assert "automatic from the next answer\non; the numbers are the last\nanswer's" in shown(readouts)


def test_a_fixed_length_is_named_with_what_drafts_next() -> None:
    readouts = Readouts()
    readouts.source("model", drafting=True, n_max=7)
    readouts.follow(StepCompleted(1, (), replace(STATS, drafted_steps=100)))
    assert "drafting  model, up to 7" in shown(readouts)
    assert "per draft    5.0 tokens" in shown(readouts)


def test_the_length_of_drafts_means_the_same_before_and_after_the_end() -> None:
    readouts = Readouts()
    short = replace(STATS, draft_n=40, drafted_steps=10, verify_steps=10, predicted_n=30, predicted_ns=SECOND)
    long = replace(STATS, draft_n=400, drafted_steps=40, verify_steps=40, predicted_n=300, predicted_ns=5 * SECOND)
    for stats, live in ((short, True), (long, True), (long, False)):
        readouts.measured(stats, None, live=live)
        mean = stats.draft_n / stats.drafted_steps
        assert f"per draft {mean:>6.1f} tokens" in shown(readouts)


def test_of_two_drafters_neither_is_said_to_have_written_all_or_nothing() -> None:
    readouts = Readouts()
    stats = replace(STATS, draft_n=1000, draft_n_accepted=700, draft_n_model=998)
    readouts.follow(StepCompleted(1, (), stats, None))
    assert [line.split() for line in shown(readouts).split("\n") if "model" in line or "look-up" in line] == [
        ["drafter", ">99%", "model"],
        ["<1%", "look-up"],
    ]


def test_fixed_drafting_says_what_it_gains_without_a_reason() -> None:
    readouts = Readouts()
    readouts.source("model", drafting=True, n_max=7)
    readouts.begin()
    readouts.follow(StepCompleted(1, (), STATS, DraftingStatus("model", "", "losing", 0.8)))
    assert "verdict     0.8x losing" in shown(readouts)
    assert "model:" not in shown(readouts)


def test_fixed_drafting_with_a_pair_that_nobody_measured_says_why_it_knows_no_gain() -> None:
    readouts = Readouts()
    readouts.source("model", drafting=True, n_max=7)
    readouts.begin()
    readouts.follow(StepCompleted(1, (), STATS, DraftingStatus("model", NEVER_MEASURED)))
    assert "model: what it gains is not\nknown: this pair was never\nmeasured" in shown(readouts)
    assert "verdict" not in shown(readouts)
