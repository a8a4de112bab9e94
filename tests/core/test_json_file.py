"""Small files that only save time."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core import json_file


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "it.json").mkdir()
    with pytest.raises(OSError, match="it"):
        json_file.write(tmp_path / "it.json", {"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["it.json"]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    for text in ("long and longer", "short"):
        json_file.write(tmp_path / "new" / "it.json", text)
    assert (tmp_path / "new" / "it.json").read_text() == '"short"'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"format": 3, "n": 5}', 5),
        ('{"format": 2, "n": 5}', None),
        ('{"format": 3}', None),
        ('{"format": 3, "n": 0}', None),
        ("[" * 100_000, None),
        ("[3]", None),
        ("", None),
    ],
)
def test_an_unusable_file_is_discarded(tmp_path: Path, text: str, found: int | None) -> None:
    (file := tmp_path / "it.json").write_text(text)
    assert json_file.read(file, 3, lambda raw: 5 * raw["n"] // raw["n"]) == found
    assert json_file.read(tmp_path / "none.json", 3, lambda raw: 1) is None
