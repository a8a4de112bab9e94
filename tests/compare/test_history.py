"""Results of this machine: stored, and read as the speedup of a pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.compare.history import save, speedups
from app.compare.measure import Spread

FACTS = {"machine": "EPYC, A card", "target": "big.gguf, Q4_0", "draft": "s.gguf, Q8_0"}


def raced(ratio: float) -> dict[str, Spread]:
    return {name: Spread(speed, speed, speed, 1) for name, speed in (("plain", 2.0), ("automatic", 2.0 * ratio))}


def test_the_latest_result_of_a_pair_on_this_cpu_is_its_speedup(tmp_path: Path) -> None:
    def store(when: str, ratio: float, machine: str) -> None:
        assert save(tmp_path / "deep", {**FACTS, "machine": machine}, when, {"": raced(ratio)})

    store("2026-11-23T10:00:00Z", 1.5, "EPYC, A card")
    store("2026-11-22T10:00:00Z", 1.3, "EPYC")
    store("2026-11-24T10:00:00Z", 9.9, "EPYC 2")
    alone = {"machine": "EPYC", "target": "big.gguf, Q4_0"}
    save(tmp_path / "deep", alone, "2026", {"code": raced(3.0), "chat": raced(1.0), "all": raced(1.5)})

    assert speedups(tmp_path / "deep", "EPYC") == {("big.gguf", "s.gguf"): 1.5, ("big.gguf", ""): 1.5}
    assert speedups(tmp_path / "none", "EPYC") == {}


def test_a_new_result_replaces_the_old_one(tmp_path: Path) -> None:
    for when, ratio in (("2026-11-21", 1.2), ("2026-11-22", 1.4)):
        save(tmp_path, FACTS, when, {"": raced(ratio)})
    assert speedups(tmp_path, "EPYC") == {("big.gguf", "s.gguf"): 1.4}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"format": 9}', '{"format": 1, "results": 3}'),
        '{"format": 1, "machine": "EPYC", "results": [{"when": 1}]}',
    ],
)
def test_a_damaged_file_is_discarded(tmp_path: Path, text: str) -> None:
    assert save(tmp_path, FACTS, "2026", {"": raced(1.0)})
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert speedups(tmp_path, "EPYC") == {}
    assert save(tmp_path, FACTS, "2026", {"": raced(2.0)})
    assert speedups(tmp_path, "EPYC") == {("big.gguf", "s.gguf"): 2.0}


def test_a_refused_write_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not save(tmp_path / "file", FACTS, "2026", {"": raced(1.0)})
