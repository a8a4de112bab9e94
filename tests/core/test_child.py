"""What a second Python says, how long that is waited for, and how a process ended, in words."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

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
def test_an_end_is_told_as_the_system_tells_it(code: int, how: str, crash: bool) -> None:
    assert (Ending(code).how, is_crash(code)) == (how, crash)


def test_what_is_asked_is_answered_whatever_its_length() -> None:
    question = b"a" * (1 << 20)
    code = "import sys; sys.stderr.write('hm'); sys.stdout.write(sys.stdin.read().upper()); sys.exit(3)"

    done = ask_python(code, _TIMEOUT_S, question)

    assert (done.returncode, done.stdout, done.stderr) == (3, question.upper(), b"hm")


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe in the folder")
def test_a_child_that_nothing_ends_costs_its_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As one that hangs in a driver: it hears no signal."""
    pipe = tmp_path_factory.mktemp("pipe") / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(os, "killpg", lambda pid, signal: None)
    monkeypatch.setattr(subprocess.Popen, "kill", lambda child: None)
    told: list[BaseException] = []

    def ask() -> None:
        try:
            ask_python(f"open({str(pipe)!r}).read()", 1)
        except subprocess.TimeoutExpired as error:
            told.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_TIMEOUT_S)
    with pipe.open("w"):
        # It ends of itself, and anyone who still waits for it does.
        assert not asking.is_alive()
    assert len(told) == 1
