"""What two token sequences share, whatever kinds of sequence they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.engine.cache import common_prefix


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [([], [], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 9, 3], 1), ([1, 2], (1, 2), 2), ((4,), [5], 0)],
)
def test_common_prefix(a: Sequence[int], b: Sequence[int], shared: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == shared
