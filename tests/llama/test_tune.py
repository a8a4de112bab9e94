"""`tandem tune` on the demo pair, the way a shell sees it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.cli import main
from app.cli import tune as command
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.llama.pair import NativePair

pytestmark = pytest.mark.native
Quickly = Callable[..., subprocess.CompletedProcess[str]]
CELLS = {1: 100.0, 8: 200.0, 64: 300.0}
"""Nanoseconds that a token in the cache adds to a batch."""


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


def test_it_shows_the_staircase_and_keeps_it(quickly: Quickly, tmp_path: Path) -> None:
    done = quickly()

    assert done.returncode == 0
    # Its progress is for terminals; what runs is said to pipes as well.
    assert "Measuring the cost of verify steps; Ctrl+C stops." in done.stderr
    assert "batch" in done.stdout
    assert "A drafted token costs" in done.stdout
    (file,) = (tmp_path / "tandem" / "drafting").glob("*.json")
    kept = json.loads(file.read_text())
    assert len(kept["rows"]) >= 2
    assert kept["n_looks"] > 2, "no answer has to measure again soon"


@pytest.mark.parametrize(("cells", "said"), [({}, "From earlier answers: After"), (CELLS, "After")])
def test_what_a_context_costs_is_not_taken_for_measured_where_it_was_not(
    quickly: Quickly, monkeypatch: pytest.MonkeyPatch, cells: dict[int, float], said: str
) -> None:
    def calibrate(pair: NativePair, cancelled: object, **_: object) -> Iterator[float]:
        yield 1.0
        pair.memory = PairStatistics(CostModel(CostProfile({1: 1e6, 64: 2e6}, cells=cells)))

    known = PairStatistics(CostModel(CostProfile({1: 1e6, 64: 2e6}, cells=CELLS)))
    monkeypatch.setattr("app.llama.stored_measurements.load_statistics", lambda file: known)
    monkeypatch.setattr(NativePair, "calibrate", calibrate)

    assert f"\n{said} 8,000 tokens" in quickly().stdout


def test_a_model_alone_has_no_draft_to_follow(quickly: Quickly, demo_target: Path) -> None:
    done = quickly("--target", str(demo_target))

    assert done.returncode == 0
    assert "N-gram" in done.stdout
    rows = [line for line in done.stdout.splitlines() if " ms " in line]
    assert len(rows) > 3
    assert not any("model" in row for row in rows)


def test_what_cannot_be_kept_is_told(quickly: Quickly, tmp_path: Path) -> None:
    (tmp_path / "tandem").mkdir()
    (tmp_path / "tandem" / "drafting").write_text("a file where the folder should be")

    done = quickly("--no-lookup")

    assert done.returncode == 0
    assert "A drafted token costs" in done.stdout
    assert "-gram" not in done.stdout
    assert f"The measurements could not be saved in {tmp_path / 'tandem'}" in done.stderr
