"""Engines that end with the test."""

from collections.abc import Iterator

import pytest

from tests.worker.harness import Harness, WorkerHarness


@pytest.fixture
def harness() -> Iterator[Harness]:
    made = Harness()
    yield made
    made.engine.close(5)


@pytest.fixture
def here() -> Iterator[WorkerHarness]:
    made = WorkerHarness()
    yield made
    made.worker.close(5)
