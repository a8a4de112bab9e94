"""With and without drafts on the demo pair: the same text, explained differences, a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat.message import Message, Role
from app.compare.difference import ROUNDING, explain
from app.compare.lossless import EVERYTHING, Checks, check, statement
from app.compare.race import Round, Run, in_process, race
from app.compare.report import compared, comparison_lines
from app.compare.suite import Prompt
from app.engine.types import AutoDraft, SamplingParams
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair, PairParams
from app.responder import AnswerRequest

pytestmark = pytest.mark.native
GREEDY = SamplingParams(temperature=0)
REQUEST = AnswerRequest((Message(Role.USER, "Count from one to twenty."),), GREEDY, max_tokens=16)


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def pair(demo_target: Path, demo_draft: Path) -> Iterator[NativePair]:
    # One thread: two that wait for each other on busy cores are a hundred times slower.
    loaded = NativePair(PairParams(demo_target, demo_draft, n_threads=1, n_ctx=512), CancelFlag(), lambda *_: True)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def rounds(pair: NativePair) -> list[Round]:
    ways = {"plain": None, "everything": EVERYTHING, "automatic": AutoDraft()}
    contenders = [in_process(pair, name, way) for name, way in ways.items()]
    work = race(contenders, REQUEST, 1, never, warm_up_tokens=2)
    while True:
        try:
            next(work)
        except StopIteration as ended:
            done: list[Round] = ended.value
            return done


def test_everybody_gives_the_targets_text(pair: NativePair, rounds: list[Round]) -> None:
    plain, drafted = rounds[0]["plain"], rounds[0]["everything"]

    assert len(plain.tokens) == plain.stats.predicted_n == 16
    assert plain.prompt == drafted.prompt
    assert plain.stats.cache_n == drafted.stats.cache_n == 0
    assert drafted.stats.draft_n > 0
    assert "".join(pair.piece(t).decode() for t in plain.tokens).strip() == plain.text
    found = explain(pair, plain, drafted, GREEDY, never)
    assert found is None or found.near_tie


def test_a_forged_token_is_a_real_difference(pair: NativePair, rounds: list[Round]) -> None:
    plain, drafted = rounds[0]["plain"], rounds[0]["everything"]
    place = next(s.first for s in drafted.steps if s.drafted and s.first > 2)
    forged = Run(
        "forged",
        drafted.prompt,
        (*drafted.tokens[:place], plain.tokens[place] + 1),
        "",
        drafted.reason,
        drafted.stats,
        drafted.steps,
    )
    found = explain(pair, plain, forged, GREEDY, never)

    assert found is not None
    assert found.index == place
    assert found.width > 1
    assert found.near_tie is False
    assert found.moved is not None
    # A batch moves real logits by no more than rounding does, on some processors not at all.
    assert found.moved < ROUNDING


def test_it_can_be_told(rounds: list[Round]) -> None:
    text = "\n".join(comparison_lines(compared(rounds, {})))
    assert "plain" in text
    assert "automatic: " in text


def test_the_check_finds_it_lossless(pair: NativePair) -> None:
    checks = Checks()
    prompts = [Prompt("chat", "one", "Name a colour.")]
    for _ in check(pair, checks, prompts, REQUEST, [("everything", EVERYTHING)], 8, never):
        pass
    assert checks.hold
    assert statement(checks).startswith("Lossless as far as was tested")
