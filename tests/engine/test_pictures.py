"""Pictures as runs of negative ids: whole in every cache, and never in a draft."""

import hashlib
import random
from collections.abc import Sequence

import pytest

from app.core.errors import Interrupted
from app.engine.cache import TokenCache
from app.engine.ngram import NgramIndex
from app.engine.pictures import begins_picture, part_end, picture_at, picture_ids, skipped_positions, whole_pictures
from app.engine.types import NO_DRAFT
from app.engine.vocab_compatibility import replace_unknown
from tests.fakes import FakeModel, mixing


def run(name: str, n_cells: int = 20, n_positions: int | None = None, *, is_first: bool = True) -> list[int]:
    identity = hashlib.sha256(name.encode()).digest()
    return picture_ids(identity, n_cells, n_cells if n_positions is None else n_positions, is_first=is_first)


def test_ids_tell_pictures_and_slices_apart() -> None:
    a, b = run("a"), run("b")
    assert len(set(a[:8]) & set(b[:8])) == 0
    assert all(-(1 << 31) <= token < 0 for token in a)
    assert [begins_picture(token) for token in a] == [True] + [False] * 19
    assert a == run("a") != run("a", 20, 10)


def test_places_in_a_sequence_with_pictures() -> None:
    tokens = [1, 2, *run("a", 20, 5), *run("b", 3), 3, *run("c", 4, 1, is_first=False)]
    kept = {0: 0, 2: 2, 3: 2, 21: 2, 22: 22, 24: 22, 25: 25, 26: 26, 27: 26, 29: 26}
    assert {n: whole_pictures(tokens, n) for n in kept} == kept
    assert whole_pictures(tokens, len(tokens)) == len(tokens)
    ends = [0]
    while ends[-1] < len(tokens):
        ends.append(part_end(tokens, ends[-1], 1))
    assert ends == [0, 1, 2, 22, 25, 26, 30]
    assert part_end(tokens, 0, 16) == 2
    assert skipped_positions(tokens) == ((22, 15), (30, 3))
    assert [picture_at(tokens, n) for n in (1, 2, 22, 25, 26, 30)] == [None, (1, 2), (2, 2), None, (2, 2), None]


def test_n_gram_drafts_end_before_a_picture() -> None:
    index = NgramIndex(2)
    index.follow([1, 2, 3, 4, *run("a"), 9, 2, 3])
    assert index.continuation((), 6).tokens == (4,)
    assert index.continuation((4,), 6) == NO_DRAFT


def test_a_draft_model_reads_other_tokens_in_place_of_a_picture() -> None:
    translate = replace_unknown(10, 7)
    assert translate([1, *run("a", 2), 12, 9]) == [1, 7, 7, 7, 9]
    assert translate((1, 2)) == (1, 2)
    model = FakeModel(mixing(1), n_batch=16)
    cache = TokenCache(model, translate)
    list(cache.process([1, *run("a"), 2], lambda: False))
    assert model.cells == [1] + [7] * 20 + [2]


@pytest.mark.parametrize("can_truncate", [True, False])
def test_random_prompts_keep_pictures_whole(can_truncate: bool) -> None:
    chance = random.Random(3)
    model = FakeModel(mixing(7), n_ctx=4096, n_batch=16)
    model.can_truncate = can_truncate
    cache = TokenCache(model)
    prompts: list[list[int]] = [[]]
    for _ in range(120):
        kept = chance.choice(prompts)
        prompt = kept[: whole_pictures(kept, chance.randrange(len(kept) + 1))]
        for _ in range(chance.randrange(1, 4)):
            prompt = [*prompt, *chance.choice((run("a"), run("b", 40, 8), [1, 2, 3] * 7))]
        prompts = [*prompts[-3:], prompt]
        n_stops = chance.choice((0, 0, 1, 3))
        cache.reuse(prompt)
        assert_whole(cache.tokens, prompt)
        asked = 0

        def stops() -> bool:
            nonlocal asked
            asked += 1
            return asked == n_stops  # noqa: B023 - called in this round only

        try:
            list(cache.read(prompt, stops))
        except Interrupted:
            assert_whole(cache.tokens, prompt)
        else:
            assert list(cache.tokens) == prompt
        assert model.cells == list(cache.tokens)
        cache.rollback(chance.randrange(len(cache) + 1))
        assert_whole(cache.tokens, prompt)
        assert model.cells == list(cache.tokens)


def assert_whole(tokens: Sequence[int], prompt: Sequence[int]) -> None:
    n = len(tokens)
    assert list(tokens) == list(prompt[:n])
    assert whole_pictures(prompt, n) == n


def test_a_recurrent_model_keeps_its_state_after_a_picture() -> None:
    model = FakeModel(mixing(7), n_batch=16)
    model.can_truncate = False
    cache = TokenCache(model)
    prompt = [1, 2, *run("a"), *[3] * 40]
    list(cache.read(prompt, lambda: False))
    assert cache.reuse([*prompt[:24], 9, 9]) == 22
