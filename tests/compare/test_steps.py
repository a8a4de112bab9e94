"""A generator in a `for` loop, and what it returns."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from app.compare.steps import Steps


def work(done: list[str]) -> Generator[int, None, str]:
    try:
        yield 1
        yield 2
    finally:
        done.append("closed")
    return "three"


def test_the_result_comes_after_the_last_step() -> None:
    steps = Steps(work([]))

    assert list(steps) == [1, 2]
    assert steps.result == "three"


def test_a_loop_that_is_left_ends_the_work() -> None:
    done: list[str] = []
    steps = Steps(work(done))
    for _ in steps:
        break
    with pytest.raises(AttributeError):
        _ = steps.result
    del steps

    assert done == ["closed"]
