"""Writing to a terminal that is read immediately, late or never."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

if sys.platform == "win32":
    pytest.skip("Windows has no pseudo terminals of this kind", allow_module_level=True)

import tty

from app.ui.terminal.driver import TerminalWriter
from tests.hanging import HANGS_S
from tests.pseudo_terminal import in_terminal

_MORE_THAN_IT_TAKES = 100_000
"""More characters than a terminal accepts before it is read."""
_PROGRAM = """
import os, sys
import app.ui.app
from app.ui.terminal.driver import TerminalWriter, install_driver
from tests.ui.driver import Driver
from tests.ui.fakes import fake_app

held = TerminalWriter.write

def write(self, text):
    if self._waiting.full():
        os.write(int(sys.argv[1]), b"held")
    held(self, text)

TerminalWriter.write = write
app.ui.terminal.driver.END_S = 0.1
install_driver()
chat, _ = fake_app()
chat.call_later(lambda: chat.set_interval(0.01, lambda: chat._driver.write(1000 * "a")))
chat.run()
"""
"""A program that draws endlessly, and reports when the terminal accepts no more."""


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Both ends of a pseudo terminal: the reader's and the program's."""
    reader, terminal = os.openpty()
    tty.setraw(terminal)
    yield reader, terminal
    os.close(reader)
    os.close(terminal)


def read(reader: int, size: int) -> str:
    seen = b""
    while len(seen) < size:
        seen += os.read(reader, size - len(seen))
    return seen.decode()


def test_text_is_written_without_the_thread(ends: tuple[int, int]) -> None:
    reader, terminal = ends
    with os.fdopen(terminal, "w", closefd=False) as file:
        writer = TerminalWriter(file)
        writer.write("a frame …")
        assert read(reader, 11) == "a frame …"


def test_text_that_waits_keeps_its_order(ends: tuple[int, int]) -> None:
    reader, terminal = ends
    with os.fdopen(terminal, "w", closefd=False) as file:
        writer = TerminalWriter(file)
        texts = ["first", "é" * _MORE_THAN_IT_TAKES, "last"]
        for text in texts:
            writer.write(text)
        writer.start()
        size = len("".join(texts).encode())
        assert read(reader, size) == "".join(texts)
        writer.write("later")
        assert read(reader, 5) == "later"
        writer.stop()


def test_the_terminal_stays_blocking_for_other_users(ends: tuple[int, int]) -> None:
    _, terminal = ends
    with os.fdopen(terminal, "w", closefd=False) as file:
        TerminalWriter(file)
        assert os.get_blocking(terminal)


def test_a_closed_terminal_does_not_block() -> None:
    reader, terminal = os.openpty()
    with os.fdopen(terminal, "w") as file:
        writer = TerminalWriter(file)
        writer.start()
        os.close(reader)
        for _ in range(100):
            writer.write("x" * 1_000)
        writer.stop()
        assert not writer.is_alive()


def test_a_program_that_waits_for_its_terminal_is_ended() -> None:
    heard, tells = os.pipe()
    with in_terminal("-c", _PROGRAM, str(tells), pass_fds=[tells]) as (chat, _):
        os.close(tells)
        assert os.read(heard, 4) == b"held"
        chat.send_signal(signal.SIGTERM)
        assert chat.wait(HANGS_S) == 128 + signal.SIGTERM
    os.close(heard)
