"""End the program by an error in the code of its screen."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from app.core.paths import conversations_file, log_file
from tests.hanging import HANGS_S
from tests.pseudo_terminal import in_terminal

_PROGRAM = """
import app.cli.chat
from app.cli import main
from app.ui.sidebar.panel import ReadoutPanel
from tests.fake_engine import FakeEngine

class Engine(FakeEngine):
    def load(self, loader):
        self.loaded()

    def answer(self, request):
        super().answer(request)
        self.says("half an answer")
        return 1

def lines(panel, width, height):
    secret = "a local variable"
    return [][1]

ReadoutPanel.lines = lines
app.cli.chat.make_engine = lambda process, receive, server: Engine(receive)
raise SystemExit(main(["--pair", "demo"]))
"""
"""A program that writes half of an answer and fails when the numbers are shown."""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
def test_an_error_of_the_screen_takes_two_lines_and_loses_nothing() -> None:
    for file in conversations_file().parent.glob("conversations.db*"):
        file.unlink()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24"}
    with in_terminal("-c", _PROGRAM, stderr=subprocess.PIPE, env=environment) as (chat, terminal):
        seen = b""
        for shown, typed in ((b"ready", b"go\r"), (b"half an answer", b"unsent\x1b[15~")):
            while shown not in seen:
                seen += terminal.read(65536)
            seen = b""
            terminal.write(typed)
        while chat.poll() is None:
            try:
                terminal.read(65536)
            except OSError:
                break
        assert chat.stderr is not None
        lines = chat.stderr.read().splitlines()
        assert chat.wait(HANGS_S) == 1
    assert lines == [
        "tandem: The screen failed (IndexError: list index out of range).",
        f"tandem: The answer and the unsent text are saved. The log has the details: {log_file()}",
    ]
    log = log_file().read_text()
    assert "IndexError: list index out of range" in log
    assert "in lines" in log
    assert "a local variable" not in log.replace('secret = "a local variable"', "")
    with closing(sqlite3.connect(conversations_file())) as db:
        assert ("half an answer",) in db.execute("SELECT text FROM messages").fetchall()
        assert ("unsent",) in db.execute("SELECT draft FROM conversations").fetchall()
