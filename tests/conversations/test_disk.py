"""What the chat does about a disk that refuses, and when it backs up."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.conversations.backup import back_up_daily
from app.conversations.disk import SAVED, Disk
from app.conversations.store import Store
from app.core.errors import StoreError
from tests.conversations.stores import Clock, exchange, fill_disk, texts


@pytest.fixture
def lost() -> list[int | None]:
    return []


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def disk(file: Path, clock: Clock, lost: list[int | None], said: list[str]) -> Disk:
    disk = Disk(lambda: Store.open(file), lost.append, clock)
    disk.say = said.append
    disk.open()
    return disk


def ask(disk: Disk, prompt: str) -> None:
    disk.do(lambda store: exchange(store, prompt, "answer " * 2000), None)


def test_a_full_disk_is_said_once_and_tried_every_five_seconds(
    disk: Disk, file: Path, clock: Clock, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def refuse(*_: Any) -> None:
        tries.append(clock.now)
        raise StoreError("The disk is full.")

    ask(disk, "a")
    assert disk.store is not None
    fill_disk(disk.store)
    with monkeypatch.context() as full:
        full.setattr("app.conversations.memory_fallback.open_file", refuse)
        ask(disk, "b")
        assert said == [
            "The disk is full, so messages are not saved. Free some space. Tandem saves them as soon as it can."
        ]
        for _ in range(11):
            clock.now += 1.0
            disk.maintain()
            ask(disk, "c")
    assert tries == [1005.0, 1010.0]
    clock.now += 5.0
    disk.maintain()
    assert said[1:] == [SAVED]
    disk.close()
    assert disk.unwritten is None
    assert len(texts(file)) == 14, "with the prompt that still went to the disk"


def test_what_was_not_saved_in_the_end_is_told(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise StoreError("The disk is full.")

    assert disk.store is not None
    disk.store.continue_in_memory()
    ask(disk, "a")
    monkeypatch.setattr("app.conversations.memory_fallback.open_file", refuse)
    disk.close()
    assert disk.unwritten is not None
    assert disk.unwritten.sentences == "The disk is full. The latest messages are lost."


def test_a_conversation_that_another_tandem_removed_is_lost_and_the_disk_is_not(
    disk: Disk, file: Path, lost: list[int | None]
) -> None:
    ask(disk, "a")
    with closing(Store.open(file)) as other:
        other.database.connection.execute("DELETE FROM conversations")
    assert disk.do(lambda store: store.load(1), 1) is None
    assert lost == [1]
    assert disk.store is not None
    assert disk.store.on_disk


def test_a_file_that_broke_in_use_is_replaced_by_its_backup(
    disk: Disk, file: Path, clock: Clock, said: list[str], lost: list[int | None]
) -> None:
    ask(disk, "a")
    back_up_daily(file)
    for path in file.parent.glob("conversations.db*"):
        path.write_bytes(b"no database at all" * 1000)
    ask(disk, "b")
    assert lost == [None]
    clock.now += 5.0
    disk.maintain()
    assert "damaged" in said[0]
    assert "opened the backup of" in said[1]
    disk.close()
    assert [path[0] for path in texts(file)] == ["a", "b"]


def test_a_backup_is_due_once_an_hour_at_most(
    disk: Disk, file: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []

    class Started:
        def __init__(self, target: object, args: tuple[Path], daemon: bool) -> None:
            assert target is back_up_daily
            copied.append((clock.now, *args))

        def start(self) -> None:
            pass

    monkeypatch.setattr("app.conversations.disk.Thread", Started)
    for _ in range(720):
        disk.maintain()
        clock.now += 10.0

    assert copied == [(1000.0, file), (4600.0, file)]
    disk.close()
