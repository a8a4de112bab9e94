"""Clipboard, notifications and signals of the chat."""

import base64
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App
from textual.message import Message

from app.conversations.store import Store
from app.core.errors import AppError
from app.core.log import MAX_BYTES, guarded_stderr
from app.ui.terminal import copying
from app.ui.terminal.copying import clipboard_picture, copy_text, through_tmux
from app.ui.terminal.driver import InputParser
from tests.tandem import run_python
from tests.ui.conftest import Programs
from tests.ui.driver import open_chat

HOSTILE = "red \x1b[31mword\x1b[0m and\rmore text that is longer than any key"


def parsed(parser: InputParser, *reads: str) -> list[Message]:
    return [event for read in reads for event in parser.feed(read)]


def test_an_escape_in_a_paste_presses_no_key() -> None:
    found = parsed(InputParser(), f"a\x1b[200~{HOSTILE}\x1b[201~\x1b[A", "")
    assert [event.key for event in found if isinstance(event, events.Key)] == ["a", "up"]
    assert [event.text for event in found if isinstance(event, events.Paste)] == [HOSTILE]


@given(st.lists(st.integers(1, 70), max_size=6))
def test_a_paste_is_whole_wherever_reads_cut_it(cuts: list[int]) -> None:
    stream = f"\x1b[200~{HOSTILE}\x1b[201~"
    # Textual handles a start mark that a read cuts.
    at = sorted({0, len(stream), *(max(6, cut) for cut in cuts if cut < len(stream))})
    pastes = parsed(InputParser(), *(stream[a:b] for a, b in pairwise(at)))
    assert [event.text for event in pastes if isinstance(event, events.Paste)] == [HOSTILE]
    assert len(pastes) == 1


@pytest.mark.parametrize(
    ("size", "said"), [(10, "Copied the answer."), (100_000, "Too long for the terminal's clipboard")]
)
async def test_copying_tells_whether_the_terminal_takes_the_text(
    monkeypatch: pytest.MonkeyPatch, size: int, said: str
) -> None:
    sent: list[str] = []
    async with open_chat() as chat:
        app = chat.app
        driver = app._driver
        assert driver is not None
        monkeypatch.setattr(type(app), "is_headless", False)
        monkeypatch.setattr(driver, "write", sent.append)
        copy_text(app, "x" * size, "the answer")
        await chat.shows(said)
    assert any("]52;" in text for text in sent) is (size == 10)


@pytest.mark.parametrize(
    ("system", "variable", "command"),
    [
        ("linux", "TMUX", "tmux load-buffer -w -"),
        ("linux", "WAYLAND_DISPLAY", "wl-copy"),
        ("linux", "DISPLAY", "xclip -selection clipboard"),
        ("darwin", "", "pbcopy"),
    ],
)
def test_a_program_holds_the_clipboard(
    monkeypatch: pytest.MonkeyPatch, clipboard_programs: Programs, system: str, variable: str, command: str
) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(copying, "clipboard_commands", clipboard_programs)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda command, **how: calls.append({"command": command, **how}))
    for name in ("TMUX", "SSH_CONNECTION", "WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "x")

    assert copying.copy_by_program("été")

    (call,) = calls
    assert " ".join(call["command"]) == f"/usr/bin/{command}"
    assert call["input"] == "été".encode()
    # Without a UTF-8 locale pbcopy reads Mac OS Roman.
    assert system != "darwin" or call["env"]["LC_ALL"].endswith("UTF-8")


def test_sequences_pass_through_tmux_with_their_escapes_doubled() -> None:
    assert through_tmux("\x1b]52;c;eA==\a") == "\x1bPtmux;\x1b\x1b]52;c;eA==\a\x1b\\"


@pytest.mark.parametrize(("away", "seconds", "calls"), [(True, 21, 1), (True, 5, 0), (False, 21, 0)])
async def test_the_end_of_a_long_answer_rings_the_bell_if_the_terminal_lost_the_focus(
    monkeypatch: pytest.MonkeyPatch, away: bool, seconds: float, calls: int
) -> None:
    called: list[bool] = []
    now = [0.0]
    async with open_chat() as chat:
        monkeypatch.setattr(type(chat.app), "bell", lambda self: called.append(True))
        chat.screen.view.status._clock = lambda: now[0]
        await chat.send("go")
        if away:
            chat.app.post_message(events.AppBlur())
        await chat.until(lambda: chat.app.app_focus is not away)
        now[0] = seconds
        await chat.answer("done")
        assert len(called) == calls


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)])
def test_a_signal_is_reported_on_the_loop(number: signal.Signals) -> None:
    program = (
        "import asyncio, os\nfrom app.ui.terminal.driver import end_politely\n"
        "async def main():\n    told = asyncio.Future()\n    end_politely(told.set_result)\n"
        f"    os.kill(os.getpid(), {int(number)})\n    raise SystemExit(await told)\nasyncio.run(main())\n"
    )
    run_python("-c", program, code=128 + number)


