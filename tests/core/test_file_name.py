"""Names that files can have; Windows stands in by its name alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.cli.result_file import check_replaceable, check_writable
from app.core import atomic
from app.core.atomic import is_valid_name
from app.core.errors import UsageError

DEVICES = ("CON", "con.md", "nul .txt", "COM1.json", "lpt¹", "CONIN$")
OTHERS = ("talk:all.md", "what?", 'a"b', "a\nb.md", "end.", "end ")


@pytest.mark.parametrize("name", DEVICES + OTHERS)
def test_windows_lacks_some(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_valid_name(name)

    monkeypatch.setattr(sys, "platform", "win32")

    assert not is_valid_name(name)
    for write in (atomic.write, atomic.create):
        with pytest.raises(OSError, match="Windows has no files of that name"):
            write(tmp_path / name, b"new")
    for check in (check_writable, check_replaceable):
        with pytest.raises(UsageError, match="Windows has no files of that name"):
            check(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["console.md", "auxiliary", "com.md", "com10.md", ".hidden", "a.b.c", "übung 1.md"])
def test_most_names_are_possible_everywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")

    assert is_valid_name(name)
