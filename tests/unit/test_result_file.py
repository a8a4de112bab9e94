"""Files for results: refused before the work begins, and written while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.result_file import LineFile, append, check_replaceable, check_writable
from app.errors import AppError, UsageError


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


def test_a_folder_that_went_away_is_told_in_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = LineFile(folder / "runs.jsonl")
    folder.rmdir()
    lines.add("a")
    lines.add("b")
    with pytest.raises(AppError, match="No such file") as caught:
        lines.close()
    # Whoever called it did nothing wrong.
    assert caught.value.exit_code == 1


def test_nowhere_is_a_place(tmp_path: Path) -> None:
    lines = LineFile(None)
    lines.add("a")
    lines.close()


def test_a_line_goes_behind_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    append(file, "a")
    append(file, "b")
    assert file.read_text() == "a\nb\n"
    with pytest.raises(AppError, match="cannot be written"):
        append(tmp_path, "c")


@pytest.mark.parametrize("check", [check_writable, check_replaceable])
@pytest.mark.parametrize("name", ["n" * 300, "nul\0byte"])
def test_a_name_that_no_file_can_have_is_told(tmp_path: Path, check: Callable[[Path], None], name: str) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        check(tmp_path / name)
