"""A suite as races: rounds, rows, and what a stop keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.compare.benchmark import (
    Plan,
    Progress,
    Results,
    RoundEnded,
    Row,
    benchmark,
    n_whole,
    rows,
    settled,
)
from app.compare.measure import measure, speeds, spread
from app.compare.race import Round, Side
from app.compare.suite import Prompt
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing, script
from tests.pairs import FakePair

REQUEST = AnswerRequest((), SamplingParams(temperature=0), max_tokens=8)
PROMPTS = (Prompt("code", "one", "abc"), Prompt("code", "two", "bcd"), Prompt("chat", "one", "cde"))
NAMES = ["plain", "fixed", "automatic"]


def make_pair() -> FakePair:
    return FakePair(FakeModel(mixing(2)), FakeModel(mixing(2)))


SIDES = [Side("plain", None), Side("fixed", DraftParams(3, 0, 0.0)), Side("automatic", AutoDraft())]


def run_bench(
    pair: FakePair,
    cancelled: Callable[[], bool] = lambda: False,
    repeat: int = 2,
    is_enough: Callable[[Results], bool] = lambda results: False,
) -> tuple[list[Progress | RoundEnded], Results]:
    results: dict[Prompt, list[Round]] = {}
    plan = Plan(SIDES, PROMPTS, REQUEST, repeat, is_enough=is_enough)
    return list(benchmark(pair, plan, results, cancelled)), results


def test_rounds_go_over_the_whole_suite_and_make_a_table() -> None:
    pair = make_pair()
    events, done = run_bench(pair)

    ended = [event for event in events if isinstance(event, RoundEnded)]
    assert [(one.prompt, one.number) for one in ended] == [(p, n) for n in (1, 2) for p in PROMPTS]
    assert done == {p: [e.round for e in ended if e.prompt == p] for p in PROMPTS}
    table = rows(done, NAMES)
    assert [(row.kind, row.prompts) for row in table] == [("code", 2), ("chat", 1), ("all", 3)]
    assert table[-1].of("fixed").acceptance == 1.0
    assert speeds(table[0].measured)["plain"].n == 2
    last = [event for event in events if isinstance(event, Progress)][-1]
    assert last.done == 3 * (3 * 2 + 1) == len(pair.samplers), "only the first prompt warms up"


def test_a_stop_keeps_what_is_done() -> None:
    pair = make_pair()
    _, done = run_bench(pair, lambda: len(pair.samplers) > 15)

    # Three to warm up and nine a round: the first prompt has finished a second one.
    assert [(prompt.name, len(rounds)) for prompt, rounds in done.items()] == [("one", 2), ("two", 1), ("one", 1)]
    assert n_whole(done, len(PROMPTS)) == 1
    assert n_whole(dict(list(done.items())[:2]), len(PROMPTS)) == 0
    speed = rows(done, NAMES)[0].measured[0].tokens_per_second
    assert speed is not None
    assert speed.n == 1, "a sum has the rounds that all of it has"


def test_rounds_that_would_change_nothing_are_left_out() -> None:
    asked: list[list[int]] = []

    def is_enough(results: Results) -> bool:
        asked.append([len(rounds) for rounds in results.values()])
        return len(asked) == 2

    _, done = run_bench(make_pair(), repeat=9, is_enough=is_enough)
    assert asked == [[1, 1, 1], [2, 2, 2]]
    assert {len(rounds) for rounds in done.values()} == {2}


def row_with(*ratios: float) -> Row:
    side = measure([], "fixed", "plain")
    return Row("code", 1, (side, replace(side, ratio=spread(ratios))))


@pytest.mark.parametrize(
    ("table", "is_settled"),
    [
        ([row_with(2.0, 2.01)], True),
        ([row_with(1.0, 1.001, 1.0)], True),
        ([row_with(2.0)], False),
        ([row_with(2.0, 2.01), row_with(0.9, 1.2)], False),
        ([row_with()], False),
    ],
)
def test_a_table_is_settled_once_every_outcome_is_known(table: list[Row], is_settled: bool) -> None:
    assert settled(table) == is_settled


def test_where_nothing_was_drafted_one_round_is_enough() -> None:
    alone = FakePair(FakeModel(script(range(10, 30), 3)))
    sides = [Side("plain", None), Side("automatic", AutoDraft())]
    names = ["plain", "automatic"]
    plan = Plan(sides, PROMPTS[:1], REQUEST, 3, is_enough=lambda results: settled(rows(results, names)))
    results: dict[Prompt, list[Round]] = {}
    list(benchmark(alone, plan, results, lambda: False))
    assert [len(rounds) for rounds in results.values()] == [1]
