"""`tandem tune` on the demo pair."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main
from app.cli import tune as command

pytestmark = pytest.mark.native
Quickly = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quickly:
    """Run in this process with a small budget; the output does not depend on it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(command, "_BUDGET_NS", 1_000_000_000)
    monkeypatch.setattr(command, "_PASSES", 1)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = main(["tune", "--threads", "1", *arguments])
        out, errors = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, errors)

    return run


def test_tune_shows_and_stores_the_costs(quickly: Quickly, tmp_path: Path) -> None:
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


def test_a_target_alone_is_measured_for_n_grams(quickly: Quickly, demo_target: Path) -> None:
    done = quickly("--target", str(demo_target))

    assert done.returncode == 0
    assert "N-gram" in done.stdout
    rows = [line for line in done.stdout.splitlines() if " ms " in line]
    assert len(rows) > 3
    assert not any("model" in row for row in rows)
