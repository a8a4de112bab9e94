"""Check that statistics survive a restart, and that damaged files are discarded."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.llama import stored_measurements


def learned() -> PairStatistics:
    memory = PairStatistics(CostModel(CostProfile({1: 10e6, 2: 12e6, 8: 20e6}, draft_ns=1e6)))
    memory.costs.scale = 2.0
    memory.model.observe([(0.9, 0, True), (0.5, 1, False)])
    memory.trial.on, memory.has_short_context = False, True
    memory.keep_least()
    return memory


def test_saved_statistics_are_restored(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "memory.json"
    memory = learned()
    stored_measurements.save_statistics(file, memory)
    back = stored_measurements.load_statistics(file)

    assert back is not None
    assert back.costs.target_ns(8, 0) == pytest.approx(memory.costs.target_ns(8, 0))
    assert back.costs.draft_ns(0) == pytest.approx(memory.costs.draft_ns(0))
    assert back.model.counts == memory.model.counts
    assert back.model.probability(0.5, 1) == memory.model.probability(0.5, 1)
    assert not back.trial.on
    assert back.least_ns == memory.least_ns == 20e6
    assert back.measured_ns == memory.measured_ns == 10e6
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 99),
        (("rows",), {}),
        (("rows", "1"), -5),
        (("rows", "1"), "fast"),
        (("rows",), {"0": 5, "1": 5}),
        (("draft_ns",), float("inf")),
        (("rows", "8"), 1e308),
        (("cells",), []),
        (("model",), []),
        (("model",), [[[1, 2]], [[1, 2]]]),
        (("lookup", 0, 0), 5.0),
        (("trial",), None),
    ],
)
def test_implausible_statistics_are_discarded(tmp_path: Path, path: tuple[Any, ...], value: Any) -> None:
    file = tmp_path / "memory.json"
    stored_measurements.save_statistics(file, learned())
    raw = json.loads(file.read_text())
    place = raw
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file.write_text(json.dumps(raw))

    assert stored_measurements.load_statistics(file) is None


def test_sizes_of_longer_drafts_than_today_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    stored_measurements.save_statistics(file, learned())
    raw = json.loads(file.read_text())
    raw["rows"] = {"1": 5, "65": 7}
    file.write_text(json.dumps(raw))

    back = stored_measurements.load_statistics(file)
    assert back is not None
    assert back.costs.profile.batch_ns == {1: 5.0}


def test_a_failed_save_is_no_exception(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    stored_measurements.save_statistics(blocked / "memory.json", learned())
