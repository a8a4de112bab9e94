"""`tandem tune` on the demo pair, the way a shell sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.cli import main
from app.cli import tune as command
from app.cli.json_keys import JSON_KEYS
from app.conversations.message import Message, Role
from app.core.paths import settings_file
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.llama.pair import NativePair
from app.settings.thinking import Thinking
from tests.replays import load_traces

pytestmark = pytest.mark.native
Quickly = Callable[..., subprocess.CompletedProcess[str]]
CELLS = {1: 100.0, 8: 200.0, 64: 300.0}
"""Nanoseconds that a token in the cache adds to a batch."""


def tune(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(home)}
    command = [sys.executable, "-m", "app", "tune", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


@pytest.fixture
def quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quickly:
    """The same in this process, with less care: what is made of the measurements does not depend on it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(command, "_BUDGET_NS", 2_000_000_000)
    monkeypatch.setattr(command, "_PASSES", 1)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = main(["tune", "--threads", "1", *arguments])
        out, errors = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, errors)

    return run


def test_threads_are_adapted_while_batches_are_measured(quickly: Quickly, monkeypatch: pytest.MonkeyPatch) -> None:
    adapted: list[NativePair] = []

    def calibrate(pair: NativePair, cancelled: object, **_: object) -> Iterator[float]:
        yield 0.5
        assert len(adapted) == 1
        yield 1.0
        pair.memory = PairStatistics(CostModel(CostProfile({1: 1e6, 64: 2e6})))

    monkeypatch.setattr(NativePair, "calibrate", calibrate)
    monkeypatch.setattr(NativePair, "yield_cpu", lambda pair: adapted.append(pair))

    assert quickly("--quick").returncode == 0
    assert len(adapted) == 2


def test_it_shows_the_staircase_and_keeps_it(quickly: Quickly, tmp_path: Path) -> None:
    done = quickly("--quick")

    assert done.returncode == 0
    # Its progress is for terminals; what runs is said to pipes as well.
    assert "Measuring what batches of tokens cost; ctrl+c ends it." in done.stderr
    assert "rows" in done.stdout
    assert "A drafted token costs" in done.stdout
    (file,) = (tmp_path / "tandem" / "drafting").glob("*.json")
    kept = json.loads(file.read_text())
    assert len(kept["rows"]) >= 2
    assert kept["n_looks"] > 2, "no answer has to measure again soon"


@pytest.mark.parametrize(("cells", "said"), [({}, "By what was learned before, after"), (CELLS, "After")])
def test_what_a_context_costs_is_not_taken_for_measured_where_it_was_not(
    quickly: Quickly, monkeypatch: pytest.MonkeyPatch, cells: dict[int, float], said: str
) -> None:
    def calibrate(pair: NativePair, cancelled: object, **_: object) -> Iterator[float]:
        yield 1.0
        pair.memory = PairStatistics(CostModel(CostProfile({1: 1e6, 64: 2e6}, cells=cells)))

    known = PairStatistics(CostModel(CostProfile({1: 1e6, 64: 2e6}, cells=CELLS)))
    monkeypatch.setattr("app.llama.stored_measurements.load_statistics", lambda file: known)
    monkeypatch.setattr(NativePair, "calibrate", calibrate)

    assert f"\n{said} 8,000 tokens" in quickly("--quick").stdout


