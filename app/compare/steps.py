"""Iterating over a generator that also returns something."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

StepT = TypeVar("StepT")
ResultT = TypeVar("ResultT")


class Steps(Generic[StepT, ResultT]):
    """The steps of a piece of work, for a `for` loop, and its result after the last of them.

    Args:
        work: Is run as far as it is iterated over.
    """

    def __init__(self, work: Generator[StepT, None, ResultT]) -> None:
        self._work = work
        self._result: ResultT

    def __iter__(self) -> Iterator[StepT]:
        self._result = yield from self._work

    @property
    def result(self) -> ResultT:
        """What the work has returned; there is none before its end."""
        return self._result
