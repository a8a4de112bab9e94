"""The loop: the answer does not depend on the drafts, and both caches stay consistent after prompts and failures."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import ContextOverflowError, DecodeError
from app.engine.cache import TokenCache
from app.engine.events import DraftLost, GenerationEvent, PromptProgress, Step
from app.engine.fixed import NoDrafting
from app.engine.generator import Generator, Request, verify
from app.engine.interfaces import AnswerStart, Cancelled
from app.engine.sources import Source
from app.engine.types import Draft, DraftParams, FinishReason
from tests.engine.generating import PROMPT, Bench, undrafted
from tests.fakes import END, INTERRUPTED, FakeModel, FakeSampler, mixing, script


class TestLossless:
    @given(
        agree=st.lists(st.booleans(), min_size=40, max_size=40),
        n_max=st.integers(1, 8),
        n_min=st.integers(0, 3),
        max_tokens=st.integers(1, 30),
    )
    @settings(max_examples=40)
    def test_any_pattern_of_acceptance(self, agree: list[bool], n_max: int, n_min: int, max_tokens: int) -> None:
        target = mixing(3)

        def partly(sequence: Sequence[int]) -> dict[int, float]:
            (token,) = target(sequence)
            return {token if agree[len(sequence) % 40] else (token % 62) + 1: 1.0}

        bench = Bench(FakeModel(target), FakeModel(partly), DraftParams(n_max, min(n_min, n_max), 0.0))

        assert bench.run(max_tokens=max_tokens) == undrafted(target, max_tokens=max_tokens) == bench.sampler.emitted
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


def fading(sequence: Sequence[int]) -> dict[int, float]:
    """Draft two certain, right tokens, then an uncertain token."""
    (token,) = mixing(1)(sequence)
    probability = 0.9 if (len(sequence) - len(PROMPT)) % 3 else 0.5
    return {token: probability, token % 62 + 1: 1 - probability}


class TestSteps:
    def test_a_model_accepts_all_of_its_own_drafts(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)), DraftParams(3, 0, 0.0))
        bench.run(max_tokens=9)

        assert [source for _, source in bench.emitted] == [
            None,
            *[Source.MODEL, Source.MODEL, Source.MODEL, None],
            *[Source.MODEL, Source.MODEL, Source.MODEL, None],
        ]
        assert bench.last.stats.acceptance == 1.0
        assert bench.last.stats.mean_accepted_length == 4.0
        assert bench.last.stats.accepted_by_position == (2, 2, 2)
        # The draft model does not evaluate the verify batch. First step: the token from the prompt, then two of three
        # drafted tokens. Second: the last drafted token with the target's own, then two of three again.
        assert bench.draft is not None
        assert [len(batch) for batch in bench.draft.batches] == [4, 1, 1, 1, 2, 1, 1]
        # Two steps of three draft batches and one verify batch, a microsecond each in the fakes.
        stats = bench.last.stats
        assert stats.native_ns == 2 * 4 * 1000
        assert stats.overhead_ns == stats.predicted_ns - stats.native_ns > 0
        # A snapshot does not change later.
        assert [step.stats.predicted_n for step in bench.steps] == [1, 5, 9]
        assert [step.stats.accepted_by_position for step in bench.steps] == [(), (1, 1, 1), (2, 2, 2)]

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

    def test_drafting_stops_before_the_first_candidate_below_p_min(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(fading), DraftParams(8, 0, 0.6))
        bench.run(max_tokens=12)

        assert all(p >= 0.6 for step in bench.steps for p in step.draft.confidences)
        assert {len(step.draft) for step in bench.steps[1:-1]} <= {0, 1, 2}

    def test_a_draft_shorter_than_n_min_is_not_submitted(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(fading), DraftParams(8, 3, 0.6))

        assert bench.run(max_tokens=12) == undrafted(mixing(1), max_tokens=12)
        assert bench.last.stats.draft_n == 0


class TestEnds:
    @pytest.mark.parametrize("with_draft", [True, False])
    def test_an_end_token_ends_the_answer_and_is_counted(self, with_draft: bool) -> None:
        rule = script([9, 10, 11], len(PROMPT))
        bench = Bench(FakeModel(rule), FakeModel(rule) if with_draft else None, DraftParams(8, 0, 0.0))

        assert bench.run() == [9, 10, 11, END]
        assert bench.last.finish is FinishReason.STOP
        assert bench.last.stats.predicted_n == 4
        if with_draft:
            # Nothing is drafted after an end token.
            assert bench.steps[-1].draft.tokens == bench.steps[-1].tokens == (10, 11, END)

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

        # Twelve cells: the prompt, and every token except the last, which is not evaluated.
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


def test_every_accepted_token_names_the_source_that_drafted_it() -> None:
    found: list[tuple[int, Source | None]] = []

    def observe(token: int, origin: Source | None) -> FinishReason | None:
        found.append((token, origin))
        return None

    draft = Draft((1, 2, 3), (0.9, 0.9, 0.9), (Source.MODEL, Source.NGRAM, Source.NGRAM))
    assert verify(draft, [1, 2, 9, 9].__getitem__, observe) == ((1, 2, 9), 2, None)
    assert found == [(1, Source.MODEL), (2, Source.NGRAM), (9, None)]


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
        # The state was saved sixteen tokens before the end of the prompt.
        assert bench.last.stats.cache_n == (44 if n_left_out <= 16 else 0)

        # The second prompt saves its state, too.
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
        target.decode_ns, draft.decode_ns = 3_200_000_000, 6_400_000_000
        bench = Bench(target, draft)
        bench.run(prompt=list(range(1, 41)), max_tokens=2)

        progress = [(e.drafting, e.done, e.total) for e in bench.events if isinstance(e, PromptProgress)]
        done = (0, 16, 32, 40)
        assert progress == [(False, n, 40) for n in done] + [(True, n, 41) for n in done]
        left = [e.left_s for e in bench.events if isinstance(e, PromptProgress)]
        assert left == pytest.approx([None, 4.8, 1.6, 0.0, None, 10.0, 3.6, 0.4]), "at the speed of the reading model"

    @pytest.mark.parametrize(("n_prompt", "sizes"), [(40, [16, 13, 8, 2, 1]), (12, [1, 8, 2, 1]), (11, [11])])
    def test_the_end_of_a_prompt_is_read_in_timed_batches(self, n_prompt: int, sizes: list[int]) -> None:
        bench, prompt, timed = Bench(FakeModel(mixing(1))), list(range(1, n_prompt + 1)), []
        text = bench.run(prompt, 6, probes=(8, 2, 1), on_probe=lambda size, ns: timed.append((size, ns)))

        assert [len(batch) for batch in bench.target.batches][: len(sizes)] == sizes
        assert timed == ([(8, 1000), (2, 1000), (1, 1000)] if n_prompt > 11 else [])
        assert bench.steps[-1].stats.prompt_n == n_prompt
        assert text == undrafted(mixing(1), prompt, 6)

    @pytest.mark.parametrize(
        ("n_batches", "fail_at", "probes", "n_kept"),
        [
            pytest.param(2, 0, (), 32, id="between chunks"),
            # The model counts the tokens.
            pytest.param(99, 2, (), 24, id="inside a chunk"),
            pytest.param(3, 0, (8, 2, 1), 37, id="between timed batches"),
        ],
    )
    def test_a_cancel_keeps_the_evaluated_tokens(
        self, n_batches: int, fail_at: int, probes: tuple[int, ...], n_kept: int
    ) -> None:
        bench, prompt = Bench(FakeModel(mixing(1), n_batch=16)), list(range(1, 41))
        target = bench.target
        target.fail_at, target.fail_with = fail_at, INTERRUPTED

        assert bench.run(prompt, cancelled=lambda: len(target.batches) >= n_batches, probes=probes) == []
        assert bench.last.finish is FinishReason.CANCELLED
        assert list(bench.cache.tokens) == target.cells == prompt[:n_kept]

        bench.run(prompt, max_tokens=1)
        assert bench.last.stats.cache_n == n_kept

    def test_a_cancel_keeps_the_text_so_far(self) -> None:
        bench = Bench(FakeModel(mixing(1)), FakeModel(mixing(1)), DraftParams(3, 0, 0.0))
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
