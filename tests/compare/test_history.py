"""Results of this machine: stored, compared with earlier ones, and read as the speedup of a pair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.compare.history import Facts, History, Result, regressions, speedups
from app.compare.measure import Spread

FACTS = Facts("EPYC", "Big", "Small", "suite", {"driver": "550", "llama.cpp": "1"})


def result(speed: float, width: float = 0.0, **details: str) -> Result:
    spread = Spread(speed, speed - width / 2, speed + width / 2, 3)
    return Result("2026-11-21T10:00:00Z", {**FACTS.details, **details}, {"code": {"automatic": spread}})


def raced(ratio: float) -> dict[str, Spread]:
    return {name: Spread(speed, speed, speed, 1) for name, speed in (("plain", 2.0), ("automatic", 2.0 * ratio))}


def test_results_are_stored_and_read_again(tmp_path: Path) -> None:
    history = History(tmp_path / "deep", FACTS)
    assert history.results() == []
    assert history.add(result(50.0))
    assert history.add(result(60.0, driver="551"))
    assert History(tmp_path / "deep", FACTS).results() == [result(50.0), result(60.0, driver="551")]
    assert History(tmp_path / "deep", replace(FACTS, draft="Other")).results() == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 9}', '{"format": 1, "results": [{"when": 1}]}', '{"format":1,"results":3}']
)
def test_a_damaged_file_is_discarded(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{FACTS.key}.json").write_text(text)
    history = History(tmp_path, FACTS)
    assert history.results() == []
    assert history.add(result(1.0))
    assert history.results() == [result(1.0)]


def test_a_disk_that_refuses_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not History(tmp_path / "file", FACTS).add(result(1.0))


def test_the_latest_result_of_a_pair_on_this_cpu_tells_its_speedup(tmp_path: Path) -> None:
    def store(when: str, ratio: float, machine: str = "EPYC, A card") -> None:
        details = {"target": "big.gguf, Q4_0", "draft": "s.gguf, Q8_0"}
        facts = replace(FACTS, machine=machine, suite=when, details=details)
        History(tmp_path, facts).add(Result(when, details, {"": raced(ratio)}))

    store("2026-11-21T10:00:00Z", 1.2)
    store("2026-11-23T10:00:00Z", 1.5)
    store("2026-11-22T10:00:00Z", 1.3)
    store("2026-11-24T10:00:00Z", 9.9, machine="EPYC 2")
    alone = {"target": "big.gguf, Q4_0"}
    suite = {"code": raced(3.0), "chat": raced(1.0), "all": raced(1.5)}
    History(tmp_path, FACTS).add(Result("2026", alone, suite))
    (tmp_path / "damaged.json").write_text("{")

    assert speedups(tmp_path, "EPYC") == {("big.gguf", "s.gguf"): 1.5, ("big.gguf", ""): 1.5}
    assert speedups(tmp_path / "none", "EPYC") == {}


def test_a_slower_result_is_reported_with_what_changed() -> None:
    text = "\n".join(regressions([result(100.0)], result(80.0, driver="551", server="b1")))
    assert "code, automatic: 80.0 tok/s, was 100.0 (0.80×)" in text
    assert "What changed: driver: 550 -> 551; server: none -> b1." in text
    assert "No recorded detail has changed" in "\n".join(regressions([result(100.0)], result(80.0)))


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ([], result(1.0)),
        ([result(100.0)], result(92.0)),
        ([result(100.0)], result(120.0)),
        ([result(100.0, width=50.0)], result(80.0)),
        ([result(100.0)], result(80.0, width=50.0)),
        ([result(100.0), result(101.0), result(130.0), result(99.0), result(128.0)], result(97.0)),
        ([result(100.0), result(101.0), result(80.0, driver="551")], result(79.5, driver="551")),
    ],
)
def test_a_difference_within_the_noise_is_not_reported(earlier: list[Result], now: Result) -> None:
    assert regressions(earlier, now) == []


def test_a_result_is_compared_with_the_median_of_those_with_the_same_details() -> None:
    earlier = [result(150.0), *(result(speed, driver="551") for speed in (80.0, 82.0, 90.0))]
    text = "\n".join(regressions(earlier, result(60.0, driver="552")))
    assert "was 82.0" in text
    assert "driver: 551 -> 552" in text
