"""Parameters refuse what cannot be meant, with name, value and range."""

from __future__ import annotations

import pytest

from app.engine.types import DraftParams, SamplingParams
from app.errors import UsageError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_max": 65}, "n_max is 65; it must lie between 0 and 64."),
        ({"n_max": -1}, "n_max is -1"),
        ({"n_max": 2, "n_min": 3}, r"n_min is 3; it must lie between 0 and n_max \(2\)"),
        ({"p_min": 1.1}, "p_min is 1.1"),
        ({"p_min": float("nan")}, "p_min is nan"),
    ],
)
def test_draft_params(values: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DraftParams(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 1.5),
        ("min_p", float("inf")),
        ("top_k", -1),
        ("repeat_penalty", 0.0),
        ("seed", -1),
        ("seed", 2**32),
        ("repeat_last_n", 10**9),
        ("top_k", 1.5),
        ("seed", 0.5),
    ],
)
def test_sampling_params(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is "):
        SamplingParams(**{name: value})  # type: ignore[arg-type]


def test_greedy_means_that_nothing_changes_the_logits() -> None:
    assert SamplingParams(temperature=0).is_greedy
    assert not SamplingParams(temperature=0, repeat_penalty=1.1).is_greedy
    assert SamplingParams(temperature=0, repeat_penalty=1.1, repeat_last_n=0).is_greedy
    assert not SamplingParams().is_greedy