def test_the_heat_map_follows_one_answer(quickly: Quickly, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    done = quickly("--json", "--heat-map", "Name a colour.", "--save-trace", str(trace))

    answer = json.loads(done.stdout)
    assert set(answer) >= set(JSON_KEYS["tune"])
    heat = answer["heat_map"]
    assert len(heat["speedups"]) == len(heat["n_max"])
    assert {len(row) for row in heat["speedups"]} == {len(heat["p_min"])}
    assert answer["oracle_speedup"] >= answer["best_fixed"]["speedup"] * 0.999
    (followed,) = load_traces(trace)
    assert len(followed.matches) == len(followed.confidences) == len(followed.text) - 1
    # The draft is the same model quantised further: it agrees with it most of the time.
    assert sum(followed.matches) > 0


def test_what_is_followed_is_asked_and_reckoned_as_the_settings_have_it(
    quickly: Quickly, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text('[draft]\nlookup_min_match = 5\n[answer]\nsystem = "Be brief."\nthinking = "off"\n')
    asked: list[object] = []

    def record(pair: NativePair, messages: tuple[Message, ...], *, thinking: Thinking, **_: object) -> Iterator[float]:
        asked.extend((messages, thinking))
        yield 1.0

    monkeypatch.setattr(command, "record", record)
    monkeypatch.setattr(command, "heat_map", lambda trace, costs, **reckoned: asked.append(reckoned))

    assert quickly("--heat-map", "Name a colour.").returncode == 0
    messages = (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Name a colour."))
    assert asked == [messages, Thinking(wanted=False), {"lookup": True, "min_match": 5}]


def test_the_end_of_the_context_cuts_how_far_the_answer_is_followed(quickly: Quickly, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    prompt = "Write a story about a fox. " * 29
    done = quickly("--ctx", "256", "--heat-map", prompt, "--save-trace", str(trace))

    assert done.returncode == 0, done.stderr
    (followed,) = load_traces(trace)
    assert len(followed.prompt) + len(followed.text) == 257
    assert len(followed.confidences[0]) == 12
    # In front of the last token one cell is left, and the last drafted token needs none.
    assert len(followed.confidences[-1]) == 1
    assert f"on this answer of {len(followed.text)} tokens:" in done.stdout


def test_what_was_measured_is_told_though_the_answer_cannot_be_followed(quickly: Quickly) -> None:
    done = quickly("--ctx", "256", "--heat-map", "Write a story about a fox. " * 60)

    assert done.returncode == 1
    assert "A drafted token costs" in done.stdout
    assert "single token" not in done.stdout
    assert "256" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_takes_nothing_from_the_heat_map(quickly: Quickly) -> None:
    done = quickly("--json", "--heat-map", "Name a colour.", "--save-trace", "/dev/full")

    assert done.returncode == 1
    assert json.loads(done.stdout)["heat_map"]["speedups"]
    assert "/dev/full cannot be written: No space left on device." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--quick", "--heat-map", "Hi"), "--quick follows no answer"),
        (("--heat-map", " "), "The prompt is empty."),
        (("--save-trace", "/nowhere/trace.jsonl"), "there is no folder"),
        (("--heat-map", "Hi", "--draft-source", "lookup"), "the draft model, which is left out"),
    ],
)
def test_what_could_only_be_ignored_is_refused_first(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = tune(tmp_path, *arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "tandem" / "drafting").exists()


def test_a_heat_map_without_a_draft_is_refused_first(tmp_path: Path, demo_target: Path) -> None:
    done = tune(tmp_path, "--target", str(demo_target), "--heat-map", "Hi")

    assert done.returncode == 2
    assert "needs a draft model" in done.stderr


@pytest.mark.parametrize("flag", ["--heat-map", "--save-trace"])
def test_a_draft_that_is_not_there_after_all_cannot_be_followed(
    tmp_path: Path, demo_target: Path, demo_draft: Path, flag: str
) -> None:
    with demo_draft.open("rb") as whole:
        (cut := tmp_path / "cut.gguf").write_bytes(whole.read(100_000))
    trace = tmp_path / "trace.jsonl"
    done = tune(tmp_path, "--target", str(demo_target), "--draft", str(cut), flag, str(trace))

    assert done.returncode == 1
    assert f"Running without a draft. {cut} is cut short: " in done.stderr
    assert "follows the draft model, and this target runs without one" in done.stderr
    assert not (tmp_path / "tandem" / "drafting").exists(), "it is said before anything is measured"


def test_a_model_alone_has_no_draft_to_follow(quickly: Quickly, demo_target: Path) -> None:
    done = quickly("--target", str(demo_target))

    assert done.returncode == 0
    assert "Look-up" in done.stdout
    rows = [line for line in done.stdout.splitlines() if " ms " in line]
    assert len(rows) > 3
    assert not any("model" in row for row in rows)


def test_what_cannot_be_kept_is_told(quickly: Quickly, tmp_path: Path) -> None:
    (tmp_path / "tandem").mkdir()
    (tmp_path / "tandem" / "drafting").write_text("a file where the folder should be")

    done = quickly("--quick", "--no-lookup")

    assert done.returncode == 0
    assert "A drafted token costs" in done.stdout
    assert "ook-up" not in done.stdout
    assert f"This could not be kept in {tmp_path / 'tandem'}" in done.stderr
