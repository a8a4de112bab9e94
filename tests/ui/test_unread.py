"""A terminal that no one reads: a closed lid, or held output."""

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
import app.ui.app
from tests.ui.fakes import fake_app

def write(self, text):
    try:
        self._queue.put(text, timeout=1)
    except Full:
        os.write(int(sys.argv[1]), b"held")
        self._queue.put(text)

WriterThread.write = write
app.ui.app.END_S = 0.1
chat, _ = fake_app()
chat.call_later(lambda: chat.set_interval(0.01, lambda: chat.screen.refresh()))
chat.run()
"""
"""Draws without an end, and tells when the terminal takes no more."""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
def test_a_process_that_waits_for_its_terminal_is_ended() -> None:
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
        chat.send_signal(signal.SIGTERM)
        assert chat.wait(60) == 128 + signal.SIGTERM
    finally:
        chat.kill()
        chat.wait()
        for descriptor in (ours, heard):
            os.close(descriptor)
