"""Drafts of MTP layers, EAGLE-3 heads and DFlash blocks: lossless text, and KV caches that equal a fresh read."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.compare.drafts import Sample, agreement
from app.compare.report import pair_title
from app.conversations.message import Message, Role
from app.core.errors import ComputeError, DecodeError, ModelLoadError
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.draft_model import HiddenDrafter
from app.engine.events import DraftLost, Step
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.interfaces import Judge, Rows, StepResult, Strategy, Verdict
from app.engine.types import AutoDraft, Draft, DraftParams, Guidance, SamplingParams
from app.llama import draft_heads
from app.llama.mtp_chain import MtpChain
from app.llama.pair import NativePair
from app.models.model_names import known_as
from app.worker.request import AnswerRequest
from tests.fakes import to_end
from tests.llama import generation
from tests.llama.conftest import WINDOW_ALONE, Load
from tests.llama.generation import Oracle
from tests.llama.gguf_files import I32, Array
from tests.llama.tiny_heads import (
    BLOCK,
    CANDIDATES,
    KINDS,
    write_dflash,
    write_dflash2,
    write_dspark,
    write_eagle3,
    write_mtp,
    write_target,
)
from tests.llama.tiny_model import N_VOCAB
from tests.sampled_distribution import check_sampled

pytestmark = pytest.mark.native
PROMPT = [2 + 37 * i % 250 for i in range(150)]
N_TOKENS = 300
FIXED = DraftParams(5, 0, 0.0)
REDUCED = [*range(2, N_VOCAB, 3)]
END = 0
EACH_WAY = [
    "mtp-hybrid",
    "chain-step35",
    "eagle3-reduced",
    "dflash",
    "dflash2",
    "dspark-reduced",
    "mtp-alone",
    "gemma4-window",
]
"""One kind for each way of drafting, for tests that do not depend on the layers of an architecture."""
NewPair = Callable[[], NativePair]
Inputs = dict[draft_heads.HeadContext, dict[int, tuple[int, Rows]]]


@pytest.fixture(params=EACH_WAY)
def new_pair(request: pytest.FixtureRequest, tmp_path: Path, load: Load) -> NewPair:
    """Return a function that loads a pair with draft layers, of several kinds in turn."""
    target, draft = KINDS[request.param].write(tmp_path)
    if request.param == "gemma4-window":
        target = target.rename(tmp_path / WINDOW_ALONE)

    def make() -> NativePair:
        pair = load(target, draft, mtp=draft is None)
        assert pair.drafter is not None
        assert not pair.notices
        return pair

    return make


def answer(
    pair: NativePair, strategy: Strategy, prompt: Sequence[int] = PROMPT, n_tokens: int = N_TOKENS
) -> tuple[list[int], list[Step]]:
    return generation.answer(pair, strategy, prompt, n_tokens)


def drafter_of(pair: NativePair) -> HiddenDrafter:
    assert isinstance(pair.drafter, HiddenDrafter)
    return pair.drafter


def take(depth: int, probability: float) -> Verdict:
    return Verdict.TAKE


@pytest.mark.parametrize("new_pair", KINDS, indirect=True)
@pytest.mark.parametrize("wrong", [None, 0.3])
def test_greedy_text_equals_no_draft_and_the_memory_a_fresh_read(
    new_pair: NewPair, inputs: Inputs, wrong: float | None
) -> None:
    pair = new_pair()
    plain, _ = answer(pair, NoDrafting())
    pair.target.rollback(0)
    drafter = drafter_of(pair)
    strategy = FixedDrafting(drafter, FIXED)
    if wrong is not None:
        strategy = Oracle(drafter, FIXED, [*PROMPT, *plain], wrong)

    tokens, steps = answer(pair, strategy)

    assert tokens == plain
    counts = {step.n_accepted for step in steps[1:]}
    assert 0 in counts
    assert wrong is None or max(counts) == min(FIXED.n_max, drafter.longest)
    assert_equals_fresh_read(inputs, drafter, new_pair(), [*PROMPT, *tokens])


@pytest.fixture(autouse=True)
def inputs(monkeypatch: pytest.MonkeyPatch) -> Inputs:
    """Record the tokens and rows that each head has read and not cut, by position."""
    seen: Inputs = {}
    context = draft_heads.HeadContext
    read, rollback, clear = context.read, context.rollback, context.clear

    def reads(head: draft_heads.HeadContext, start: int, tokens: Sequence[int], rows: Rows, n_outputs: int) -> None:
        assert len(tokens) == len(rows)
        for at, (token, row) in enumerate(zip(tokens, rows, strict=True), start):
            seen.setdefault(head, {})[at] = token, row.copy()
        read(head, start, tokens, rows, n_outputs)

    def cuts(head: draft_heads.HeadContext, position: int) -> None:
        seen[head] = {at: value for at, value in seen.get(head, {}).items() if at < position}
        rollback(head, position)

    def clears(head: draft_heads.HeadContext) -> None:
        seen[head] = {}
        clear(head)

    monkeypatch.setattr(draft_heads.HeadContext, "read", reads)
    monkeypatch.setattr(draft_heads.HeadContext, "rollback", cuts)
    monkeypatch.setattr(draft_heads.HeadContext, "clear", clears)
    return seen


def assert_equals_fresh_read(
    inputs: Inputs, drafter: HiddenDrafter, fresh: NativePair, sequence: Sequence[int]
) -> None:
    """Check that the KV caches, also of later heads, hold the sequence with the target's rows, as after one read."""
    got = drafter.draft(sequence, 4, take)
    head, other = drafter._head, drafter_of(fresh)._head
    assert isinstance(head, draft_heads.HeadContext)
    assert isinstance(other, draft_heads.HeadContext)
    known = inputs[head]
    n = len(sequence) - head.at_once
    assert sorted(known) == list(range(n))
    assert [known[at][0] for at in range(n)] == list(sequence[:n])
    list(fresh.target.process(sequence[:-1], lambda: False))
    drafter_of(fresh).draft(sequence, 1, take)
    # The target rounds differently in batches of other sizes, and these models amplify it.
    for at in range(n):
        np.testing.assert_allclose(known[at][1], inputs[other][at][1], atol=0.5)
    rows = np.stack([known[at][1] for at in range(n)])
    other.clear()
    if head.at_once:
        other.read(0, sequence[:n], rows, 0)
        other.block(n, sequence[-1], 4)
        head.block(n, sequence[-1], 4)
    else:
        other.read(0, sequence, rows, 1)
        head.rollback(n - 1)
        head.read(n - 1, sequence[-1:], rows[-1:], 1)
    got_logits, expected = head.first_logits, other.first_logits
    if got_logits is not None and expected is not None:
        tolerance = 0.02 * float(np.ptp(expected[np.isfinite(expected)]))
        np.testing.assert_allclose(got_logits, expected, atol=tolerance)
    for i in range(4 if head.at_once else 3):
        (token, probability), (expected_token, expected_probability) = (
            one.drafted(i * head.at_once) for one in (head, other)
        )
        assert token == expected_token
        assert probability == pytest.approx(expected_probability, abs=0.05)
        if not head.at_once and i < 2:
            head.draft_next(n + i, token)
            other.draft_next(n + i, token)
    head.rollback(n)
    # A random model may draft the end of the text.
    assert len(got) == min(4, head.longest) or got.tokens[-1] == END


