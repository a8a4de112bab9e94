"""End tokens and repetitions."""

import random
import re
from collections.abc import Iterable, Sequence
from copy import deepcopy

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.cache import TokenCache
from app.engine.events import Step
from app.engine.generator import Generator, Request
from app.engine.interfaces import StepResult
from app.engine.ngram import NgramIndex
from app.engine.text.stream import (
    LEAST_SHORT_TOKENS,
    LEAST_TIMES,
    LEAST_TOKENS,
    LONGEST_BLOCK,
    SHORT_BLOCK,
    RepetitionDetector,
)
from tests.bench.policies import automatic
from tests.engine.generating import ConstantDraft, begun
from tests.fakes import END, FakeModel, FakeSampler, script
from tests.recordings import Trace
from tests.replay import chain, replay

CHEAP = {1: 1000.0, 2: 1010.0, 64: 1600.0}
TURN = [20, 21, 22, 23, 24, 25]
NEXT_TURN = [END, 13, 10, 11, 12, 13, 14, 15, 16, 17]
"""The end of an answer, and the same beginning of the next turn in every conversation."""
ROOM = 32
QUESTION = [7, 8, 9]


def is_end(token: int) -> bool:
    return token == END


def statistics_of(batch_ns: dict[int, float] = CHEAP) -> PairStatistics:
    return PairStatistics(CostModel(CostProfile(dict(batch_ns), draft_ns=10.0, draft_prompt_ns=1.0)))


def drafting(
    sequence: Sequence[int],
    drafter: ConstantDraft | None = None,
    *,
    ngram: bool = True,
    known: PairStatistics | None = None,
) -> AutomaticDrafting:
    index = NgramIndex() if ngram else None
    return begun(AutomaticDrafting(known or statistics_of(), chain(drafter, index), lambda: 0), sequence)


CONVERSATION = [*TURN, 30, 31, *NEXT_TURN] * 3 + TURN


@pytest.mark.parametrize(
    ("conversation", "batch_ns", "proposed"),
    [
        pytest.param([*TURN, *NEXT_TURN] * 3 + TURN, CHEAP, (), id="an end token alone"),
        pytest.param(CONVERSATION, CHEAP, (30, 31), id="up to the end of the turn"),
        pytest.param(
            CONVERSATION,
            {1: 1000.0, 2: 1500.0, 3: 1900.0, 4: 1100.0, 5: 2600.0, 64: 30_000.0},
            (30, 31, END),
            id="an end token pads a batch to a cheaper size",
        ),
    ],
)
def test_an_n_gram_draft_stops_before_an_end_token(
    conversation: list[int], batch_ns: dict[int, float], proposed: tuple[int, ...]
) -> None:
    assert drafting(conversation, known=statistics_of(batch_ns)).propose(conversation, ROOM).tokens == proposed


def test_a_model_draft_stops_before_its_end_token_and_gets_no_n_grams() -> None:
    conversation = [*QUESTION, 30, 31, *NEXT_TURN] * 3 + [40]
    strategy = drafting(conversation, ConstantDraft((30, 31, END)))

    assert strategy.propose(conversation, ROOM).tokens == (30, 31)


def test_the_acceptance_of_end_tokens_is_learned() -> None:
    known = statistics_of()
    strategy = drafting([1, 2, 3], ConstantDraft((30, END)), ngram=False, known=known)
    draft = strategy.propose([1, 2, 3], ROOM)
    strategy.observe(StepResult(2, draft, (30, END), 1, 1000, 20))

    assert draft.tokens == (30,)
    assert [sum(seen for _, seen in position) for position in known.model.counts] == [1.0, 1.0]


def test_the_request_defines_the_end_tokens() -> None:
    conversation = [*TURN, 30, 31, *NEXT_TURN] * 3 + TURN[:-1]
    target = FakeModel(script([TURN[-1], 30, 31], len(conversation)), n_batch=64)
    strategy = AutomaticDrafting(statistics_of(), chain(None, NgramIndex()), lambda: 0)
    answer = Generator(TokenCache(target), strategy, FakeSampler(target), lambda: 0)
    request = Request(conversation, is_end, None, lambda *_: None)
    steps = [event for event in answer.run(request) if isinstance(event, Step)]

    assert [step.draft.tokens for step in steps] == [(), (30, 31)]
    assert steps[-1].tokens == (30, 31, END)


