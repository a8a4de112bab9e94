"""Check the command that installs a package into this Python."""

from __future__ import annotations

import sys

import pytest

from app.cli.loading import installer


@pytest.mark.parametrize(
    ("python", "system", "expected"),
    [
        ("/usr/bin/python3", "linux", "/usr/bin/python3 -m pip install"),
        ("/my tools/python", "darwin", "'/my tools/python' -m pip install"),
        (r"C:\venv\python.exe", "windows", r"C:\venv\python.exe -m pip install"),
        (r"C:\My Tools\python.exe", "windows", r'& "C:\My Tools\python.exe" -m pip install'),
        (r"C:\Jürgen\python.exe", "windows", r'& "C:\Jürgen\python.exe" -m pip install'),
    ],
)
def test_installer_uses_this_python(monkeypatch: pytest.MonkeyPatch, python: str, system: str, expected: str) -> None:
    monkeypatch.setattr(sys, "executable", python)

    assert installer(system) == expected


def test_environment_without_pip_uses_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/v/python")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert installer("linux") == "uv pip install --python /v/python"