def test_ctrl_break_is_reported_on_the_loop_of_windows() -> None:
    program = (
        "import asyncio, os, signal, sys\nfrom app.ui.terminal.driver import end_politely\n"
        "signal.SIGBREAK = signal.SIGINT\n"
        "async def main():\n    told = asyncio.Future()\n"
        "    there, sys.platform = sys.platform, 'win32'\n    end_politely(told.set_result)\n    sys.platform = there\n"
        "    signal.raise_signal(signal.SIGBREAK)\n    raise SystemExit(await told)\nasyncio.run(main())\n"
    )
    run_python("-c", program, code=128 + signal.SIGINT)


def test_a_large_log_is_renamed(tmp_path: Path) -> None:
    log = tmp_path / "tandem.log"
    log.write_bytes(b"x" * (MAX_BYTES + 1))
    with guarded_stderr(log):
        os.write(2, b"new")
    assert log.read_bytes().endswith(b"\nnew")
    assert (tmp_path / "tandem.log.1").stat().st_size == MAX_BYTES + 1


@pytest.mark.parametrize("before", [(), ("f4",)])
async def test_ctrl_z_suspends_wherever_one_is_and_changes_nothing(
    before: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended: list[int] = []
    monkeypatch.setattr(App, "action_suspend_process", lambda self: suspended.append(1))
    async with open_chat(size=(120, 40), store=lambda: Store(tmp_path / "chats.db")) as chat:
        await chat.type("kept")
        await chat.pilot.press(*before, "ctrl+z")
        assert suspended == [1]
        assert chat.prompt == "kept"


# The picture on the clipboard

Runs = list[Sequence[str]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Return the commands that were run; each answers with its program's output for the bytes \\x89PNG."""
    found: Runs = []
    answers = {
        "osascript": b"\xc2\xabdata PNGf89504E47\xc2\xbb\n",
        "powershell": base64.b64encode(b"\x89PNG") + b"\r\n",
        "powershell.exe": base64.b64encode(b"\x89PNG") + b"\r\n",
    }

    def run(command: Sequence[str], *given: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        found.append(command)
        return subprocess.CompletedProcess(command, 0, answers.get(command[0], b"\x89PNG"), b"")

    monkeypatch.setattr(copying, "find_program", str)
    monkeypatch.setattr(copying, "limited_run", run)
    return found


@pytest.mark.parametrize(
    ("environment", "system", "program"),
    [
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", "wl-paste"),
        ({"DISPLAY": ":0"}, "linux", "xclip"),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", "powershell.exe"),
        ({}, "darwin", "osascript"),
        ({}, "win32", "powershell"),
    ],
)
def test_each_desktop_has_its_program(runs: Runs, environment: dict[str, str], system: str, program: str) -> None:
    assert clipboard_picture(environment, system) == b"\x89PNG"
    assert [command[0] for command in runs] == [program]


def test_a_missing_clipboard_tool_or_picture_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "find_program", lambda name: None)
    with pytest.raises(AppError, match="cannot be read without wl-paste") as refused:
        clipboard_picture({"WAYLAND_DISPLAY": "wayland-0"}, "linux")
    assert "Install wl-clipboard" in refused.value.hint
    monkeypatch.setattr(copying, "find_program", str)
    failed = subprocess.CompletedProcess[bytes]([], 1, b"Error", b"No suitable type.\n")
    monkeypatch.setattr(copying, "limited_run", lambda *given, **more: failed)
    with pytest.raises(AppError, match=r"no picture on the clipboard: No suitable type\.$"):
        clipboard_picture({"DISPLAY": ":0"}, "linux")
    with pytest.raises(AppError, match="no desktop here"):
        clipboard_picture({}, "linux")
    wrong = subprocess.CompletedProcess[bytes]([], 0, b"Error", b"")
    monkeypatch.setattr(copying, "limited_run", lambda *given, **more: wrong)
    with pytest.raises(AppError, match="powershell could not read the clipboard"):
        clipboard_picture({}, "win32")