def test_automatic_drafting_stops_before_the_end_token() -> None:
    # The draft model predicts all six tokens of an answer, including the end token.
    ended = Trace("ended", "chat", (1, 2, 3), (4, 5, 6, 7, 8, END), (5, 4, 3, 2, 1), ((0.99,) * 8,) * 5, has_end=True)
    flat = CostProfile({1: 100.0, 64: 110.0}, draft_ns=1.0)
    steps = replay(ended, flat, automatic(PairStatistics(CostModel(deepcopy(flat))), ngram=False)).steps

    assert [result.draft.tokens for result in steps] == [(5, 6, 7, 8)]
    assert steps[0].tokens == (5, 6, 7, 8, END)


def repeats(tokens: Iterable[int]) -> list[int]:
    """Return the detector's result after each token."""
    detector = RepetitionDetector()
    return [detector.push(token) for token in tokens]


def least(block: int) -> int:
    return max(LEAST_SHORT_TOKENS if block < SHORT_BLOCK else LEAST_TOKENS, LEAST_TIMES * block)


def by_definition(tokens: Sequence[int]) -> int:
    """Count the repeats of the block with the longest match at the end, without a running state."""

    def matches(block: int) -> int:
        at = len(tokens) - 1
        while at >= block and tokens[at] == tokens[at - block]:
            at -= 1
        return len(tokens) - 1 - at

    block = max(range(1, LONGEST_BLOCK + 1), key=matches)
    return matches(block) // block + 1 if matches(block) + block >= least(block) else 0


def words(text: str) -> list[int]:
    """Return ids for words, digits, spaces and marks, as finely as a vocabulary splits them."""
    return [hash(word) for word in re.findall(r"[A-Za-z]+|.|\n", text)]


@pytest.mark.parametrize("seed", range(6))
def test_repeats_match_the_definition(seed: int) -> None:
    choose = random.Random(seed)
    tokens: list[int] = []
    while len(tokens) < 2000:
        tokens += [choose.randrange(5) for _ in range(choose.randrange(60))]
        block = [choose.randrange(3) for _ in range(choose.choice([1, 2, 3, 8, 17, 50]))]
        tokens += (block * 300)[: choose.choice([63, 64, 65, 127, 128, 129, 200, 300])]
    found = repeats(tokens)
    assert any(found)
    for at in range(0, len(tokens), 13):
        assert found[at] == by_definition(tokens[: at + 1]), at


@pytest.mark.parametrize("block", [1, SHORT_BLOCK - 1, SHORT_BLOCK, 16, 17, LONGEST_BLOCK])
def test_a_loop_is_reported_from_its_last_needed_token_to_its_end(block: int) -> None:
    loop = (list(range(block)) * least(block))[: least(block)]
    found = repeats([*range(1000, 1090), *loop, 5000])
    assert found[90 + least(block) - 2 :] == [0, least(block) // block, 0]


TABLE = "| Name | Age |\n| --- | --- |\n" + "".join(f"| person {n} | {20 + n % 50} |\n" for n in range(300))
NUMBERS = ", ".join(map(str, range(600)))
BINARY = "\n".join(f"{n:010b}" for n in range(200))
CODE = "".join(f'    if key == "{n}":\n        return handlers[{n}](event)\n' for n in range(120))
LIST = "".join(f"{n}. The sea is blue and the ship is old.\n" for n in range(1, 150))
ZEROS = "matrix = [\n" + "".join(f"  [{'0, ' * n}1, {'0, ' * (29 - n)}],\n" for n in range(30)) + "]\n"
RULES = f"Title\n{'-' * 80}\n" + f"| {'- ' * 40}|\n" * 3 + "Text\n" + "=" * 120
SONG = "".join(
    f"{n} green bottles hanging on the wall,\n{n} green bottles hanging on the wall,\n" for n in range(99, 0, -1)
)


@pytest.mark.parametrize("text", [TABLE, NUMBERS, BINARY, CODE, LIST, ZEROS, RULES, SONG])
def test_similar_lines_are_no_loop(text: str) -> None:
    tokens = words(text)
    assert len(tokens) > 2 * LEAST_SHORT_TOKENS
    assert not any(repeats(tokens))


def test_a_repeated_sentence_is_a_loop_after_any_text() -> None:
    assert repeats(words(TABLE + "I am sorry, I cannot do that. " * 4))[-1] == 4
