"""Both caches after earlier prompts, cancels and failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.core.errors import DecodeError
from app.engine.generator import Request
from app.engine.types import (
    DraftLost,
    DraftParams,
    FinishReason,
    GenerationEvent,
    PromptProgress,
)
from tests.engine.generating import PROMPT, Bench, undrafted
from tests.fakes import END, INTERRUPTED, FakeModel, mixing


class TestPromptReuse:
    def test_the_next_turn_evaluates_only_new_tokens(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)))
        text = bench.run(max_tokens=9)
        assert bench.draft is not None
        for model in (bench.target, bench.draft):
            model.batches.clear()

        bench.run(prompt=[*PROMPT, *text, 20, 21], max_tokens=1)

        # The last token of the answer was not evaluated, because nothing followed it.
        assert bench.last.stats.cache_n == len(PROMPT) + len(text) - 1
        assert bench.target.batches == [(text[-1], 20, 21)]

    def test_an_edit_rolls_both_caches_back_to_the_common_prefix(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)))
        bench.run(max_tokens=9)
        assert bench.draft is not None
        bench.draft.batches.clear()

        edited = [5, 6, 30, 31]
        assert bench.run(prompt=edited, max_tokens=9) == undrafted(mixing(1), prompt=edited, max_tokens=9)
        assert bench.last.stats.cache_n == 2
        assert bench.draft.batches[0][:2] == (30, 31)

    @pytest.mark.parametrize("n_left_out", [1, 5, 16, 17, 60])
    def test_a_recurrent_target_reuses_the_state_before_the_reasoning(self, n_left_out: int) -> None:
        prompt = list(range(1, 61))
        target = FakeModel(mixing(1))
        target.can_truncate = False
        bench = Bench(target)
        text = bench.run(prompt)
        kept = prompt[:-n_left_out]
        turn = [*kept, *text[-3:], 7, 8, 9]

        assert bench.run(turn) == undrafted(mixing(1), prompt=turn)
        # The state was kept sixteen tokens before the end of the prompt.
        assert bench.last.stats.cache_n == (44 if n_left_out <= 16 else 0)

        # The second prompt keeps its state, too.
        again = [*turn[:-1], 10]
        assert bench.run(again) == undrafted(mixing(1), prompt=again)
        assert bench.last.stats.cache_n == (max(44, len(turn) - 16) if n_left_out <= 16 else max(0, len(turn) - 16))

    @pytest.mark.parametrize("seed", [1, 2])
    def test_drafts_are_as_long_as_a_target_can_roll_back(self, seed: int) -> None:
        target = FakeModel(mixing(1))
        target.can_truncate, target.n_snapshots = False, 3
        bench = Bench(target, FakeModel(mixing(seed)), DraftParams(8, 0, 0.0))

        text = bench.run()
        assert text == undrafted(mixing(1))
        assert max(len(step.draft) for step in bench.steps) == 3
        # Only the prompt, the last tokens and the drafts were evaluated, each once.
        assert sum(map(len, target.batches)) == 4 + sum(1 + len(step.draft) for step in bench.steps[1:])

        bench.run(prompt=[*PROMPT, *text, 20, 21], max_tokens=1)
        assert bench.last.stats.cache_n == len(PROMPT) + len(text) - 1


class TestProgressAndCancel:
    def test_long_prompts_are_processed_in_chunks_with_progress(self) -> None:
        target, draft = FakeModel(mixing(1), n_batch=64), FakeModel(mixing(1), n_batch=64)
        target.n_chunk = draft.n_chunk = 16
        target.decode_ns = draft.decode_ns = 3_000_000_000
        bench = Bench(target, draft)
        bench.run(prompt=list(range(1, 41)), max_tokens=2)

        progress = [(e.drafting, e.done, e.total) for e in bench.events if isinstance(e, PromptProgress)]
        assert progress == [
            (False, 0, 40),
            (False, 16, 40),
            (False, 32, 40),
            (False, 40, 40),
            (True, 0, 41),
            (True, 16, 41),
            (True, 32, 41),
            (True, 40, 41),
        ]

    def test_fast_chunks_become_longer(self) -> None:
        target = FakeModel(mixing(1), n_batch=64)
        target.n_chunk = 16
        Bench(target).run(prompt=list(range(1, 201)), max_tokens=1)

        assert [len(batch) for batch in target.batches] == [16, 32, 64, 64, 24]

    def test_a_cancel_between_chunks_keeps_the_evaluated_tokens(self) -> None:
        bench = Bench(FakeModel(mixing(1), n_batch=16))
        answers = iter([False, False, True])

        assert bench.run(prompt=list(range(1, 41)), cancelled=lambda: next(answers)) == []
        assert bench.last.finish is FinishReason.CANCELLED
        assert len(bench.cache) == 32

        bench.run(prompt=list(range(1, 41)), max_tokens=1)
        assert bench.last.stats.cache_n == 32

    def test_after_a_cancel_inside_a_chunk_the_model_counts_the_tokens(self) -> None:
        target = FakeModel(mixing(1), n_batch=16)
        target.fail_at, target.fail_with = 2, INTERRUPTED
        bench = Bench(target)

        bench.run(prompt=list(range(1, 41)))

        assert bench.last.finish is FinishReason.CANCELLED
        assert list(bench.cache.tokens) == target.cells == list(range(1, 25))

    def test_a_cancel_keeps_the_text_so_far(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)), DraftParams(3, 0, 0.0))
        text: list[int] = []

        text = bench.run(cancelled=lambda: len(bench.emitted) >= 5)

        assert text == undrafted(mixing(1))[:5]
        assert bench.last.finish is FinishReason.CANCELLED

    def test_an_abandoned_answer_leaves_both_caches_consistent(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(2)))
        run: Iterator[GenerationEvent] = bench.generator().run(
            Request(PROMPT, lambda t: t == END, None, lambda t, o: None)
        )
        for _ in range(8):
            next(run)
        del run

        assert bench.draft is not None
        assert bench.draft_cache is not None
        assert bench.target.cells == list(bench.cache.tokens)
        assert bench.draft.cells == list(bench.draft_cache.tokens)
        assert bench.run() == undrafted(mixing(1))


class TestFailures:
    @pytest.mark.parametrize("fail_at", [1, 2, 3, 6])
    def test_a_failing_draft_model_does_not_end_the_answer(self, fail_at: int) -> None:
        draft = FakeModel(mixing(1))
        draft.fail_at = fail_at
        bench = Bench(FakeModel(mixing(1)), draft)

        assert bench.run() == undrafted(mixing(1))
        assert [e.reason for e in bench.events if isinstance(e, DraftLost)] == ["The fake failed."]
        assert bench.draft_cache is not None
        assert draft.cells == list(bench.draft_cache.tokens)

    def test_a_failing_target_is_an_error_and_leaves_its_cache_consistent(self) -> None:
        target = FakeModel(mixing(1))
        target.fail_at = 4
        bench = Bench(target, FakeModel(mixing(1)))

        with pytest.raises(DecodeError, match="The fake failed"):
            bench.run()
        assert target.cells == list(bench.cache.tokens)

    def test_a_draft_with_broken_weights_is_dropped(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(lambda _: {1: float("nan")}))

        assert bench.run() == undrafted(mixing(1))
        assert any(isinstance(e, DraftLost) for e in bench.events)
