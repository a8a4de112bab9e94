"""The check of the verdicts that Tandem shows."""

from __future__ import annotations

import pytest

from app.engine.drafting_report import Speedup
from tests.bench.interleaved import Claim


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
