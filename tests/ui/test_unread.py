"""A terminal that is there and no longer read: a lid that is closed, an output that is held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import os, sys
from queue import Full
from textual.drivers._writer_thread import WriterThread
from app.ui.terminal import signals
from tests.ui.fakes import fake_app

def write(self, text):
    try:
        self._queue.put(text, timeout=1)
    except Full:
        os.write(int(sys.argv[1]), b"held")
        self._queue.put(text)

WriterThread.write = write
signals._PATIENCE_S = 0.1
app, _ = fake_app()
app.call_later(lambda: app.set_interval(0.01, lambda: app.screen.refresh()))
app.run()
"""
"""Draws without an end, and tells when the terminal takes no more."""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
@pytest.mark.parametrize("number", [signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)])
def test_who_waits_for_a_terminal_that_nobody_reads_is_ended_all_the_same(number: signal.Signals) -> None:
    import pty

    ours, theirs = pty.openpty()
    heard, tells = os.pipe()
    chat = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(tells)],
        cwd=_ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        pass_fds=[tells],
        start_new_session=True,
    )
    try:
        for descriptor in (theirs, tells):
            os.close(descriptor)
        assert os.read(heard, 4) == b"held"
        chat.send_signal(number)
        assert chat.wait(60) == 128 + number
    finally:
        chat.kill()
        chat.wait()
        for descriptor in (ours, heard):
            os.close(descriptor)
