"""The decision whether the draft model reads a long text."""

from __future__ import annotations

import pytest

from app.engine.auto.backlog import Backlog
from app.engine.interfaces import AnswerStart, StepResult
from app.engine.types import NO_DRAFT
from tests.bench.policies import measured
from tests.recordings import curves, traces
from tests.replay import RecordedDraft


def backlog_of(n_prompt: int, *, gain: float, n_undrafted: int = 0) -> Backlog:
    """Return the backlog of a prompt; the draft model reads ten tokens in the time of a single token."""
    curve = curves()["cpu_bf16"]
    statistics = measured(curve)
    prompt = [5] * n_prompt
    statistics.gain, statistics.n_undrafted, statistics.last_prompt = gain, n_undrafted, prompt
    statistics.costs.profile.draft_prompt_ns = 0.1 * statistics.costs.target_ns(1, n_prompt)
    backlog = Backlog(statistics, RecordedDraft(traces()[0], curve.draft, lambda cost: None, 1.0), lambda: 0)
    backlog.begin(AnswerStart([*prompt, 6], 256))
    return backlog


@pytest.mark.parametrize(
    ("n_prompt", "gain", "expected"), [(800, 0.9, True), (1000, 0.5, False), (20, 0.0, True), (1000, -0.2, False)]
)
def test_a_prompt_is_read_if_drafts_are_likely_to_save_more(n_prompt: int, gain: float, expected: bool) -> None:
    assert backlog_of(n_prompt, gain=gain).is_worth_reading is expected


def test_several_answers_about_one_text_make_it_worth_reading() -> None:
    assert backlog_of(1000, gain=0.5, n_undrafted=600).is_worth_reading


def test_tokens_generated_without_the_draft_model_become_unread_text() -> None:
    backlog = backlog_of(20, gain=0.5)
    backlog.unread = 0
    for n in range(40):
        backlog.observe(StepResult(20 + n, NO_DRAFT, (7,), 0, 10, 0), used_model=False)

    assert backlog.unread > 0
