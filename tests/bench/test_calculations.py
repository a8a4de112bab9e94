"""Calculations of the benchmarks: ratios, verdicts, contenders and published tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.cache import TokenCache
from app.engine.drafting_report import Speedup
from tests.bench.interleaved import Claim
from tests.bench.published import TABLES, Table, best_length, results
from tests.bench.rivals import NGRAM, rivals
from tests.bench.steady import Race, StepTime, steady
from tests.bench.upper_bound import teacher_forced
from tests.fakes import N_VOCAB, FakeModel, mixing, script

_SINGLE = StepTime(1, 1, 100, 0)


def _race(prompt: str, *drafted: StepTime, speed: int = 1, reading_ns: int = 0) -> Race:
    """Return a race of three steps with no draft against drafted ones; `speed` multiplies the time of the former."""
    single = [StepTime(1, 1, 100 * speed, 0)] * 3
    return Race(prompt, {"plain": single, "auto": drafted}, {"plain": 0, "auto": reading_ns})


def test_a_step_counts_the_median_of_its_batch_size() -> None:
    usual, slow = StepTime(3, 3, 150, 0), StepTime(3, 3, 900, 0)
    ratios = steady([_race("a", usual), _race("b", slow), _race("c", usual)])
    assert ratios["a"]["auto"] == ratios["b"]["auto"] == ratios["c"]["auto"] == pytest.approx(2.0)


def test_a_slow_race_changes_no_ratio() -> None:
    ratios = steady([_race("a", StepTime(3, 2, 150, 0)), _race("b", StepTime(3, 2, 600, 0), speed=4)])
    assert ratios["a"]["auto"] == ratios["b"]["auto"] == pytest.approx(2.0)


def test_drafting_and_the_prompt_count_the_measured_time() -> None:
    ratios = steady([_race("a", StepTime(3, 2, 100, 30), _SINGLE, reading_ns=70)])
    assert ratios["a"]["auto"] == pytest.approx(4 / 3)


def test_several_races_of_a_prompt_give_their_median() -> None:
    two, one = StepTime(2, 2, 100, 0), StepTime(1, 2, 100, 0)
    assert steady([_race("a", two), _race("a", one), _race("a", two)])["a"]["auto"] == pytest.approx(2.0)


def test_the_ratio_of_no_draft_is_one() -> None:
    assert steady([_race("a", StepTime(3, 2, 150, 0))])["a"]["plain"] == pytest.approx(1.0)


_DRAFT = Path("draft.gguf")


def test_n_grams_and_the_draft_model_run_alone_and_together() -> None:
    kinds = {name: flags[flags.index("--spec-type") + 1] for name, flags in rivals(_DRAFT).items() if flags}

    assert kinds["server ngram-simple"] == "ngram-simple"
    assert kinds["server draft n7 p0.6"] == "draft-simple"
    assert kinds["server ngram-simple+draft n7 p0.6"] == "ngram-simple,draft-simple"
    assert kinds["server ngram-simple n4 m7+draft n7 p0.6"] == "ngram-simple,draft-simple"


def test_only_model_drafts_load_the_draft_model() -> None:
    assert {name for name, flags in rivals(_DRAFT).items() if _DRAFT in flags} == {
        name for name in rivals(_DRAFT) if "draft" in name
    }


def test_n_gram_drafts_are_at_least_as_long_as_their_match() -> None:
    # It proposes nothing if fewer than n tokens follow the match, so a shorter m would turn it off.
    assert all(m >= n for n, m in NGRAM)


def test_without_a_draft_model_only_n_grams_run() -> None:
    assert not [name for name in rivals(None) if "draft" in name]
    assert "server ngram-simple n4 m7" in rivals(None)


@pytest.mark.parametrize(
    ("verdict", "measured", "wrong"),
    [
        ("winning", 1.2, False),
        ("winning", 0.98, True),
        ("losing", 0.9, False),
        ("losing", 1.1, True),
        ("break-even", 0.9, False),
        ("", 0.5, False),
    ],
)
def test_a_verdict_is_wrong_if_the_measured_speedup_contradicts_it(verdict: str, measured: float, wrong: bool) -> None:
    assert Claim("code 1", "auto", Speedup(1.3, verdict != "", verdict), measured).is_wrong is wrong


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_automatic_drafting_is_as_fast_as_the_best_length_of_each_text(table: Table) -> None:
    found = results(table)

    for kind, speeds in table.speeds.items():
        row = found[kind]
        assert row["auto"] >= row[best_length(row)], kind
        for n, speed in speeds.items():
            # Two texts share one machine, so its costs are means.
            assert row[str(n)] == pytest.approx(speed, rel=0.01 if len(table.speeds) == 1 else 0.05)


PROMPT = (1, 2, 3)
TEXT = (10, 11, 12, 13, 14, 15)


def test_teacher_forced_drafts_end_at_the_context() -> None:
    # The answer ended because the context of eight was full; its last token was not evaluated.
    draft = TokenCache(FakeModel(script(TEXT, len(PROMPT)), n_ctx=8))
    views = list(teacher_forced(draft, N_VOCAB, PROMPT, TEXT, depth=4))

    assert [matches for matches, _ in views] == [4, 4, 3, 2, 1]
    assert [len(confidences) for _, confidences in views] == [4, 4, 3, 2, 1]


def test_a_teacher_forced_draft_does_not_depend_on_earlier_ones() -> None:
    wrong = TokenCache(FakeModel(mixing(7)))
    alone = [
        list(teacher_forced(TokenCache(FakeModel(mixing(7))), N_VOCAB, PROMPT, TEXT, depth))[2] for depth in (1, 5)
    ]

    deep = list(teacher_forced(wrong, N_VOCAB, PROMPT, TEXT, depth=5))
    assert deep[2] == alone[1]
    assert deep[2][1][:1] == alone[0][1]
