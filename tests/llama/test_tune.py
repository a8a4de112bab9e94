"""`tandem tune` on the demo pair."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from app.cli import draft_comparison, tune
from tests.llama.gguf_files import I32, Array
from tests.llama.tiny_heads import write_dflash, write_mtp
from tests.tandem import Tandem

pytestmark = pytest.mark.native


@pytest.fixture
def quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tandem: Tandem) -> Tandem:
    """Return a function that runs the command with a small budget; the output does not depend on it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for module in (draft_comparison, tune):
        monkeypatch.setattr(module, "BUDGET_NS", 1_000_000_000)
        monkeypatch.setattr(module, "TIMING_PASSES", 1)
    monkeypatch.setattr(draft_comparison, "_DRAFT_BUDGET_NS", 200_000_000)
    return partial(tandem, "tune", "--threads", "1")


def test_tune_shows_and_stores_the_costs(quickly: Tandem, tmp_path: Path) -> None:
    done = quickly()

    # Its progress is only for terminals; pipes get the announcement too.
    assert "Measuring the cost of verify steps; Ctrl+C stops." in done.err
    assert "batch" in done.out
    assert "A drafted token costs" in done.out
    (file,) = (tmp_path / "tandem" / "drafting").glob("*.json")
    kept = json.loads(file.read_text())
    assert len(kept["rows"]) >= 2
    assert kept["n_looks"] > 2, "no answer has to measure again soon"


def test_a_target_alone_is_measured_for_n_grams(quickly: Tandem, demo_target: Path) -> None:
    done = quickly("--target", str(demo_target))

    assert "N-gram" in done.out
    rows = [line for line in done.out.splitlines() if " ms " in line]
    assert len(rows) > 3
    assert not any("model" in row for row in rows)


def test_several_drafts_are_compared_and_the_best_is_named(
    quickly: Tandem, demo_target: Path, demo_draft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_comparison, "_SAMPLE_TOKENS", 16)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Name three rivers.\nWhy is the sky blue?\n")
    both = ("--draft", str(demo_draft), "--draft", str(demo_target))
    done = quickly(*both, "--prompts", str(prompts), "--json")

    found = done.json
    assert tuple(found) == ("target", "device", "tokens", "drafts", "best")
    assert 2 <= found["tokens"] <= 32
    rows = {Path(row["draft"]): row for row in found["drafts"]}
    # The target as its own draft is always right.
    itself, own = rows[demo_target], rows[demo_draft]
    assert itself["acceptance"] > 0.9
    assert itself["kl_divergence"] < 0.05 < own["kl_divergence"]
    assert own["acceptance"] < 1.0
    assert min(itself["draft_ms"], own["draft_ms"]) > 0
    speedups = [row["expected_speedup"] for row in found["drafts"]]
    assert speedups == sorted(speedups, reverse=True)


def test_the_mtp_layer_of_the_target_is_one_of_the_drafts(
    quickly: Tandem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_comparison, "_SAMPLE_TOKENS", 16)
    target, block = write_mtp(tmp_path / "target.gguf"), tmp_path / "block.gguf"
    write_dflash(block, dflash__target_layers=Array(I32, [0, 1]))
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Name three rivers.\n")
    known = ("--target", str(target), "--prompts", str(prompts))

    done = quickly(*known, "--draft", str(block), "--json")
    assert {(row["kind"], row["draft"]) for row in done.json["drafts"]} == {
        ("mtp", None),
        ("dflash", str(block)),
    }
    done = quickly(*known)
    assert [line.split()[:2] for line in done.out.splitlines() if line.startswith("MTP")] == [["MTP", "layer"]]


def test_a_draft_that_does_not_fit_is_left_out(
    quickly: Tandem, demo_draft: Path, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_comparison, "_SAMPLE_TOKENS", 2)
    other = str(tiny())
    done = quickly("--draft", str(demo_draft), "--draft", other)

    assert f"{Path(other).name}: Running without this draft. The vocabularies differ" in done.err
    assert demo_draft.name in done.out
    assert other not in done.out

    done = quickly("--draft", other, "--draft", str(tiny(general__name="another")), code=1)
    assert done.out == ""
    assert "None of these can be used as a draft." in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--draft", "a.gguf", "--draft", "missing.gguf"), 1, "a.gguf"),
        (("--draft", "owner/repo:Q4_0", "--draft", "b.gguf"), 1, "owner/repo:Q4_0 is not on this machine yet."),
        (("--prompts", "prompts.txt"), 2, "--prompts compares drafts."),
    ],
)
def test_wrong_drafts_are_refused_before_anything_is_loaded(
    quickly: Tandem, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = quickly(*arguments, code=code)

    assert said in done.err
    assert "Traceback" not in done.err
