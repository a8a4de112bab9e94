"""Whose work keeps the processor busy."""

from __future__ import annotations

import sys

import pytest

from app.hardware.busy import Busy, Sample, between, busy, is_tandem


def seen(*samples: Sample) -> Busy:
    waiting = iter(samples)
    return between(lambda: next(waiting), lambda: None)


def test_what_other_tandems_do_is_told_apart() -> None:
    found = seen(
        Sample(10.0, 95.0, {7: 40.0, 8: 3.0}),
        Sample(10.5, 95.9, {7: 40.6, 9: 1.0}),
    )

    assert found.tandems == pytest.approx(1.2)
    assert found.others == pytest.approx(0.6)


def test_clocks_that_count_in_different_steps_make_no_negative_load() -> None:
    assert seen(Sample(0.0, 10.0), Sample(0.5, 9.9)) == Busy(0.0, 0.0)


@pytest.mark.parametrize(
    ("command", "is_it"),
    [
        ([sys.executable, "/home/me/.venv/bin/tandem", "run", "Hi"], True),
        ([r"C:\venv\Scripts\tandem.exe"], True),
        ([sys.executable, "-m", "app", "bench"], True),
        ([sys.executable, "-P", "-m", "app.worker.isolated.child"], True),
        (["/usr/bin/other-python", "-m", "app"], False),
        ([sys.executable, "-m", "apple"], False),
        (["vim", "notes", "tandem"], False),
        ([], False),
    ],
)
def test_a_tandem_is_known_by_its_command(command: list[str], *, is_it: bool) -> None:
    assert is_tandem(command) is is_it


def test_a_quiet_minute_needs_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 3.0, 3.0), raising=False)
    monkeypatch.setattr("app.hardware.busy.between", None)

    assert busy(2) == Busy()


def test_a_busy_one_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (3.0, 0.1, 0.1), raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    found = busy(2)

    assert found is not None
    assert found.others >= 0


def test_a_system_that_tells_no_load_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.getloadavg", raising=False)

    assert busy(2) is None
