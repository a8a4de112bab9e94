"""`tandem compare` and `tandem bench` over a pair without models: flags, output, files, exit codes."""

import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from app.cli import compare, race_session
from app.cli.command_line import KINDS, QUICK_KINDS, parse_args
from app.cli.compare import read_plan, verdict_lines
from app.cli.setting_flags import read_flags
from app.compare import report
from app.compare.benchmark import BenchmarkPlan, Prompt, ResultRow
from app.compare.measure import SideFigures, measure, spread
from app.compare.race import Run, sides_of
from app.core.errors import AppError, DecodeError, UsageError
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.stats import GenerationStats
from app.engine.types import AutoDraft, FinishReason, SamplingParams
from app.hardware.cpu import usable_processors
from app.llama.cancel import CancelFlag
from app.models.catalog import Pair
from app.models.source import parse_source
from app.settings.layers import DEFAULTS, Layer, Origin, Resolved, ThinkingSupport
from app.worker.known_pairs import KnownPair
from app.worker.pair_loader import PairLoader, pair_loader
from tests.cli.json_keys import JSON_KEYS
from tests.fakes import FakeModel, FakeSampler, mixing
from tests.llama.params import pair_params
from tests.pairs import FakePair
from tests.tandem import Said, Tandem


@pytest.fixture
def pair() -> FakePair:
    return FakePair(FakeModel(mixing(4)), FakeModel(mixing(4)))


