"""Files for results: refused before the work begins, and written while it goes on."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from app.cli.result_file import LineFile, check_replaceable, check_writable, write
from app.core.errors import AppError, UsageError


def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "gone" / "file"):
        with pytest.raises(UsageError, match="cannot be written"):
            check_writable(wrong)
        with pytest.raises(UsageError, match="cannot be written"):
            LineFile(wrong)
    check_writable(tmp_path / "new")
    assert not (tmp_path / "new").exists(), "looking leaves nothing behind"


def test_what_was_there_stays_until_there_is_something_new(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("old\n")
    lines = LineFile(file)
    assert file.read_text() == "old\n"
    lines.add("a", "b")
    assert file.read_text() == "a\nb\n"
    lines.add("c")
    lines.close()
    assert file.read_text() == "a\nb\nc\n"


@pytest.mark.parametrize("put", [write, lambda file, text: LineFile(file).add(text)])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path, str], None]
) -> None:
    file = tmp_path / "result.json"
    file.write_text("old\n")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("app.core.atomic.os.fsync", full)
    with suppress(AppError):
        put(file, "new")
    assert file.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.skipif(sys.platform == "win32", reason="has no such pipes")
def test_a_pipe_takes_a_result_too(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe, "result\n")
    assert os.read(reading, 100) == b"result\n"
    os.close(reading)


def test_a_folder_that_went_away_is_told_in_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = LineFile(folder / "runs.jsonl")
    folder.rmdir()
    lines.add("a")
    lines.add("b")
    with pytest.raises(AppError, match="No such file") as caught:
        lines.close()
    # Anyone who called it did nothing wrong.
    assert caught.value.exit_code == 1


def test_nowhere_is_a_place(tmp_path: Path) -> None:
    lines = LineFile(None)
    lines.add("a")
    lines.close()


@pytest.mark.parametrize("check", [check_writable, check_replaceable])
@pytest.mark.parametrize("name", ["n" * 300, "nul\0byte"])
def test_a_name_that_no_file_can_have_is_told(tmp_path: Path, check: Callable[[Path], None], name: str) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        check(tmp_path / name)