@pytest.mark.parametrize("name", EACH_WAY)
def test_sampled_answers_have_the_distribution_of_no_draft(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _, draft = KINDS[name].write(tmp_path)
    target = KINDS[name].target(tmp_path / "target.gguf", spread=0.2)
    pair = load(target, draft, mtp=draft is None)
    likely, rng, accepted = range(2, 5), random.Random(5), Counter[int]()
    drafted, observe = HiddenDrafter.draft, FixedDrafting.observe

    def guess(drafter: HiddenDrafter, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        # The layers read and draft; their random weights are rarely right.
        n = len(drafted(drafter, tokens, limit, take))
        return Draft.of(drafter.kind, rng.choices(likely, k=n), (0.5,) * n)

    def count(strategy: FixedDrafting, result: StepResult) -> None:
        accepted[result.n_accepted] += 1
        observe(strategy, result)

    monkeypatch.setattr(HiddenDrafter, "draft", guess)
    monkeypatch.setattr(FixedDrafting, "observe", count)
    guidance = Guidance(logit_bias=tuple((token, 40.0) for token in likely))
    sampling = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    request = AnswerRequest((Message(Role.USER, "word"),), sampling, None, 3, guidance=guidance)

    # Four tokens, so that drafts have two.
    found = check_sampled(pair, request, n_tokens=4)

    assert min(accepted[n] for n in range(3)) > 20, accepted
    assert found.degrees_of_freedom > 8
    assert found.holds, found


def test_another_turn_an_edit_and_a_branch_keep_the_memory_right(new_pair: NewPair, inputs: Inputs) -> None:
    pair = new_pair()
    drafter = drafter_of(pair)
    first, _ = answer(pair, FixedDrafting(drafter, FIXED), n_tokens=40)
    plain_pair = new_pair()
    for prompt in (
        [*PROMPT, *first, 5, 6, 7],
        [*PROMPT, *first[:10], 9, 8, 7, 6],
        [*PROMPT[:60], *range(40, 140)],
        [*PROMPT, *first[:5]],
    ):
        plain_pair.target.rollback(0)
        plain, _ = answer(plain_pair, NoDrafting(), prompt, 40)
        tokens, _ = answer(pair, FixedDrafting(drafter, FIXED), prompt, 40)
        assert tokens == plain
        assert_equals_fresh_read(inputs, drafter, new_pair(), [*prompt, *tokens])


def test_a_draft_begins_with_one_batch(new_pair: NewPair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = new_pair()
    plain, _ = answer(pair, NoDrafting(), n_tokens=4)
    submit, sizes = draft_heads.HeadContext._submit, list[int]()

    def submits(
        head: draft_heads.HeadContext, position: int, tokens: Sequence[int], n: int, n_outputs: int, **with_rows: bool
    ) -> None:
        sizes.append(n)
        submit(head, position, tokens, n, n_outputs, **with_rows)

    monkeypatch.setattr(draft_heads.HeadContext, "_submit", submits)
    drafter_of(pair).draft([*PROMPT, *plain], 1, take)
    # The block of DFlash has no rows, so the accepted tokens are read before it.
    assert len(sizes) == (2 if pair.info.draft_kind == "dflash" else 1)


def test_text_that_was_answered_without_drafts_is_read_later(new_pair: NewPair, inputs: Inputs) -> None:
    pair = new_pair()
    plain, _ = answer(pair, NoDrafting(), n_tokens=150)

    assert drafter_of(pair).unread([*PROMPT, *plain]) <= 65
    assert_equals_fresh_read(inputs, drafter_of(pair), new_pair(), [*PROMPT, *plain])


def test_layers_at_rest_catch_up_with_the_target(new_pair: NewPair, inputs: Inputs) -> None:
    pair = new_pair()
    drafter = drafter_of(pair)
    first, _ = answer(pair, FixedDrafting(drafter, FIXED), n_tokens=40)
    drafter.pause()
    plain, _ = answer(pair, NoDrafting(), [*PROMPT, *first, 7], 100)
    assert drafter.unread([*PROMPT, *first, 7, *plain]) >= 100
    prompt = [*PROMPT, *first, 7, *plain, 8]

    tokens, steps = answer(pair, FixedDrafting(drafter, FIXED), prompt, 40)

    assert tokens == answer(new_pair(), NoDrafting(), prompt, 40)[0]
    assert sum(len(step.draft) for step in steps) > 40
    assert_equals_fresh_read(inputs, drafter, new_pair(), [*prompt, *tokens])


def test_a_restored_state_goes_on_without_its_history(new_pair: NewPair) -> None:
    pair = new_pair()
    drafter = drafter_of(pair)
    first, _ = answer(pair, FixedDrafting(drafter, FIXED), n_tokens=40)
    saved = pair.target.save()
    assert saved is not None
    answer(pair, FixedDrafting(drafter, FIXED), PROMPT[::-1], 20)
    pair.target.restore(saved)

    prompt = [*PROMPT, *first, 5, 6, 7]
    tokens, steps = answer(pair, FixedDrafting(drafter, FIXED), prompt, 40)

    assert tokens == answer(new_pair(), NoDrafting(), prompt, 40)[0]
    assert sum(len(step.draft) for step in steps) > 40


def test_drafts_end_with_the_context(new_pair: NewPair) -> None:
    pair = new_pair()
    prompt = [2 + 41 * i % 250 for i in range(1000)]
    tokens, _ = answer(pair, FixedDrafting(drafter_of(pair), FIXED), prompt, 100)
    assert len(tokens) == 1024 - 1000 + 1


def test_automatic_drafting_measures_and_stays_lossless(new_pair: NewPair) -> None:
    pair = new_pair()
    plain, _ = answer(pair, NoDrafting(), n_tokens=60)
    list(pair.measure_costs(lambda: False))
    assert pair.memory is not None
    profile = pair.memory.costs.profile
    assert profile.draft_ns + profile.draft_start_ns > 0

    tokens, _ = answer(pair, AutomaticDrafting(pair.memory, [drafter_of(pair)]), n_tokens=60)

    assert tokens == plain
    assert pair.info.sources(AutoDraft()) == (pair.info.draft_kind, "ngram")


def test_a_block_begins_with_the_last_token(load: Load, tmp_path: Path) -> None:
    """The first token of a block is computed at the first mask: attention decides, not its row."""
    pair = load(write_target(tmp_path / "target.gguf"), write_dflash(tmp_path / "draft.gguf"))
    answer(pair, NoDrafting(), n_tokens=1)
    drafter_of(pair).draft([*PROMPT, 5], 3, take)
    head = drafter_of(pair)._head
    assert isinstance(head, draft_heads.HeadContext)
    head.block(len(PROMPT), 5, 3)
    own, first = head.logits(0).copy(), head.first_logits
    assert first is not None
    assert np.abs(own - first).max() > 0.1
    assert head.drafted(0)[0] == int(first.argmax())


def test_scores_of_candidates_depend_on_the_candidate_before(load: Load, tmp_path: Path) -> None:
    pair = load(write_target(tmp_path / "target.gguf"), write_dflash2(tmp_path / "draft.gguf"))
    answer(pair, NoDrafting(), n_tokens=1)
    draft = drafter_of(pair).draft([*PROMPT, 5], BLOCK - 1, take)
    head = drafter_of(pair)._head
    assert isinstance(head, draft_heads.HeadContext)
    assert head.first_logits is None
    head.block(len(PROMPT), 5, BLOCK - 1)
    chosen, tokens, probabilities, followed = 0, [], [], set[bool]()
    for row in head._block:
        candidates, *scores = row[: CANDIDATES * (CANDIDATES + 1)].reshape(-1, CANDIDATES)
        assert len(set(candidates)) == CANDIDATES
        assert all(0 <= token < N_VOCAB and token == int(token) for token in candidates)
        followed.add(scores[chosen].argmax() == scores[0].argmax())
        exponentials = np.exp(scores[chosen] - scores[chosen].max())
        chosen = int(scores[chosen].argmax())
        tokens.append(int(candidates[chosen]))
        probabilities.append(float(exponentials[chosen] / exponentials.sum()))
    assert draft.tokens == tuple(tokens)
    assert draft.probabilities == pytest.approx(probabilities)
    assert followed == {True, False}
    head.rollback(len(PROMPT))
    assert len(drafter_of(pair).draft([*PROMPT, 5], 7, lambda depth, p: Verdict.TAKE if p > 0.6 else Verdict.DROP)) < 7


def test_a_draft_is_no_longer_than_a_block_or_a_chain(new_pair: NewPair) -> None:
    pair = new_pair()
    answer(pair, NoDrafting(), n_tokens=1)
    drafted = len(drafter_of(pair).draft([*PROMPT, 5], 20, take))
    assert drafted == min(20, drafter_of(pair).longest)
    others = (3,) if isinstance(drafter_of(pair)._head, MtpChain) else (20,)
    assert drafted in ((BLOCK - 1, BLOCK) if pair.info.draft_kind == "dflash" else others)


@pytest.mark.parametrize(("anchor", "causal"), [(True, False), (False, True)])
def test_a_dspark_block_predicts_its_acceptance(load: Load, tmp_path: Path, anchor: bool, causal: bool) -> None:
    changes: dict[str, Any] = {"dflash__sample_from_anchor": anchor, "dflash__attention__causal": causal}
    draft = write_dspark(tmp_path / "draft.gguf", **changes)
    pair = load(write_target(tmp_path / "target.gguf"), draft)
    answer(pair, NoDrafting(), n_tokens=1)
    drafter, n = drafter_of(pair), BLOCK if anchor else BLOCK - 1
    made = drafter.draft([*PROMPT, 5], 20, take)
    head = drafter._head
    assert isinstance(head, draft_heads.HeadContext)
    head.block(len(PROMPT), 5, n)
    assert [int(head.logits(BLOCK - n + i).argmax()) for i in range(n)] == list(made.tokens)
    assert len(made.tokens) == n
    assert list(made.confidences) == pytest.approx([float(row[0]) for row in head._block])
    assert len({round(p, 3) for p in made.confidences}) > 1
    assert all(0 < p < 1 for p in made.confidences)
    # A shorter draft of a causal block is the beginning of a longer draft.
    longer = head.logits(BLOCK - n + 1).copy()
    head.rollback(len(PROMPT))
    head.block(len(PROMPT), 5, 2)
    assert bool(np.allclose(longer, head.logits(BLOCK - n + 1), atol=1e-3)) is causal


# Failures


def test_a_failed_batch_costs_the_drafts_but_not_the_answer(new_pair: NewPair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = new_pair()
    plain, _ = answer(pair, NoDrafting(), n_tokens=30)
    pair.target.rollback(0)
    drafter = drafter_of(pair)
    read = draft_heads.HeadContext.read

    def fails(*_: object) -> None:
        raise ComputeError("The card is gone.")

    monkeypatch.setattr(draft_heads.HeadContext, "read", fails)
    events, _ = generation.events_of(pair, FixedDrafting(drafter, FIXED), PROMPT, 30)
    monkeypatch.setattr(draft_heads.HeadContext, "read", read)

    assert [token for event in events if isinstance(event, Step) for token in event.tokens] == plain
    assert [event.reason for event in events if isinstance(event, DraftLost)] == ["The card is gone."]
    assert drafter.is_broken
    with pytest.raises(ComputeError):
        drafter.draft([*PROMPT, *plain], 4, take)
    pair.drop_draft()
    assert (pair.drafter, pair.info.draft, pair.info.draft_failed) == (None, None, True)
    assert answer(pair, NoDrafting(), n_tokens=30)[0] == plain


def test_a_library_without_the_functions_answers_without_a_draft(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str, *_: object) -> None:
        raise AttributeError(name)

    monkeypatch.setattr(draft_heads, "function", missing)
    for pair in (
        load(write_mtp(tmp_path / "mtp.gguf"), mtp=True),
        load(write_target(tmp_path / "target.gguf"), write_eagle3(tmp_path / "draft.gguf")),
    ):
        assert pair.drafter is None
        [notice] = [text for text in pair.notices if "draft" in text]
        assert "has no function llama_set_embeddings_nextn" in notice
        assert len(answer(pair, NoDrafting(), n_tokens=5)[0]) == 5
    with pytest.raises(ModelLoadError):
        draft_heads.symbol("nextn")


@pytest.mark.parametrize("kind", ["mtp", "eagle3"])
def test_the_wait_for_hidden_rows_counts_as_reading_the_prompt(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A GPU returns from a batch before it is computed, so the wait occurs where its rows are fetched."""
    draft = write_eagle3(tmp_path / "draft.gguf") if kind == "eagle3" else None
    target = (write_mtp if draft is None else write_target)(tmp_path / "target.gguf")
    pair = load(target, draft, mtp=draft is None)
    assert isinstance(pair.drafter, HiddenDrafter)
    head = pair.drafter._head
    assert isinstance(head, draft_heads.HeadContext)
    now, name = [0], "layer_input" if draft is not None else "nextn"
    fetch = head._functions[name]

    def slow(*arguments: Any) -> Any:
        now[0] += 1_000_000_000
        return fetch(*arguments)

    monkeypatch.setattr(draft_heads, "time", SimpleNamespace(perf_counter_ns=lambda: now[0]))
    head._functions[name] = slow
    list(pair.target.process(PROMPT[:40], lambda: False))
    seconds = pair.target.seconds_to_read(40)

    assert seconds is not None
    assert seconds >= 1.0


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "layer": (lambda p: write_dflash(p, dflash__target_layers=Array(I32, [1, 9])), "it reads layer 10"),
    "table": (lambda p: write_eagle3(p, d2t=[1, 2, 99_999]), "its table of tokens has the token 99999, of 258"),
    "nodes": (lambda p: write_dspark(p, d2t=REDUCED, dflash__block_size=64), "does not survive it"),
    "rank": (lambda p: write_dflash2(p, dflash__selector_rank=8), "selector_predecessor.weight"),
    "kernel": (lambda p: write_dflash2(p, dflash__conv_kernel_size=4), "conv_base"),
}
"""Layers that the header, the table of tokens, a trial and the load refuse."""


@pytest.mark.usefixtures("trial_loads")
@pytest.mark.parametrize("name", WRONG)
def test_a_draft_that_does_not_fit_is_left_out(load: Load, tmp_path: Path, name: str) -> None:
    write, reason = WRONG[name]
    pair = load(write_target(tmp_path / "target.gguf"), write(tmp_path / "draft.gguf"))
    assert pair.drafter is None
    [notice] = pair.notices
    assert notice.startswith("Running without this draft. ")
    assert reason in notice
    assert pair.info.sources(AutoDraft()) == ("ngram",)
    assert len(answer(pair, NoDrafting(), n_tokens=5)[0]) == 5


def test_the_mtp_layer_of_the_target_replaces_a_refused_head(load: Load, tmp_path: Path) -> None:
    target, head = write_mtp(tmp_path / "target.gguf"), write_eagle3(tmp_path / "draft.gguf")
    pair = load(target, head)
    assert (pair.info.draft_kind, pair.info.sources(AutoDraft())) == ("mtp", ("mtp", "ngram"))
    [notice] = pair.notices
    assert notice.startswith("draft cannot be used as a draft: it was made for another target; it reads layer 3")
    assert notice.endswith(" The MTP layer of target drafts instead.")
    plain, _ = answer(pair, NoDrafting(), n_tokens=20)
    pair.target.rollback(0)
    assert answer(pair, FixedDrafting(drafter_of(pair), FIXED), n_tokens=20)[0] == plain


def test_the_memory_of_the_draft_layers_cannot_overflow(load: Load, tmp_path: Path) -> None:
    pair = load(write_target(tmp_path / "target.gguf"), write_dflash(tmp_path / "draft.gguf"))
    head = drafter_of(pair)._head
    with pytest.raises(DecodeError, match="full"):
        head.block(1020, 5, 7)


def test_the_drafts_of_a_pair_are_described(load: Load, tmp_path: Path) -> None:
    pair = load(write_mtp(tmp_path / "target.gguf"), mtp=True)
    assert pair.info.draft is not None
    assert (pair.info.draft.name, pair.info.draft_kind) == ("MTP layer in the same file", "mtp")
    assert pair_title(pair.info).endswith(" + MTP layer in the same file, CPU")
    assert known_as(pair.info.draft.file, pair.info.draft.name) == "MTP layer in the same file"
    assert pair.info.why_no_draft(FIXED) is None
    assert replace(pair.info, draft=None, draft_kind=None).why_no_draft(FIXED)


@pytest.mark.parametrize("mtp", [False, True])
def test_one_kind_of_draft_replaces_another_for_the_same_target(
    load: Load, tmp_path: Path, inputs: Inputs, mtp: bool
) -> None:
    target = (write_mtp if mtp else write_target)(tmp_path / "target.gguf")
    layers = {"dflash__target_layers": Array(I32, [0, 1])} if mtp else {}
    block = write_dflash(tmp_path / "block.gguf", **layers)
    # A named file precedes a layer of the target; without a name, the layer drafts.
    first, second = (block, None) if mtp else (write_eagle3(tmp_path / "head.gguf"), block)
    pair = load(target, first, mtp=mtp)
    assert pair.info.draft_kind == ("dflash" if mtp else "eagle3")
    plain, _ = answer(pair, NoDrafting(), n_tokens=40)
    pair.use_draft(second, lambda *_: True)
    pair.target.rollback(0)
    tokens, _ = answer(pair, FixedDrafting(drafter_of(pair), FIXED), n_tokens=40)
    assert (tokens, pair.info.draft_kind) == (plain, "mtp" if mtp else "dflash")
    fresh = load(target, second, mtp=mtp)
    assert_equals_fresh_read(inputs, drafter_of(pair), fresh, [*PROMPT, *tokens])


def test_draft_layers_are_judged_on_text_of_the_target(new_pair: NewPair) -> None:
    pair = new_pair()
    drafter = drafter_of(pair)
    n = 24
    pair.target.rollback(0)
    list(pair.target.process(PROMPT, lambda: False))
    rows, text = [], list[int]()
    for _ in range(n):
        rows.append(np.array(pair.target.logits(0)))
        text.append(int(rows[-1].argmax()))
        pair.target.evaluate(text[-1:], n_outputs=1)
    found, _ = to_end(agreement(drafter, pair.target, [Sample(PROMPT, text, rows)], lambda: False))

    assert list(pair.target.tokens) == [*PROMPT, *text[:-1]]
    assert 0 <= found.acceptance <= 1
    if found.divergence is None:
        assert drafter._head.first_logits is None
    else:
        assert 0 < found.divergence < 30
    # Same drafts as in an answer
    assert drafter.draft([*PROMPT, *text], 1, take).tokens
