"""The suite: its prompts, its races, what is kept of a stopped one, and the history behind it."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.compare.benchmark import (
    Keep,
    Plan,
    Progress,
    Raced,
    Row,
    TimeLeft,
    benchmark,
    figures,
    n_whole,
    rows,
    settled,
)
from app.compare.card import Card, markdown, svg
from app.compare.history import Facts, History, Result, changes, remark, slower, speedups
from app.compare.kinds import KINDS
from app.compare.lossless import chi_square_p, homogeneity
from app.compare.measure import Spread, measure, spread
from app.compare.race import Contender, Round, Run, Steps, in_process
from app.compare.report import round_json, table_lines
from app.compare.suite import Prompt, choose, load_suite
from app.compare.upper_bound import DEPTH, upper_bound
from app.core.errors import UsageError
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.stats import GenerationStats
from app.engine.types import AutoDraft, DraftParams, FinishReason, SamplingParams
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing, script
from tests.pairs import FakePair

REQUEST = AnswerRequest((), SamplingParams(temperature=0), max_tokens=8)
PROMPTS = (Prompt("code", "one", "abc"), Prompt("code", "two", "bcd"), Prompt("chat", "one", "cde"))
NAMES = ["plain", "fixed", "automatic"]


def make_pair() -> FakePair:
    return FakePair(FakeModel(mixing(2)), FakeModel(mixing(2)))


def contenders(pair: FakePair) -> list[Contender]:
    ways = (None, DraftParams(3, 0, 0.0), AutoDraft())
    return [in_process(pair, name, way) for name, way in zip(NAMES, ways, strict=True)]


def run_bench(
    pair: FakePair,
    cancelled: Callable[[], bool] = lambda: False,
    repeat: int = 2,
    *,
    keep: Keep = lambda prompt, number, round_: None,
    enough: Callable[[Sequence[Raced]], bool] = lambda raced: False,
) -> tuple[list[Progress], list[Raced]]:
    ticks = iter(range(0, 10**12, 10**9))
    plan = Plan(contenders(pair), PROMPTS, REQUEST, repeat, enough=enough)
    work = benchmark(pair, plan, cancelled, lambda: next(ticks), keep)
    seen: list[Progress] = []
    while True:
        try:
            seen.append(next(work))
        except StopIteration as ended:
            return seen, ended.value


# The suite


def test_our_prompts_cover_every_kind_three_times() -> None:
    prompts = load_suite()

    assert tuple(dict.fromkeys(p.kind for p in prompts)) == KINDS
    assert all(sum(p.kind == kind for p in prompts) >= 3 for kind in KINDS)
    assert all(p.text == p.text.strip() for p in prompts)


def test_prompts_of_ones_own(tmp_path: Path) -> None:
    lines = tmp_path / "mine.txt"
    lines.write_text("first\n\n  second \n", encoding="utf-8")
    tables = tmp_path / "mine.toml"
    tables.write_text('[[prompt]]\nkind = "law"\nname = "a"\ntext = "Sue."\n', encoding="utf-8")

    assert [(p.kind, p.name, p.text) for p in load_suite(lines)] == [("yours", "1", "first"), ("yours", "2", "second")]
    tables.write_bytes(b"\xef\xbb\xbf" + tables.read_bytes())
    assert load_suite(tables) == (Prompt("law", "a", "Sue."),)


def test_the_form_is_told_by_the_ending_however_it_is_written(tmp_path: Path) -> None:
    tables = tmp_path / "MINE.TOML"
    tables.write_text('[[prompt]]\nkind = "law"\nname = "a"\ntext = "Sue."\n', encoding="utf-8")
    assert load_suite(tables) == (Prompt("law", "a", "Sue."),)


@pytest.mark.parametrize("name", ["mine.json", "runs.JSONL"])
def test_lines_of_json_are_not_raced_as_prompts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"text": "Sue."}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="is JSON, and prompts are TOML by kind, or one a line") as error:
        load_suite(tmp_path / name)
    assert "[[prompt]]" in error.value.hint


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_prompts_of_windows_are_the_same_prompts(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "mine.txt"
    file.write_bytes("Grüße\u2028an\x0calle\r\n\r\nund euch\x85\r\n".encode(encoding))
    assert [prompt.text for prompt in load_suite(file)] == ["Grüße\u2028an\x0calle", "und euch"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[prompt]]\nkind = 1",
        "not toml = = ",
        "x = " + "[" * 5000,
        'prompt = "x"',
        '[[prompt]]\nkind="a"\nname="b"\ntext="  "',
        '[[prompt]]\nkind="a"\nname="b"\ntext="c"\n' * 2,
    ],
)
def test_a_file_of_prompts_that_is_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        load_suite(file)


def test_a_missing_empty_or_binary_file(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.txt", "empty.txt", "binary.txt"):
        with pytest.raises(UsageError, match=name):
            load_suite(tmp_path / name)


def test_whoever_stops_has_something_of_every_kind() -> None:
    assert [(p.kind, p.name) for p in choose(PROMPTS, None, None)] == [
        ("code", "one"),
        ("chat", "one"),
        ("code", "two"),
    ]
    assert [p.kind for p in choose(load_suite(), None, None)][: len(KINDS)] == list(KINDS)


def test_kinds_are_chosen_and_wrong_ones_named() -> None:
    assert [p.name for p in choose(PROMPTS, None, 1)] == ["one", "one"]
    assert [p.kind for p in choose(PROMPTS, ["chat"], None)] == ["chat"]
    with pytest.raises(UsageError, match='kind "cod"'):
        choose(PROMPTS, ["cod"], None)


# The benchmark


def test_a_benchmark_counts_its_steps_keeps_its_runs_and_makes_a_table() -> None:
    kept: list[tuple[Prompt, int, Round]] = []
    seen, done = run_bench(make_pair(), keep=lambda *one: kept.append(one))

    assert [(prompt, number) for prompt, number, _ in kept] == [(p, n) for n in (1, 2) for p in PROMPTS]
    assert [one.rounds for one in done] == [tuple(r for p, _, r in kept if p == prompt) for prompt in PROMPTS]
    assert [one.prompt for one in done] == list(PROMPTS)
    table = rows(done, NAMES)
    assert [(row.kind, row.prompts) for row in table] == [("code", 2), ("chat", 1), ("all", 3)]
    assert table[-1].of("fixed").acceptance == 1.0
    assert seen[-1].total == 3 * (3 * 2 + 1)
    assert any(p.done == p.total for p in seen)
    lefts = [p.left_s for p in seen if p.left_s is not None]
    assert lefts[-1] == 0.0


def test_a_table_begins_with_the_ratios_and_drops_what_is_behind_them_where_it_is_narrow() -> None:
    _, done = run_bench(make_pair())
    table = rows(done, NAMES)
    text = table_lines(table)
    assert text[0].split() == ["fixed", "automatic", "no", "draft", "acceptance", "tokens/step"]
    assert "all" in text[3]
    assert text[4:] in ([], ["", "? too few runs to tell"])
    for at in (text[0].index("fixed"), text[0].index("automatic")):
        assert all(re.match(r"  \d+\.\d+×", line[at - 2 :]) for line in text[1:4]), "below their heading"
    narrow = table_lines(table, 79)
    assert max(map(len, narrow)) <= 79
    assert " to " not in narrow[1]
    narrower = table_lines(table, 38)
    assert max(map(len, narrower[:4])) <= 38
    assert narrower[0].split() == ["fixed", "automatic", "no", "draft"]


def test_the_bound_has_a_column_where_it_was_reckoned() -> None:
    _, done = run_bench(make_pair(), repeat=1)
    reckoned = rows([replace(one, oracle=2.0) for one in done], NAMES)
    assert "upper bound" in table_lines(reckoned)[0]
    assert "| upper bound |" in markdown(Card("a", reckoned, {}))
    assert "upright mark" in svg(Card("a", reckoned, {}))
    plain = rows(done, NAMES)
    assert "upper bound" not in table_lines(plain)[0]
    assert "bound" not in markdown(Card("a", plain, {})) + svg(Card("a", plain, {}))


def test_where_nothing_was_drafted_the_table_has_no_ratio() -> None:
    alone = FakePair(FakeModel(script(range(10, 30), 3)))
    sides = [in_process(alone, "plain", None), in_process(alone, "automatic", AutoDraft())]
    plan = Plan(sides, PROMPTS[:1], REQUEST, 3, enough=lambda raced: settled(rows(raced, ["plain", "automatic"])))
    done = list_of(benchmark(alone, plan, lambda: False, lambda: 0))
    assert len(done[0].rounds) == 1, "the same work again tells nothing more"
    table = rows(done, ["plain", "automatic"])
    assert table_lines(table)[1].split()[:3] == ["code", "no", "draft"]
    assert table[0].of("automatic").ratio is not None, "scripts still find what the clock said"
    card = Card("a", table, {})
    assert "x" not in "".join(re.findall(r">no draft, ([^<]*)<", svg(card)))
    assert re.search(r">no draft, [\d.]+ tok/s<", svg(card))
    assert "| no draft |" in markdown(card)


def list_of(work: Generator[Progress, None, list[Raced]]) -> list[Raced]:
    steps = Steps(work)
    for _ in steps:
        pass
    return steps.result


def test_only_the_first_prompt_warms_up() -> None:
    pair = make_pair()
    _, done = run_bench(pair)
    assert len(pair.samplers) == 3 + 3 * 2 * 3
    assert {len(one.rounds) for one in done} == {2}


def test_a_stop_keeps_what_is_done() -> None:
    pair = make_pair()
    _, done = run_bench(pair, lambda: len(pair.samplers) > 15)

    # Three to warm up and nine a round: the first prompt has finished a second one.
    assert [(one.prompt.name, len(one.rounds)) for one in done] == [("one", 2), ("two", 1), ("one", 1)]
    assert n_whole(done, len(PROMPTS)) == 1
    assert n_whole(done[:2], len(PROMPTS)) == 0
    row = rows(done, NAMES)[0]
    assert (row.prompts, len(row.measured)) == (2, 3)
    assert row.measured[0].tokens_per_second is not None
    assert row.measured[0].tokens_per_second.n == 1, "a sum has the rounds that all of it has"


def test_rounds_that_would_tell_nothing_more_are_left_out() -> None:
    asked: list[list[int]] = []

    def enough(raced: Sequence[Raced]) -> bool:
        asked.append([len(one.rounds) for one in raced])
        return len(asked) == 2

    _, done = run_bench(make_pair(), repeat=9, enough=enough)
    assert asked == [[1, 1, 1], [2, 2, 2]]
    assert {len(one.rounds) for one in done} == {2}


def verdicts(*ratios: float) -> Row:
    side = measure([], "fixed", "plain")
    return Row("code", 1, (side, replace(side, ratio=spread(ratios))), None)


def test_it_is_settled_once_everybody_is_known_to_be_faster_or_not() -> None:
    assert settled([verdicts(2.0, 2.01)])
    assert settled([verdicts(1.0, 1.001, 1.0)])
    assert not settled([verdicts(2.0)])
    assert not settled([verdicts(2.0, 2.01), verdicts(0.9, 1.2)])
    assert not settled([replace(verdicts(1.0), measured=(measure([], "a", "a"), measure([], "b", "a")))])


# The time left


def ran(name: str, tokens: int, *, prompt: int = 10, read_s: float = 1.0, write_s: float = 1.0) -> Run:
    stats = GenerationStats(
        prompt_n=prompt, prompt_ns=int(read_s * 1e9), predicted_n=tokens, predicted_ns=int(write_s * 1e9)
    )
    return Run(name, (), (), "", FinishReason.LENGTH, stats)


def test_the_time_left_is_told_by_what_is_known_best() -> None:
    one, two, three = PROMPTS
    left = TimeLeft({one: 10, two: 10, three: 100}, 8)
    assert left.seconds([(one, "plain")]) is None, "nothing is known"
    left.warmed_up(ran("plain", 2).stats)
    assert left.seconds([(one, "plain")]) == pytest.approx(1 + 8 * 0.5)
    left.took(one, ran("plain", 4, write_s=2.0), 3.5)
    assert left.seconds([(one, "plain")]) == pytest.approx(3.5), "that very run"
    # A tenth of a second a prompt token; answers have four tokens, of half a second.
    assert left.seconds([(three, "plain"), (one, "plain")]) == pytest.approx(10 + 2 + 3.5)
    assert left.seconds([]) == 0.0


def test_before_the_first_run_earlier_answers_tell() -> None:
    costs = CostModel(CostProfile({1: 1e9, 64: 6.4e9}))
    assert TimeLeft({PROMPTS[0]: 20}, 8, costs).seconds([(PROMPTS[0], "plain")]) == pytest.approx(8 + 2, rel=0.05)
    assert TimeLeft({}, None, costs).seconds([(PROMPTS[0], "plain")]) is None, "answers may be of any length"


def test_the_bound_takes_time_too() -> None:
    one, two, _ = PROMPTS
    left = TimeLeft({}, 8)
    left.took(one, ran("plain", 4), 3.0)
    assert left.seconds([(one, "plain")], [two]) is None, "no one knows how fast the draft is"
    left.reckoned(8, 16.0)
    assert left.seconds([(one, "plain")]) == pytest.approx(3.0)
    assert left.seconds([(one, "plain")], [one, two]) == pytest.approx(3.0 + 2 * 4 * 2.0)
    costs = CostModel(CostProfile({1: 1e9, 64: 6.4e9}, draft_ns=1e8))
    assert TimeLeft({}, 8, costs).seconds([], [one]) == pytest.approx(8 * DEPTH * 0.1)
    assert TimeLeft({}, 8, CostModel(CostProfile({1: 1e9}))).seconds([]) == 0.0


def test_the_time_left_has_the_bound_until_it_is_reckoned(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]

    def reckon(*_: object) -> float:
        now[0] += 80 * 10**9
        return 2.0

    monkeypatch.setattr("app.compare.benchmark.upper_bound", reckon)
    pair = make_pair()
    plan = Plan(contenders(pair), PROMPTS, REQUEST, 2, oracle=True)
    lefts = [at.left_s for at in benchmark(pair, plan, lambda: False, lambda: now[0]) if at.left_s is not None]
    # Answers take no time by this clock, and the bound of each, of 8 tokens, 80 s: two are to come behind the first.
    assert list(dict.fromkeys(map(round, lefts))) == [160, 80, 0]
    assert plan.to_reckon() == list(PROMPTS)
    assert plan.to_reckon(PROMPTS[:1]) == list(PROMPTS[1:])
    assert replace(plan, sources=("ngram",)).to_reckon() == [], "what an n-gram drafting could do takes no time"
    assert replace(plan, oracle=False).to_reckon() == []


BOTH = ("model", "ngram")


def test_the_oracle_is_reckoned_from_the_answer_and_the_costs() -> None:
    pair = make_pair()
    _, done = run_bench(pair, repeat=1)
    plain_ns = done[0].rounds[0]["plain"].ns_per_token
    assert plain_ns is not None
    # A batch costs as much as a token and drafts cost nothing: seven tokens in one round.
    profile = CostProfile({1: plain_ns, 64: plain_ns}, draft_ns=0.0)
    pair.memory = PairStatistics(CostModel(profile))
    assert upper_bound(pair, PROMPTS[0], done[0].rounds[0], lambda: False, BOTH) == pytest.approx(7.0)
    assert upper_bound(pair, PROMPTS[0], done[0].rounds[0], lambda: True, BOTH) is None
    # Where two drafted tokens are all that can be taken back: two rounds of three, and one token.
    pair.memory = PairStatistics(CostModel(replace(profile, widest=3)))
    assert upper_bound(pair, PROMPTS[0], done[0].rounds[0], lambda: False, BOTH) == pytest.approx(7 / 3)


def test_the_oracle_has_the_drafts_of_those_that_take_part() -> None:
    pair = make_pair()
    _, done = run_bench(pair, repeat=1)
    plain = done[0].rounds[0]["plain"]
    assert plain.ns_per_token is not None
    pair.memory = PairStatistics(CostModel(CostProfile({1: plain.ns_per_token, 64: plain.ns_per_token}, draft_ns=0.0)))
    assert upper_bound(pair, PROMPTS[0], {"plain": plain}, lambda: False, ["ngram"]) == pytest.approx(1.0)
    said_before = replace(plain, prompt=(*plain.prompt, *plain.tokens, *plain.prompt))
    found = upper_bound(pair, PROMPTS[0], {"plain": said_before}, lambda: False, ["ngram"])
    assert found is not None
    assert found > 2.0
    short = upper_bound(pair, PROMPTS[0], {"plain": said_before}, lambda: False, ["ngram"], 30)
    assert short == pytest.approx(1.0), "so many tokens never agree"
    pair.drafter = None
    assert upper_bound(pair, PROMPTS[0], {"plain": said_before}, lambda: False, ["model"]) == pytest.approx(1.0)


def test_a_curve_that_is_wrong_about_plain_tokens_is_not_reckoned_with() -> None:
    pair = make_pair()
    _, done = run_bench(pair, repeat=1)
    plain_ns = done[0].rounds[0]["plain"].ns_per_token
    assert plain_ns is not None
    pair.memory = PairStatistics(CostModel(CostProfile({1: 9 * plain_ns, 64: 9 * plain_ns}, draft_ns=0.0)))
    assert upper_bound(pair, PROMPTS[0], done[0].rounds[0], lambda: False, BOTH) is None


def test_steps_are_told_on_request() -> None:
    _, done = run_bench(make_pair(), repeat=1)
    prompt, (round_,) = done[0].prompt, done[0].rounds
    with_steps = round_json(prompt, 7, round_, steps=True)
    assert {line["round"] for line in with_steps} == {7}
    assert [line["contender"] for line in with_steps] == NAMES
    assert sum(step["tokens"] for step in with_steps[1]["steps"]) == with_steps[1]["predicted_n"] - 1
    assert "steps" not in round_json(prompt, 7, round_, steps=False)[0]
    json.dumps(with_steps)


# Chi-square


@pytest.mark.parametrize(
    ("statistic", "freedom", "p"),
    # The 5 and 1 percent points of the usual tables.
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (7.815, 3, 0.05), (18.307, 10, 0.05), (21.666, 9, 0.01), (135.807, 100, 0.01)],
)
def test_p_is_that_of_the_tables(statistic: float, freedom: int, p: float) -> None:
    assert chi_square_p(statistic, freedom) == pytest.approx(p, rel=2e-3)


def test_rare_answers_are_taken_together() -> None:
    same = Counter({"a": 50, "b": 40, **{f"r{i}": 1 for i in range(10)}})
    assert homogeneity(same, same.copy()) == (0.0, 2)
    statistic, freedom = homogeneity(Counter({"a": 60, "b": 40}), Counter({"a": 40, "b": 60}))
    assert (round(statistic, 6), freedom) == (8.0, 1)
    assert homogeneity(Counter({"a": 9}), Counter({"a": 9})) == (0.0, 0)


# History

FACTS = Facts("EPYC", "Big", "Small", "suite", {"driver": "550", "llama.cpp": "1"})


def result(speed: float, width: float = 0.0, **details: str) -> Result:
    spread = Spread(speed, speed - width / 2, speed + width / 2, 3)
    return Result("2026-11-21T10:00:00Z", {**FACTS.details, **details}, {"code": {"automatic": spread}})


def test_results_are_kept_and_read_again(tmp_path: Path) -> None:
    history = History(tmp_path / "deep", FACTS)
    assert history.results() == []
    assert history.add(result(50.0))
    assert history.add(result(60.0, driver="551"))
    assert History(tmp_path / "deep", FACTS).results() == [result(50.0), result(60.0, driver="551")]
    other = Facts("EPYC", "Big", "Other", "suite", {})
    assert History(tmp_path / "deep", other).results() == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 9}', '{"format": 1, "results": [{"when": 1}]}', '{"format":1,"results":3}']
)
def test_a_damaged_history_begins_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{FACTS.key}.json").write_text(text)
    history = History(tmp_path, FACTS)
    assert history.results() == []
    assert history.add(result(1.0))
    assert history.results() == [result(1.0)]


def test_of_very_many_files_those_that_nothing_was_added_to_for_longest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.compare.history._MOST_FILES", 3)
    for name, when in {"newer": 3, "oldest": 1, "older": 2}.items():
        file = tmp_path / f"{name}.json"
        file.write_text("{}")
        os.utime(file, (when, when))
    (tmp_path / "note.txt").touch()
    history = History(tmp_path, FACTS)
    assert history.add(result(1.0))
    os.utime(tmp_path / f"{FACTS.key}.json", (0, 0))
    assert history.add(result(2.0))

    assert {file.name for file in tmp_path.iterdir()} == {
        f"{FACTS.key}.json",
        "newer.json",
        "older.json",
        "note.txt",
    }
    assert history.results() == [result(1.0), result(2.0)]


def raced(ratio: float) -> dict[str, Spread]:
    return {name: Spread(speed, speed, speed, 1) for name, speed in (("plain", 2.0), ("automatic", 2.0 * ratio))}


def test_the_latest_result_of_a_pair_on_this_processor_tells_its_speedup(tmp_path: Path) -> None:
    def kept(when: str, ratio: float, machine: str = "EPYC, A card", kinds: tuple[str, ...] = ("",)) -> None:
        facts = replace(
            FACTS, machine=machine, suite=when, details={"target": "big.gguf, Q4_0", "draft": "s.gguf, Q8_0"}
        )
        figures = {name: Spread(speed, speed, speed, 1) for name, speed in (("plain", 2.0), ("automatic", 2.0 * ratio))}
        History(tmp_path, facts).add(Result(when, facts.details, dict.fromkeys(kinds, figures)))

    kept("2026-11-21T10:00:00Z", 1.2)
    kept("2026-11-23T10:00:00Z", 1.5)
    kept("2026-11-22T10:00:00Z", 1.3)
    kept("2026-11-24T10:00:00Z", 9.9, machine="EPYC 2")
    History(tmp_path, FACTS).add(result(1.0))
    (tmp_path / "damaged.json").write_text("{")

    assert speedups(tmp_path, "EPYC") == {("big.gguf", "s.gguf"): 1.5}
    assert speedups(tmp_path / "none", "EPYC") == {}


def test_the_speedup_of_a_suite_is_that_of_all_kinds_of_text(tmp_path: Path) -> None:
    details = {"target": "big.gguf, Q4_0"}
    History(tmp_path, FACTS).add(Result("2026", details, {"code": raced(3.0), "chat": raced(1.0), "all": raced(1.5)}))

    assert speedups(tmp_path, "EPYC") == {("big.gguf", ""): 1.5}


def test_a_disk_that_refuses_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not History(tmp_path / "file", FACTS).add(result(1.0))


def test_slower_than_the_noise_is_said_with_what_changed() -> None:
    said = "\n".join(remark([result(100.0)], result(80.0, driver="551")))
    assert "code, automatic: 80.0 tok/s, was 100.0 (0.80×)" in said
    assert "What changed: driver: 550 -> 551." in said
    assert "Nothing that is recorded has changed" in "\n".join(remark([result(100.0)], result(80.0)))


def test_within_the_noise_nothing_is_said() -> None:
    assert remark([result(100.0)], result(98.0)) == []
    assert slower(result(100.0, width=30.0), result(80.0)) == []
    assert slower(result(100.0), result(80.0, width=30.0)) == []
    assert remark([], result(1.0)) == []
    assert remark([result(100.0)], result(120.0)) == []


def test_changes_name_what_came_and_went() -> None:
    before = Result("", {"draft": "q8", "threads": "2"}, {})
    now = Result("", {"draft": "q4", "threads": "2", "server": "b1"}, {})
    assert changes(before, now) == ["draft: q8 -> q4", "server: none -> b1"]


# The card


def table() -> list[Row]:
    _, done = run_bench(make_pair(), repeat=2)
    assert figures(rows(done, NAMES))["code"]["plain"].n == 2
    return rows(done, NAMES)


def test_a_card_shows_what_was_measured_and_nothing_else() -> None:
    card = Card("Big + Small", table(), {"machine": "EPYC", "target sha256": "ab" * 32}, ["stopped early"])
    picture = ElementTree.fromstring(svg(card))
    texts = "".join(picture.itertext())
    for word in ("Big + Small", "code", "chat", "all", "EPYC", "ab" * 32, "stopped early", "no draft"):
        assert word in texts
    text = markdown(card)
    long = ElementTree.fromstring(svg(Card("word " * 30, [], {})))
    assert len([e for e in long.iter() if e.get("font-weight") == "600"]) == 3, "a long title takes more lines"
    head, rule, *lines = [line for line in text.splitlines() if line.startswith("|")]
    assert head.count("|") == rule.count("|")
    assert {line.count("|") for line in lines} == {head.count("|")}
    assert "target sha256: " + "ab" * 32 in text


def test_where_nothing_was_drafted_the_card_has_no_figures_of_drafts() -> None:
    def undrafted(row: Row) -> Row:
        return replace(row, measured=tuple(replace(m, acceptance=None, tokens_per_verify=1.0) for m in row.measured))

    undrafted_table = [undrafted(row) for row in table()]
    head, _rule, *lines = [line for line in markdown(Card("a", undrafted_table, {})).splitlines() if "|" in line]
    accepted = head.split("|").index(" acceptance ")
    assert {cell.strip() for line in lines for cell in line.split("|")[accepted : accepted + 2]} == {""}


def test_hostile_names_stay_text() -> None:
    evil = '</text><script>x</script>\x1b[31m"&\u202e\ufffe| [a](b)'
    card = Card(evil, table(), {evil: evil}, [evil])
    picture = svg(card)
    assert "<script" not in picture
    assert "\x1b" not in picture + markdown(card)
    assert "\u202e" not in picture + markdown(card)
    assert not [e for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("script")]
    text = markdown(card)
    assert "<script>" not in text
    assert "[a](b)" not in text


def test_an_empty_card_is_still_a_card() -> None:
    ElementTree.fromstring(svg(Card("nothing", [], {})))
    assert markdown(Card("nothing", [], {}))
    assert table_lines([]) == []


def test_one_lucky_run_makes_no_later_one_slow() -> None:
    earlier = [result(100.0), result(101.0), result(130.0), result(99.0), result(128.0)]
    assert remark(earlier, result(97.0)) == []
    assert "was 101.0" in "\n".join(remark(earlier, result(60.0)))


def test_before_is_what_was_measured_in_the_same_way() -> None:
    earlier = [result(100.0), result(101.0), result(80.0, driver="551")]
    assert remark(earlier, result(79.5, driver="551")) == []
    said = "\n".join(remark(earlier, result(60.0, driver="552")))
    assert "was 80.0" in said
    assert "driver: 551 -> 552" in said


def test_what_was_measured_once_has_no_spread_and_must_differ_by_more() -> None:
    once = [
        replace(result(speed), speeds={"code": {"automatic": Spread(speed, speed, speed, 1)}})
        for speed in (100, 92, 80)
    ]
    assert remark(once[:1], once[1]) == []
    assert remark(once[:1], once[2])
