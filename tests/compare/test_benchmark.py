"""A suite as races: rounds, rows, and results after a stop."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.command_line import KINDS
from app.compare.benchmark import (
    BenchmarkPlan,
    Prompt,
    ResultRow,
    Results,
    benchmark,
    choose,
    load_suite,
)
from app.compare.measure import measure, speeds, spread
from app.compare.race import Round, RoundEnded, RunEnded, Side
from app.core.errors import UsageError
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.worker.events import Event, JobProgressed
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing, script
from tests.pairs import FakePair

REQUEST = AnswerRequest((), SamplingParams(temperature=0), max_tokens=8)
PROMPTS = (Prompt("code", "one", "abc"), Prompt("code", "two", "bcd"), Prompt("chat", "one", "cde"))


def make_pair() -> FakePair:
    return FakePair(FakeModel(mixing(2)), FakeModel(mixing(2)))


SIDES = [Side("plain", None), Side("fixed", DraftParams(3, 0, 0.0)), Side("automatic", AutoDraft())]
TABLE = '[[prompt]]\nkind = "law"\nname = "a"\ntext = "Sue."\n'
PLAN = BenchmarkPlan(SIDES, PROMPTS, REQUEST, repeat=2)


def run_bench(
    pair: FakePair, cancelled: Callable[[], bool] = lambda: False
) -> tuple[list[tuple[Prompt, Event]], Results]:
    results: dict[Prompt, list[Round]] = {}
    return list(benchmark(pair, PLAN, results, cancelled)), results


def test_rounds_go_over_the_whole_suite_and_make_a_table() -> None:
    pair = make_pair()
    events, done = run_bench(pair)

    news = [(prompt, event.what) for prompt, event in events if isinstance(event, JobProgressed)]
    ended = [(prompt, what) for prompt, what in news if isinstance(what, RoundEnded)]
    assert [(prompt, what.round) for prompt, what in ended] == [(p, n) for n in (1, 2) for p in PROMPTS]
    assert done == {p: [what.runs for prompt, what in ended if prompt == p] for p in PROMPTS}
    table = PLAN.rows(done)
    assert [(row.kind, row.prompts) for row in table] == [("code", 2), ("chat", 1), ("all", 3)]
    assert table[-1].of("fixed").acceptance == 1.0
    assert speeds(table[0].measured)["plain"].n == 2
    n_runs = sum(isinstance(what, RunEnded) for _, what in news)
    assert n_runs == 3 * (3 * 2 + 1) == len(pair.samplers), "only the first prompt warms up"


def test_a_stop_keeps_what_is_done() -> None:
    pair = make_pair()
    _, done = run_bench(pair, lambda: len(pair.samplers) > 15)

    # Three warm-up runs and nine per round: the first prompt has finished its second round.
    assert [(prompt.name, len(rounds)) for prompt, rounds in done.items()] == [("one", 2), ("two", 1), ("one", 1)]
    assert PLAN.n_whole(done) == 1
    assert PLAN.n_whole(dict(list(done.items())[:2])) == 0
    speed = PLAN.rows(done)[0].measured[0].tokens_per_second
    assert speed is not None
    assert speed.n == 1, "a sum has the rounds that all of it has"


def row_with(*ratios: float) -> ResultRow:
    side = measure([], "fixed", "plain")
    return ResultRow("code", 1, (side, replace(side, ratio=spread(ratios))))


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
def test_a_benchmark_ends_once_every_outcome_is_known(
    monkeypatch: pytest.MonkeyPatch, table: list[ResultRow], is_settled: bool
) -> None:
    monkeypatch.setattr(BenchmarkPlan, "rows", lambda *_: table)
    results: dict[Prompt, list[Round]] = {prompt: [{}] for prompt in PROMPTS}
    assert replace(PLAN, ends_early=True).is_enough(results) == is_settled
    assert not PLAN.is_enough(results)


def test_one_round_is_enough_if_nothing_was_drafted() -> None:
    alone = FakePair(FakeModel(script(range(10, 30), 3)))
    sides = [Side("plain", None), Side("automatic", AutoDraft())]
    plan = BenchmarkPlan(sides, PROMPTS[:1], REQUEST, 3, ends_early=True)
    results: dict[Prompt, list[Round]] = {}
    list(benchmark(alone, plan, results, lambda: False))
    assert [len(rounds) for rounds in results.values()] == [1]


# Prompts


def test_the_built_in_prompts_cover_every_kind_three_times() -> None:
    prompts = load_suite()

    assert tuple(dict.fromkeys(p.kind for p in prompts)) == KINDS
    assert all(sum(p.kind == kind for p in prompts) >= 3 for kind in KINDS)
    assert all(p.text == p.text.strip() for p in prompts)
    assert [p.kind for p in choose(prompts, None, None)][: len(KINDS)] == list(KINDS)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_has_a_prompt_per_line_or_tables(tmp_path: Path, encoding: str) -> None:
    lines, tables = tmp_path / "mine.txt", tmp_path / "MINE.TOML"
    lines.write_bytes("Grüße\u2028an\x0calle\r\n\r\n und euch \x85\r\n".encode(encoding))
    tables.write_bytes(TABLE.encode(encoding))

    assert [(p.kind, p.name, p.text) for p in load_suite(lines)] == [
        ("yours", "1", "Grüße\u2028an\x0calle"),
        ("yours", "2", "und euch"),
    ]
    assert load_suite(tables) == (Prompt("law", "a", "Sue."),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.toml", b""),
        ("bad.toml", b"[[prompt]]\nkind = 1"),
        ("bad.toml", b"not toml = = "),
        ("bad.toml", b"x = " + b"[" * 5000),
        ("bad.toml", b'prompt = "x"'),
        ("bad.toml", b'[[prompt]]\nkind="a"\nname="b"\ntext="  "'),
        ("bad.toml", TABLE.encode() * 2),
        ("empty.txt", b""),
        ("binary.txt", b"\xff\xfe\x00"),
        ("runs.jsonl", b'{"text": "Sue."}\n'),
        ("missing.txt", None),
    ],
)
def test_a_file_without_prompts_is_an_error(tmp_path: Path, name: str, text: bytes | None) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(UsageError, match=name):
        load_suite(file)


def test_kinds_are_chosen_in_turn_and_unknown_ones_named() -> None:
    assert [(p.kind, p.name) for p in choose(PROMPTS, None, None)] == [
        ("code", "one"),
        ("chat", "one"),
        ("code", "two"),
    ]
    assert [p.name for p in choose(PROMPTS, None, 1)] == ["one", "one"]
    assert [p.kind for p in choose(PROMPTS, ["chat"], None)] == ["chat"]
    with pytest.raises(UsageError, match='kind "cod"'):
        choose(PROMPTS, ["cod"], None)
