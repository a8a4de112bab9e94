"""How a process ended, in words."""

from __future__ import annotations

import pytest

from app.child import Ending, is_crash


@pytest.mark.parametrize(
    ("code", "how", "crash"),
    [
        (-11, "by signal SEGV", True),
        (-4, "by signal ILL", True),
        (0xC0000005, "by a memory access violation", True),
        # A wheel for newer processors.
        (0xC000001D, "by an instruction that this processor does not have", True),
        (0xC0000374, "by damaged memory", True),
        (1, "with code 1", False),
    ],
)
def test_an_end_is_told_as_the_system_tells_it(code: int, how: str, crash: bool) -> None:
    assert (Ending(code).how, is_crash(code)) == (how, crash)
