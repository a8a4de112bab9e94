"""The picture on the clipboard, by the program of each desktop."""

import base64
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from app.core.errors import AppError
from app.ui.terminal import copying
from app.ui.terminal.copying import clipboard_picture

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
