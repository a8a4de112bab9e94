"""An engine whose child is ended with the test."""

from collections.abc import Iterator

import pytest

from tests.worker.harness import Harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    made = Harness()
    yield made
    made.engine.close(5)