@pytest.fixture
def tandem(
    pair: FakePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tandem:
    """Run a command on the fake pair; its errors are raised."""
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    params = pair_params(file, None, n_threads=1)
    monkeypatch.setattr(race_session, "NativePair", lambda *_: pair)
    monkeypatch.setattr(race_session, "measured_params", lambda loader, **more: params)
    monkeypatch.setattr(compare, "read_pair", read_pair)
    monkeypatch.setattr(race_session, "benchmarks_dir", lambda: tmp_path / "data" / "benchmarks")
    monkeypatch.setattr(race_session, "busy_cpus", lambda processors: 0.0)

    def run(*arguments: str, code: int = 0) -> Said:
        command = getattr(compare, arguments[0])
        assert command(**parse_args(arguments).given) == code
        return Said(*capsys.readouterr())

    return run


def read_pair(given: Mapping[str, Any], modes: object = (), *, use_recommended: bool = True) -> PairLoader:
    flags = {"sampling.temp": 0.0, "answer.max_tokens": 8, **read_flags(given)}
    return pair_loader(DEFAULTS.over(flags), KnownPair(Pair("fake", "Fake", parse_source("x.gguf"), None), None))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A file with one prompt for `tandem bench`."""
    file = tmp_path / "p.txt"
    file.write_text("abc\n")
    return file


def plan_of(arguments: str, of_file: Layer | None = None) -> BenchmarkPlan:
    """Return the plan of a benchmark with these flags and settings."""
    given = parse_args(["bench", *arguments.split()]).given
    settings = Resolved({Origin.FLAG: read_flags(given), Origin.FILE: of_file or {}})
    loader = pair_loader(settings, KnownPair(Pair("fake", "Fake", parse_source("x.gguf"), None), None))
    sides = sides_of(AutoDraft(), None)
    return read_plan(loader, sides, None, given.get("kinds"), None, quick="quick" in given)


def test_a_comparison_as_text(tandem: Tandem) -> None:
    shown = tandem("compare", "hello", "--fixed", "n_max=3,p_min=0")

    assert '"hello", greedy, 8 tokens at most, 3 rounds' in shown.out
    assert "fixed 3/0" in shown.out
    assert "automatic" in shown.out
    assert shown.out.count("identical output, 8 tokens") == 2
    assert "3 runs each, alternating" in shown.out
    assert shown.err == ""


def test_a_comparison_as_json(tandem: Tandem, tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    told = tandem("compare", "hello", "--json", "--repeat", "2", "--save", str(file)).json

    assert tuple(told) == JSON_KEYS["compare"]
    assert told == json.loads(file.read_text())
    assert list(told["contenders"]) == ["plain", "automatic"]
    assert told["contenders"]["automatic"]["same_tokens"] is True
    assert len(told["contenders"]["plain"]["runs"]) == told["rounds_done"] == 2


def test_results_beside_busy_programs_are_marked_and_not_stored(
    tandem: Tandem, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = str(tmp_path / "card")
    commands = (
        ("compare", "hello", "--repeat", "1"),
        ("bench", "--prompts", str(prompts), "--repeat", "1", "--card", card, "--force"),
    )
    for text in ("Other programs used all of it.", ""):
        for module in (compare, report):
            monkeypatch.setattr(module, "busy_programs", lambda rounds, text=text: text)
        for command in commands:
            shown = tandem(*command).out
            assert ("Not added to Tandem's history, because other programs were busy." in shown) == bool(text)
            assert text in shown
        assert ("Other programs" in (tmp_path / "card.md").read_text(encoding="utf-8")) == bool(text)
        assert (tmp_path / "data").exists() != bool(text)
    assert len(list((tmp_path / "data" / "benchmarks").iterdir())) == 1


def test_prompts_come_from_standard_input(tandem: Tandem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"abc\nbcd\n")))
    assert tandem("bench", "--prompts", "-", "--repeat", "1").err.startswith("2 prompts x 1 round")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"\n")))
    with pytest.raises(UsageError, match=r"^Standard input has no prompts"):
        tandem("bench", "--prompts", "-")


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare",),
        ("compare", "  "),
        ("compare", "x", "--repeat", "0"),
        ("compare", "x", "--fixed", "7"),
        ("compare", "x", "--no-draft"),
        ("bench", "--kinds", "verse"),
        ("bench", "--prompts", "/missing"),
        ("compare", "x", "--save", "/missing/folder/file"),
        ("compare", "x", "--save", "/"),
        ("bench", "--save", "/missing/folder/file"),
        ("bench", "--card", "/missing/folder/card"),
    ],
)
def test_wrong_usage_is_found_before_anything_runs(tandem: Tandem, pair: FakePair, arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        tandem(*arguments)
    assert error.value.exit_code == 2
    assert not pair.samplers, "nothing must be run before it is found out"


@pytest.mark.parametrize(
    ("arguments", "of_settings", "most"),
    [
        ("", None, 128),
        ("", 4096, 128),
        ("", 20, 20),
        ("--quick", 4096, 48),
        ("--max-tokens 4096", 4096, 4096),
        ("--max-tokens 300 --quick", 300, 300),
    ],
)
def test_settings_can_only_shorten_a_measurement(arguments: str, of_settings: int | None, most: int) -> None:
    assert plan_of(arguments, {"answer.max_tokens": of_settings}).request.max_tokens == most


def test_sigterm_keeps_the_rounds_before(
    tandem: Tandem, monkeypatch: pytest.MonkeyPatch, pair: FakePair, tmp_path: Path
) -> None:
    class EndedAfter(CancelFlag):
        def __call__(self) -> bool:
            if len(pair.samplers) == 6 and not super().__call__():
                signal.raise_signal(signal.SIGTERM)
            return super().__call__()

    monkeypatch.setattr(race_session, "CancelFlag", EndedAfter)
    shown = tandem("compare", "hello", "--save", str(tmp_path / "kept.json"), code=130)
    assert "1 round" in shown.out
    assert "Stopped after 1 of 3 rounds." in shown.err
    assert json.loads((tmp_path / "kept.json").read_text())["rounds_done"] == 1


def test_a_stop_before_anything(tandem: Tandem, monkeypatch: pytest.MonkeyPatch, pair: FakePair) -> None:
    monkeypatch.setattr(race_session, "CancelFlag", lambda: StopAfter(pair, 0))
    tandem("compare", "hello", code=130)
    assert tandem("bench", code=130).out == ""


class StopAfter:
    """A cancel flag that is set after this number of answers have begun."""

    def __init__(self, pair: FakePair, answers: int) -> None:
        self._pair, self._answers = pair, answers

    def __call__(self) -> bool:
        return len(self._pair.samplers) > self._answers

    def set(self) -> None:
        pass


def test_a_benchmark_with_everything(tandem: Tandem, tmp_path: Path) -> None:
    save, card = tmp_path / "runs.jsonl", tmp_path / "card"
    arguments = ("bench", "--quick", "--kinds", "code, chat", "--save", str(save), "--card", str(card))
    prompts = tmp_path / "p.toml"
    prompts.write_text("".join(f'[[prompt]]\nkind="{k}"\nname="n"\ntext="abc"\n' for k in ("code", "chat")))
    shown = tandem(*arguments, "--prompts", str(prompts))

    assert shown.out.startswith("automatic: "), "the answer comes first"
    assert shown.out.index("automatic: ") < shown.out.index("no draft") < shown.out.index("greedy, 8 tokens at most")
    *runs, last = [json.loads(line) for line in save.read_text().splitlines()]
    rounds = max(run["round"] for run in runs)
    assert [run["round"] for run in runs] == [n for n in range(1, rounds + 1) for _ in range(4)]
    assert last["type"] == "result"
    assert f", {rounds} alternating run" in last["facts"]["answers"]
    assert "answers: " in (tmp_path / "card.md").read_text()
    assert (tmp_path / "card.svg").read_text().startswith("<svg")
    (kept,) = (tmp_path / "data" / "benchmarks").iterdir()
    assert len(json.loads(kept.read_text())["results"]) == 1


@pytest.mark.parametrize("suffix", [".md", ".svg"])
def test_a_card_overwrites_no_file(tandem: Tandem, prompts: Path, tmp_path: Path, pair: FakePair, suffix: str) -> None:
    card = tmp_path / "README"
    there = card.with_suffix(suffix)
    there.write_text("mine")
    arguments = ("bench", "--quick", "--prompts", str(prompts), "--card", str(card))
    with pytest.raises(UsageError, match=rf"README\{suffix} exists already") as error:
        tandem(*arguments)
    assert "--force" in error.value.hint
    assert not pair.samplers
    assert there.read_text() == "mine"

    tandem(*arguments, "--force")
    assert "Fake" in there.read_text()


def test_a_stopped_benchmark_keeps_finished_prompts(
    tandem: Tandem, monkeypatch: pytest.MonkeyPatch, pair: FakePair, prompts: Path, tmp_path: Path
) -> None:
    prompts.write_text("abc\nbcd\ncde\n")
    monkeypatch.setattr(race_session, "CancelFlag", lambda: StopAfter(pair, 5))
    said = tandem("bench", "--prompts", str(prompts), "--repeat", "1", "--json", code=130).out
    *runs, last = map(json.loads, said.splitlines())
    assert tuple(last) == JSON_KEYS["bench"]

    assert [run["contender"] for run in runs] == ["plain", "automatic"]
    assert last["notes"] == ["stopped early after 5 of 8 answers"]
    assert not (tmp_path / "data").exists(), "half a suite is not comparable with a whole one"


@pytest.mark.parametrize(
    ("flags", "outcome", "rounds"),
    [((), "tie", 1), ((), "unclear", 3), (("--quick",), "tie", 1), (("--repeat", "2"), "tie", 2)],
)
def test_a_benchmark_ends_once_the_result_is_clear_unless_rounds_are_given(
    tandem: Tandem,
    monkeypatch: pytest.MonkeyPatch,
    prompts: Path,
    flags: tuple[str, ...],
    outcome: str,
    rounds: int,
) -> None:
    monkeypatch.setattr(SideFigures, "outcome", outcome)
    shown = tandem("bench", "--prompts", str(prompts), "--json", *flags)
    *runs, last = [json.loads(line) for line in shown.out.splitlines()]
    assert len(runs) == 2 * rounds
    assert last["notes"] == [], "it is whole"
    assert ("It stops early when the result is clear." in shown.err) == ("--repeat" not in flags)


def test_quick_is_a_prompt_each_of_a_few_kinds() -> None:
    def kinds(arguments: str) -> list[str]:
        return [prompt.kind for prompt in plan_of(arguments).prompts]

    assert kinds("--quick") == list(QUICK_KINDS)
    assert kinds("--quick --kinds reasoning") == ["reasoning"]
    assert len(kinds("")) >= 3 * len(KINDS)


@pytest.mark.parametrize(("alone", "slower"), [(True, "generation"), (False, "work on the CPU")])
def test_busy_programs_are_reported_before_the_models_are_loaded(
    tandem: Tandem, monkeypatch: pytest.MonkeyPatch, pair: FakePair, alone: bool, slower: str
) -> None:
    n = len(usable_processors())

    def busy(processors: int) -> float:
        assert not pair.samplers
        return 0.5 * n

    monkeypatch.setattr(race_session, "is_cpu_only_build", lambda: alone)
    monkeypatch.setattr(race_session, "busy_cpus", busy)
    shown = tandem("compare", "hello", "--repeat", "1").err
    assert shown.startswith(f"Other programs take {0.5 * n:.1f} of {n} CPU")
    assert f"so {slower} is slower; close them and rerun for reliable numbers" in shown
    monkeypatch.setattr(race_session, "busy_cpus", lambda processors: None)
    assert "Other programs" not in tandem("compare", "hello", "--repeat", "1").err


def breaks(pair: FakePair, answer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target fail in this answer, counted from 1."""
    answers, sampler = iter(range(1, 1000)), pair.new_sampler

    def new_sampler(params: SamplingParams, *more: Any) -> FakeSampler:
        if next(answers) == answer:
            raise DecodeError("The card is gone.")
        return sampler(params, *more)

    monkeypatch.setattr(pair, "new_sampler", new_sampler)


@pytest.mark.parametrize(
    ("is_raced", "rounds", "said"),
    [(False, 1, "Failed after 1 of 3 rounds.\n"), (True, 3, "Failed while comparing the texts.\n")],
)
def test_a_failed_comparison_shows_the_rounds_before(
    tandem: Tandem,
    monkeypatch: pytest.MonkeyPatch,
    pair: FakePair,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    is_raced: bool,
    rounds: int,
    said: str,
) -> None:
    if is_raced:
        monkeypatch.setattr("app.compare.job.explain", Mock(side_effect=DecodeError("The card is gone.")))
    else:
        # Both sides warm up, both answer once, and the first side of the second round fails.
        breaks(pair, 5, monkeypatch)
    with pytest.raises(DecodeError, match="The card is gone"):
        tandem("compare", "hello", "--json", "--save", str(tmp_path / "c.json"))
    shown = capsys.readouterr()

    assert (
        json.loads(shown.out)["rounds_done"] == json.loads((tmp_path / "c.json").read_text())["rounds_done"] == rounds
    )
    assert shown.err == said
    assert not (tmp_path / "data").exists(), "a part of a comparison is not comparable with a whole one"


def test_a_failed_benchmark_shows_the_prompts_before(
    tandem: Tandem, monkeypatch: pytest.MonkeyPatch, pair: FakePair, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts.write_text("abc\nbcd\ncde\n")
    breaks(pair, 6, monkeypatch)
    with pytest.raises(DecodeError, match="The card is gone"):
        tandem("bench", "--prompts", str(prompts), "--repeat", "1", "--json")
    *runs, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [run["contender"] for run in runs] == ["plain", "automatic"]
    assert last["type"] == "result"
    assert last["notes"] == ["failed at yours, 2 after 5 of 8 answers"]
    assert not (prompts.parent / "data").exists()


def test_the_plan_and_its_time_are_shown_first(tandem: Tandem, prompts: Path, pair: FakePair) -> None:
    prompts.write_text("abc\nbcd\n")
    pair.memory = PairStatistics(CostModel(CostProfile({1: 1e9, 64: 1e9})))
    said = tandem("bench", "--prompts", str(prompts), "--repeat", "1", "--json")
    plan = "2 prompts x 1 round x 2 sides (no draft, automatic), and 2 to warm up: 6 answers of 8 tokens at most"
    assert said.err == f"{plan}, about 48 s.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")
def test_a_full_disk_still_shows_the_result(tandem: Tandem, prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AppError, match="No space left"):
        tandem("bench", "--prompts", str(prompts), "--repeat", "1", "--save", "/dev/full")
    assert "automatic: " in capsys.readouterr().out


def test_extremes_are_among_the_drafted_kinds() -> None:
    def row(kind: str, ratio: float, *, is_idle: bool = False) -> ResultRow:
        plain = measure([], "plain", "plain")
        return ResultRow(kind, 1, (plain, replace(plain, name="automatic", ratio=spread([ratio]), is_idle=is_idle)))

    round_ = {name: Run(name, (), "", FinishReason.LENGTH, GenerationStats()) for name in ("plain", "automatic")}
    raced = {Prompt("code", "1", "abc"): [round_]}
    kinds = [row("code", 1.5), row("edit", 3.0), row("prose", 0.9, is_idle=True), row("chat", 4.0, is_idle=True)]
    whole = row("all", 1.6)
    assert verdict_lines(raced, [*kinds, whole])[-1] == "  most on edit, 3.0×; least on code, 1.5×"
    assert len(verdict_lines(raced, [*kinds[1:], whole])) == 1, "one kind alone has no extremes"


@pytest.mark.parametrize(
    ("flags", "name", "fact"),
    [
        (("--stop", "Schluß\u202e", "--stop", "\n", "--stop", 'a"'), "stops at", r'"Schlu\u00df\u202e", "\n", "a\""'),
        (("--thinking", "on", "--reasoning-effort", "low"), "thinking", "enabled True, effort low"),
        ((), "stops at", None),
        ((), "thinking", None),
    ],
)
def test_options_of_the_answer_are_among_the_facts(
    tandem: Tandem, flags: tuple[str, ...], name: str, fact: str | None
) -> None:
    assert tandem("compare", "hello", "--json", "--repeat", "1", *flags).json["facts"].get(name) == fact


def test_a_thinking_option_that_the_model_ignores_is_reported(tandem: Tandem, pair: FakePair) -> None:
    pair.info = replace(pair.info, thinking_support=ThinkingSupport(switchable=False))
    shown = tandem("compare", "hello", "--repeat", "1", "--json", "--thinking", "off")
    notice = "This model cannot turn reasoning on or off: --thinking changes nothing."
    assert shown.err.count(notice) == 1
    assert json.loads(shown.out)["notices"] == [notice]
