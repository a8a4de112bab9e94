"""The loop: the answer does not depend on the drafts, and both caches stay consistent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import ContextOverflowError
from app.engine.cache import TokenCache
from app.engine.fixed import NoDrafting
from app.engine.generator import Generator, Request, verify
from app.engine.interfaces import AnswerStart, Cancelled
from app.engine.types import Draft, DraftParams, FinishReason, Origin, Step
from tests.engine.generating import PROMPT, Bench, undrafted
from tests.fakes import END, FakeModel, FakeSampler, always, mixing, script


class TestLossless:
    @pytest.mark.parametrize("n_max", [0, 1, 2, 3, 7, 15])
    @pytest.mark.parametrize("draft_seed", [1, 2])
    def test_the_answer_does_not_depend_on_the_draft(self, n_max: int, draft_seed: int) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(draft_seed)), DraftParams(n_max, 0, 0.0))

        assert bench.run(max_tokens=50) == undrafted(mixing(1), max_tokens=50)

    @given(
        agree=st.lists(st.booleans(), min_size=40, max_size=40),
        n_max=st.integers(1, 8),
        n_min=st.integers(0, 3),
        max_tokens=st.integers(1, 30),
    )
    @settings(max_examples=60, deadline=None)
    def test_any_pattern_of_acceptance(self, agree: list[bool], n_max: int, n_min: int, max_tokens: int) -> None:
        target = mixing(3)

        def partly(sequence: Sequence[int]) -> dict[int, float]:
            (token,) = target(sequence)
            return {token if agree[len(sequence) % 40] else (token % 62) + 1: 1.0}

        bench = Bench(FakeModel(target), FakeModel(partly), DraftParams(n_max, min(n_min, n_max), 0.0))

        assert bench.run(max_tokens=max_tokens) == undrafted(target, max_tokens=max_tokens)
        assert bench.target.cells == list(bench.cache.tokens)
        assert bench.draft is not None
        assert bench.draft_cache is not None
        assert bench.draft.cells == list(bench.draft_cache.tokens)

    def test_a_seed_gives_the_same_text_with_and_without_drafts(self) -> None:
        def spread(sequence: Sequence[int]) -> dict[int, float]:
            (token,) = mixing(4)(sequence)
            return {token: 0.6, token % 62 + 1: 0.4}

        drafted = Bench(FakeModel(spread), FakeModel(mixing(4)), seed=7)

        assert drafted.run(max_tokens=60) == Bench(FakeModel(spread), seed=7).run(max_tokens=60)
        assert 0 < drafted.last.stats.draft_n_accepted < drafted.last.stats.draft_n

    def test_the_sampler_sees_exactly_the_emitted_tokens(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(2)))

        assert bench.run() == bench.sampler.emitted


class TestSteps:
    def test_a_model_accepts_all_of_its_own_drafts(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)), DraftParams(3, 0, 0.0))
        bench.run(max_tokens=9)

        assert [origin.value for _, origin in bench.emitted] == [
            *["target"],
            *["draft", "draft", "draft", "target"],
            *["draft", "draft", "draft", "target"],
        ]
        assert bench.last.stats.acceptance_rate == 1.0
        assert bench.last.stats.mean_accepted_length == 4.0
        assert bench.last.stats.accepted_by_position == [2, 2, 2]

    def test_the_draft_model_does_not_evaluate_the_verify_batch(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)), DraftParams(3, 0, 0.0))
        bench.run(max_tokens=9)

        assert bench.draft is not None
        prompt, *steps = bench.draft.batches
        # First step: the token from the prompt, then two of three drafted. Second: the last drafted token together with
        # the target's own, then two of three again.
        assert [len(batch) for batch in [prompt, *steps]] == [4, 1, 1, 1, 2, 1, 1]

    @pytest.mark.parametrize("draft_seed", [1, 2, 3])
    def test_the_caches_have_the_documented_lengths_after_every_step(self, draft_seed: int) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(draft_seed)), DraftParams(4, 0, 0.0))
        generator = bench.generator()
        n_before = len(PROMPT)
        assert bench.draft_cache is not None
        for event in generator.run(Request(PROMPT, lambda t: t == END, 30, lambda t, o: None)):
            if isinstance(event, Step):
                if event.stats.verify_steps:
                    assert len(bench.cache) == n_before + event.n_accepted
                    if len(event.draft):
                        kept = min(event.n_accepted, len(event.draft) - 1)
                        assert len(bench.draft_cache) == n_before + kept
                n_before += len(event.tokens)

    def test_an_unlikely_first_token_is_not_drafted(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(lambda _: {3: 0.5, 4: 0.3, 5: 0.2}), DraftParams(4, 0, 0.6))
        bench.run(max_tokens=5)

        assert bench.last.stats.draft_n == 0
        assert all(len(step.draft) == 0 for step in bench.steps)

    def test_drafting_stops_before_the_first_candidate_below_p_min(self) -> None:
        def fading(sequence: Sequence[int]) -> dict[int, float]:
            (token,) = mixing(1)(sequence)
            probability = 0.9 if (len(sequence) - len(PROMPT)) % 3 else 0.5
            return {token: probability, token % 62 + 1: 1 - probability}

        bench = Bench(FakeModel(mixing(1)), FakeModel(fading), DraftParams(8, 0, 0.6))
        bench.run(max_tokens=12)

        assert all(p >= 0.6 for step in bench.steps for p in step.draft.probabilities)
        assert {len(step.draft) for step in bench.steps[1:-1]} <= {0, 1, 2}

    def test_a_draft_shorter_than_n_min_is_not_submitted(self) -> None:
        def sure_twice(sequence: Sequence[int]) -> dict[int, float]:
            (token,) = mixing(1)(sequence)
            return {token: 1.0} if (len(sequence) - len(PROMPT)) % 3 else {token: 0.5, 1: 0.5}

        bench = Bench(FakeModel(mixing(1)), FakeModel(sure_twice), DraftParams(8, 3, 0.6))

        assert bench.run(max_tokens=12) == undrafted(mixing(1), max_tokens=12)
        assert bench.last.stats.draft_n == 0


class TestEnds:
    def test_an_end_token_ends_the_answer_and_is_counted(self) -> None:
        bench = Bench(FakeModel(script([9, 10, 11], len(PROMPT))))

        assert bench.run() == [9, 10, 11, END]
        assert bench.last.finish is FinishReason.STOP
        assert bench.last.stats.predicted_n == 4

    def test_nothing_is_drafted_or_emitted_after_an_end_token(self) -> None:
        rule = script([9, 10, 11], len(PROMPT))
        bench = Bench(FakeModel(rule), FakeModel(rule), DraftParams(8, 0, 0.0))

        assert bench.run() == [9, 10, 11, END]
        assert bench.steps[-1].draft.tokens == (10, 11, END)
        assert bench.steps[-1].tokens == (10, 11, END)

    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
    def test_an_answer_has_at_most_max_tokens(self, n: int) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)))

        assert len(bench.run(max_tokens=n)) == n
        assert bench.last.finish is FinishReason.LENGTH

    def test_the_observer_can_end_the_answer_within_a_draft(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)), DraftParams(6, 0, 0.0))
        whole = undrafted(mixing(1))
        stop_at = whole[3]

        text = bench.run(ends=lambda token, _: FinishReason.STOP if token == stop_at else None)

        assert text == whole[:4]
        assert bench.last.finish is FinishReason.STOP
        assert len(bench.cache) <= len(PROMPT) + 4

    def test_a_draft_fits_into_one_batch_with_the_token_before_it(self) -> None:
        bench = Bench(FakeModel(mixing(1), n_batch=4), FakeModel(mixing(1)), DraftParams(9, 0, 0.0))

        assert bench.run() == undrafted(mixing(1))
        (_, *steps) = bench.target.batches
        assert max(map(len, steps)) == 4

    @pytest.mark.parametrize(("max_tokens", "expected"), [(None, 12 - len(PROMPT)), (100, 12 - len(PROMPT)), (3, 2)])
    def test_a_strategy_gets_the_number_of_tokens_that_may_follow(self, max_tokens: int | None, expected: int) -> None:
        received: list[int] = []

        class Recording(NoDrafting):
            def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
                received.append(start.max_tokens)
                return super().begin(start, cancelled)

        model = FakeModel(mixing(1), n_ctx=12)
        generator = Generator(TokenCache(model), Recording(), FakeSampler(model))
        steps = [
            event
            for event in generator.run(Request(PROMPT, lambda _: False, max_tokens, lambda *_: None))
            if isinstance(event, Step)
        ]

        assert received == [expected]
        assert len(steps) == 1 + expected

    @pytest.mark.parametrize("with_draft", [True, False])
    def test_a_full_context_ends_the_answer_with_a_reason(self, with_draft: bool) -> None:
        draft = FakeModel(mixing(1), n_ctx=12) if with_draft else None
        bench = Bench(FakeModel(mixing(1), n_ctx=12), draft)

        text = bench.run(max_tokens=None)

        # Twelve cells: the prompt, and every token but the last, which is not evaluated.
        assert len(text) == 12 - len(PROMPT) + 1
        assert bench.last.finish is FinishReason.CONTEXT

    def test_a_shorter_draft_context_only_ends_drafting(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1), n_ctx=10))

        assert bench.run(max_tokens=30) == undrafted(mixing(1), max_tokens=30)
        assert all(len(step.draft) == 0 for step in bench.steps[4:])

    def test_a_prompt_longer_than_the_context_is_refused_before_any_work(self) -> None:
        bench = Bench(FakeModel(mixing(1), n_ctx=8))

        with pytest.raises(ContextOverflowError, match=r"9 tokens .* holds 8"):
            bench.run(prompt=range(1, 10))
        assert bench.target.batches == []


class TestStats:
    def test_native_time_and_overhead_add_up(self) -> None:
        bench = Bench(FakeModel(always(3)), FakeModel(always(3)), DraftParams(3, 0, 0.0))
        bench.run(max_tokens=9)
        stats = bench.last.stats

        # Two steps of three draft batches and one verify batch, a microsecond each in the fakes.
        assert stats.native_ns == 2 * 4 * 1000
        assert stats.overhead_ns == stats.predicted_ns - stats.native_ns > 0

    def test_a_snapshot_does_not_change_later(self) -> None:
        bench = Bench(FakeModel(always(3)), FakeModel(always(3)), DraftParams(3, 0, 0.0))
        bench.run(max_tokens=9)

        assert [step.stats.predicted_n for step in bench.steps] == [1, 5, 9]
        assert [step.stats.accepted_by_position for step in bench.steps] == [[], [1, 1, 1], [2, 2, 2]]


def test_every_accepted_token_names_the_source_that_drafted_it() -> None:
    found: list[tuple[int, Origin]] = []

    def observe(token: int, origin: Origin) -> FinishReason | None:
        found.append((token, origin))
        return None

    draft = Draft((1, 2, 3), (0.9, 0.9, 0.9), n_model=1)
    assert verify(draft, [1, 2, 9, 9].__getitem__, observe) == ((1, 2, 9), 2, None)
    assert found == [(1, Origin.DRAFT), (2, Origin.NGRAM), (9, Origin.TARGET)]
