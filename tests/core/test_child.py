"""Code in a second Python, and how a process ended."""

from __future__ import annotations

import pytest

from app.core.child import Ending, ask_python, is_crash

_TIMEOUT_S = 60


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
def test_an_end_is_reported_as_the_system_shows_it(code: int, how: str, crash: bool) -> None:
    assert (Ending(code).how, is_crash(code)) == (how, crash)


def test_what_is_asked_is_answered_whatever_its_length() -> None:
    question = b"a" * (1 << 20)
    code = "import sys; sys.stderr.write('hm'); sys.stdout.write(sys.stdin.read().upper()); sys.exit(3)"

    done = ask_python(code, _TIMEOUT_S, question)

    assert (done.returncode, done.stdout, done.stderr) == (3, question.upper(), b"hm")
