"""The conversations' file is looked at without being changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.opening import examine
from app.conversations.store import Store
from app.core.errors import StoreError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "conversations.db"
    Store.open(path).close()
    return path


def test_looking_for_a_file_makes_none(tmp_path: Path) -> None:
    assert examine(tmp_path / "conversations.db") is None
    assert not list(tmp_path.iterdir())


def test_a_good_file_is_counted_and_left_alone(file: Path) -> None:
    before = file.read_bytes()

    assert examine(file) == 0
    assert file.read_bytes() == before


def test_a_file_that_is_no_database(file: Path) -> None:
    file.write_bytes(b"no database" * 1000)

    with pytest.raises(StoreError, match="damaged") as caught:
        examine(file)
    assert "opens the latest backup" in caught.value.hint
    assert file.exists()


def test_a_broken_page_is_found(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = bytearray(file.read_bytes())
    pages[4096:8192] = b"\xff" * 4096
    file.write_bytes(pages)

    with pytest.raises(StoreError):
        examine(file)


def test_a_newer_one_and_one_of_another_program(file: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer Tandem"):
        examine(file)

    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
    with pytest.raises(StoreError, match="another program"):
        examine(other)


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a folder"):
        examine(tmp_path)
