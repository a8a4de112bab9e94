"""Counts with their nouns."""

import pytest

from app.core.units import counted


@pytest.mark.parametrize(("n", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (12_000, "12,000 lines")])
def test_a_count_has_a_plural_and_a_thousands_separator(n: int, text: str) -> None:
    assert counted(n, "line") == text
