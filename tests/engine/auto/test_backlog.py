"""When a long text is read by the draft model."""

from __future__ import annotations

import pytest

from app.compare.replay import PlayedDraft
from app.engine.auto.backlog import Backlog
from app.engine.interfaces import AnswerStart
from app.engine.types import NO_DRAFT, Draft, StepResult
from tests.bench.policies import memory_for
from tests.replays import curves, traces


def waiting() -> Backlog:
    """Behind a prompt whose reading takes a hundred plain steps, of which ten plain tokens are waited for."""
    curve = curves()["cpu_bf16"]
    memory = memory_for(curve)
    memory.gain = 1.0
    prompt = [5] * 1000
    memory.costs.profile.draft_prompt_ns = 0.1 * memory.costs.target_ns(1, len(prompt))
    backlog = Backlog(memory, PlayedDraft(traces()[0], curve.draft, lambda cost: None, 1.0), lambda: 0)
    backlog.begin(AnswerStart([*prompt, 6], 256), patient=True)
    assert backlog.is_put_off
    return backlog


@pytest.mark.parametrize(("n_plain", "hit", "expected"), [(4, 2, True), (4, 8, False), (1, 20, False)])
def test_short_hits_of_a_look_up_put_reading_off_and_long_ones_leave_it_out(
    n_plain: int, hit: int, expected: bool
) -> None:
    backlog, n_past = waiting(), 1000
    for _ in range(8):
        for n_accepted in (*[0] * n_plain, hit):
            draft = Draft((7,) * n_accepted, (0.9,) * n_accepted, 0, (0.9,) * n_accepted) if n_accepted else NO_DRAFT
            backlog.observe(StepResult(n_past, draft, (7,) * (n_accepted + 1), n_accepted, 10, 0), used_model=False)
            n_past += n_accepted + 1
    assert backlog.is_due is expected
