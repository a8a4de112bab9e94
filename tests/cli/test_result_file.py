"""Result files: checked before the work begins, written while it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from app.cli.output import LineFile, check_writable, write_file
from app.core.errors import AppError, UsageError


def test_unwritable_path_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (tmp_path, tmp_path / "gone" / "file"):
        with pytest.raises(UsageError, match="cannot be written"):
            LineFile(wrong)
    check_writable(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="permission denied"):
        check_writable(tmp_path / "new")


def test_the_first_line_replaces_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("old\n")
    lines = LineFile(file)
    assert file.read_text() == "old\n"
    lines.add("a", "b")
    assert file.read_text() == "a\nb\n"
    lines.add("c")
    lines.close()
    assert file.read_text() == "a\nb\nc\n"


def test_a_failed_write_is_reported_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = LineFile(folder / "runs.jsonl")
    folder.rmdir()
    lines.add("a")
    lines.add("b")
    with pytest.raises(AppError, match="No such file") as caught:
        lines.close()
    assert caught.value.exit_code == 1
    LineFile(None).add("nowhere")


@pytest.mark.skipif(sys.platform == "win32", reason="has no such pipes")
def test_result_is_written_to_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "result\n")
    assert os.read(reading, 100) == b"result\n"
    os.close(reading)
