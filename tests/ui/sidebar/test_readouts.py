"""The numbers beside the conversation, without a screen."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.conversations.message import Role
from app.conversations.tree import Node
from app.engine.drafting_report import Speedup
from app.engine.events import PromptProgress, Step
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus
from app.models.pair_info import DeviceMemory
from app.session.state import DraftState
from app.ui.sidebar.panel import stored_groups
from app.ui.sidebar.readouts import Readouts, RecentRates
from app.ui.text import NONE
from app.worker.events import LoadProgress, Measuring
from tests.fake_engine import GAINING, PAIR, STATS
from tests.ui.sidebar.driver import SECOND, brief, counted, shown


def test_a_burst_is_no_speed() -> None:
    recent = RecentRates()
    recent.observe(counted(0.01, 9, 1))
    assert recent.speed is None
    assert list(recent.rates) == []


def test_the_speed_is_that_of_the_last_two_seconds() -> None:
    recent = RecentRates()
    for tenth in range(1, 101):
        # Ten tokens in a second until the fifth, then forty, in bursts of four.
        tokens = tenth if tenth <= 50 else 50 + 4 * (tenth - 50)
        recent.observe(counted(tenth / 10, tokens, tenth))
    assert recent.speed == pytest.approx(40)
    assert recent.rates[0] == pytest.approx(10)
    assert recent.rates[-1] == pytest.approx(40)
    assert max(recent.rates) == pytest.approx(40)


def test_recent_acceptance() -> None:
    recent = RecentRates()
    recent.observe(counted(10, 100, 50, drafted=200, accepted=50))
    recent.observe(counted(13, 190, 70, drafted=300, accepted=130))
    assert recent.acceptance == pytest.approx(0.8)


def test_everything_measured_is_shown() -> None:
    readouts = Readouts()
    readouts.will_draft(DraftState(is_on=True, is_available=True, mode="automatic"))
    readouts.ready(PAIR.n_ctx)
    readouts.begin()
    stats = replace(GAINING, drafted_steps=50, draft_n_model=440, first_token_ns=210_000_000, prompt_ns=SECOND)
    drafting = DraftingStatus(Source.MODEL, "the draft model is right 82% of the time it goes on")
    readouts.follow(Step(1, (), stats, drafting))
    text = shown(readouts)
    for line in (
        "drafting    automatic",
        "no draft        34 tok/s",
        "speedup       3.1×",
        "now         draft model\n",
        "acceptance     78% ━",
        "tokens/step    5.9",
        "draft length  10.0 tokens",
        "drafted by  88% draft model",
        "            12% n-gram",
        "context       2.1k / 32k",
        "first token   0.21 s",
        "prefill      1,700 tok/s",
        "target        19.9 GB Q4_K_M",
        "draft          0.5 GB Q8_0",
        "device      CPU",
    ):
        assert line in text
    assert all(len(line) <= 30 for line in text.splitlines())


def test_how_fast_a_prompt_is_read_is_the_targets_own() -> None:
    stats = replace(STATS, first_token_ns=SECOND, prompt_ns=SECOND, draft_prompt_ns=3 * SECOND)
    readouts = Readouts()
    readouts.follow(Step(1, (), stats))
    assert "prefill      1,700 tok/s" in shown(readouts)

    # A continued answer: the target has read everything except a token, its draft nothing.
    readouts.follow(Step(1, (), replace(stats, cache_n=1699, prompt_n=1)))
    assert f"prefill          {NONE}" in shown(readouts).splitlines()


def test_the_speed_of_the_answer_is_above_the_recent_speed() -> None:
    readouts = Readouts()
    for stats in (counted(10, 100, 50), counted(13, 190, 70)):
        readouts.follow(Step(1, (), stats))
    assert [line[:24].rstrip() for line in shown(readouts).splitlines() if "tok/s" in line][:2] == [
        "speed           15 tok/s",
        "recent          30 tok/s",
    ]
    assert "speed           15 tok/s ▃█" in brief(readouts)


def test_memory_is_shown_for_each_device_if_estimated() -> None:
    readouts = Readouts()
    readouts.ready(PAIR.n_ctx)
    counted = (DeviceMemory("CUDA0", 21 << 30), DeviceMemory("cpu", 400 << 20))
    text = shown(readouts, pair=replace(PAIR, memory=counted))

    assert "memory          21 GB CUDA0" in text
    assert "               0.4 GB RAM" in text
    assert "memory" not in shown(readouts)


def test_unmeasured_numbers_are_dashes() -> None:
    readouts = Readouts()
    readouts.will_draft(DraftState(is_on=False, is_available=False, mode="no draft"))
    readouts.ready(PAIR.n_ctx)
    readouts.follow(Step(1, (), GenerationStats(predicted_n=1, first_token_ns=SECOND)))
    text = shown(readouts)
    values = {line[:12].strip(): line[12:].strip() for line in text.splitlines()}
    for name in ("speed", "no draft", "speedup", "acceptance", "recent", "tokens/step", "drafted by", "prefill"):
        assert values[name].startswith(NONE), name
    assert "first token   1.00 s" in text


@pytest.mark.parametrize("forget", [Readouts.reading_models, lambda readouts: readouts.ready(8192)])
def test_the_numbers_of_another_pair_or_place_are_not_kept(forget: Callable[[Readouts], None]) -> None:
    readouts = Readouts()
    readouts.ready(PAIR.n_ctx)
    readouts.follow(Step(1, (), GAINING, DraftingStatus(Source.MODEL, "it is right")))
    assert "78%" in shown(readouts)

    forget(readouts)

    assert (readouts.numbers, readouts.used, list(readouts.recent.rates)) == (None, 0, [])
    assert not {"78%", "107 tok/s", "3.1×"} & set(shown(readouts).split())


def test_the_numbers_of_the_last_answer_are_labeled_during_prefill() -> None:
    readouts = Readouts()
    readouts.ready(PAIR.n_ctx)
    stats = replace(STATS, first_token_ns=210_000_000, prompt_ns=SECOND)
    readouts.measured(stats, DraftingStatus(Source.MODEL, "it is right"), live=False)
    assert "last answer" not in shown(readouts)
    assert "0.21 s" in shown(readouts)

    readouts.begin()
    readouts.follow(PromptProgress(2, False, 1024, 4096))
    whose, speed = (line for line in shown(readouts).splitlines() if "answer" in line or "speed " in line)
    assert (whose, speed) == ("last answer", "speed          107 tok/s")
    assert f"first token      {NONE}" in shown(readouts).splitlines()

    readouts.follow(Step(2, (), stats))
    assert "last answer" not in shown(readouts)


def test_an_answer_that_fails_before_its_first_token_leaves_the_numbers_the_last_ones() -> None:
    readouts = Readouts()
    readouts.ready(PAIR.n_ctx)
    readouts.measured(STATS, None, live=False)
    readouts.begin()
    readouts.rest("ready")
    assert "last answer" in shown(readouts)

    readouts.begin()
    readouts.follow(Step(3, (), STATS))
    readouts.rest("ready")
    assert "last answer" not in shown(readouts)


def test_context_usage_is_unknown_before_tokens_are_counted() -> None:
    readouts = Readouts()
    readouts.ready(PAIR.n_ctx)
    assert "     0 / 32k" in shown(readouts)
    readouts.ready(PAIR.n_ctx, None)
    assert "     \N{EN DASH} / 32k" in shown(readouts)
    assert "0 / 32k" not in shown(readouts)


def test_long_activities_show_their_progress() -> None:
    readouts = Readouts()
    readouts.follow(LoadProgress(0.5))
    assert "loading models 50%\n" + "━" * 30 in shown(readouts)
    readouts.follow(PromptProgress(1, True, 1024, 4096, 8.0))
    assert "draft reading prompt: 1,024 of 4,096 tokens, 8 s left" in shown(readouts)
    assert readouts.share == 0.25


def test_a_measurement_gives_its_reason_and_then_shows_the_last_numbers_again() -> None:
    readouts = Readouts()
    readouts.measured(STATS, None, live=False)
    readouts.follow(Measuring(1, 0.1, "other programs were busy the first time"))
    assert readouts.doing == "measuring again: 10% (other programs were busy the first time)"
    readouts.follow(Measuring(1, 0.5, left_s=2.2))
    assert readouts.doing == "measuring once what drafts cost here: 50%, 3 s left"
    readouts.end_measuring()
    assert readouts.doing is None
    readouts.begin()
    readouts.end_measuring()
    assert readouts.doing == "reading prompt"


def test_a_short_wait_is_not_shown() -> None:
    event = PromptProgress(1, False, 0, 40, 0.4)
    now = [10.0]
    readouts = Readouts(lambda: now[0])
    readouts.begin()
    readouts.follow(event)
    assert (readouts.doing, readouts.long_activity) == ("reading prompt", None)
    now[0] = 11.0
    readouts.follow(event)
    assert readouts.doing == readouts.long_activity != "reading prompt"
    readouts.follow(Step(1, (), STATS))
    assert (readouts.doing, readouts.long_activity) == (None, None)


def test_names_in_model_files_send_no_control_sequences() -> None:
    text = "".join(
        line.plain
        for group in stored_groups(
            Node(1, None, Role.ASSISTANT, "", stats={"target": "\x1b[2Ja\x07", "draft": "b\x9b31m"}), 30, is_last=True
        )
        for line in group
    )
    assert "a" in text
    assert not {"\x1b", "\x07", "\x9b"} & set(text)


def test_a_stored_answer_shows_its_context() -> None:
    stats = {"cache_n": 10, "prompt_n": 20, "predicted_n": 30}
    groups = stored_groups(Node(1, None, Role.ASSISTANT, "", stats=stats), 30, is_last=True)
    lines = [line for group in groups for line in group]
    at = [line.plain for line in lines].index("context         60")
    assert {span.style for span in lines[at + 1].spans if len(span)} == {"$quiet", "$rule"}


@pytest.mark.parametrize("detailed", [False, True])
def test_every_row_keeps_its_place(detailed: bool) -> None:
    readouts = Readouts()
    rows = shown if detailed else lambda readouts: "\n".join(brief(readouts))

    first = [line[:6] for line in rows(readouts).splitlines()]
    readouts.will_draft(DraftState(is_on=True, is_available=True, mode="automatic"))
    readouts.ready(PAIR.n_ctx)
    readouts.begin()
    readouts.follow(PromptProgress(2, False, 1024, 4096))
    waiting = [line[:6] for line in rows(readouts).splitlines()]
    readouts.follow(Step(1, (), GAINING, DraftingStatus(Source.MODEL, None)))
    assert [line[:6] for line in rows(readouts).splitlines()] == first
    assert waiting[: len(first)] == first


def test_the_brief_panel_has_six_numbers() -> None:
    readouts = Readouts()
    readouts.will_draft(DraftState(is_on=True, is_available=True, mode="automatic"))
    readouts.ready(PAIR.n_ctx)
    readouts.begin()
    stats = replace(GAINING, first_token_ns=210_000_000)
    readouts.follow(Step(1, (), stats, DraftingStatus(Source.MODEL, "82% accepted")))
    lines = brief(readouts)
    assert [line.split()[0] for line in lines] == [
        *("drafting", "now", "82%", "this", "speed", "speedup", "acceptance", "tokens/step", "drafted", "context"),
        *("first", "f5"),
    ]
    assert lines[2] == "82% accepted"


def test_drafting_that_is_off_shows_why() -> None:
    readouts = Readouts()
    stats = replace(STATS, speedup=Speedup(1.01, measured=True))
    readouts.follow(Step(1, (), stats, DraftingStatus("off", "paused: system is busy")))
    assert "speedup       none" in shown(readouts).splitlines()
    assert "now         paused\nsystem is busy\n" in shown(readouts)


def test_a_fixed_draft_length_is_named() -> None:
    readouts = Readouts()
    readouts.will_draft(DraftState(is_on=True, is_available=True, mode="fixed", n_max=7))
    readouts.follow(Step(1, (), replace(STATS, drafted_steps=100)))
    assert "n_max            7" in shown(readouts)
    assert "draft length   5.0 tokens" in shown(readouts)
