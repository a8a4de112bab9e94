"""The checksum of a file while it grows."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from app.models.hub.checksum import Checksum
from tests.models.hub.models import CONTENT, sha256

PIECE = 300_000


def nothing(share: float) -> None:
    pass


def test_a_file_is_followed_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with path.open("ab", buffering=0) as out, Checksum(path) as checksum:
        for at in range(0, len(CONTENT), PIECE):
            out.write(CONTENT[at : at + PIECE])
            checksum.reach(out.tell())
        assert checksum.hexdigest(len(CONTENT), nothing) == sha256(CONTENT)


@pytest.mark.parametrize("had", [1 << 20, 3 << 20])
def test_what_was_begun_anew_is_reckoned_anew(tmp_path: Path, had: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * had)
    with path.open("ab", buffering=0) as out, Checksum(path) as checksum:
        checksum.reach(had)
        while checksum._read < had:
            threading.Event().wait(0)
        out.truncate(0)
        checksum.reach(0)
        out.write(CONTENT)
        assert checksum.hexdigest(len(CONTENT), nothing) == sha256(CONTENT)


def test_a_file_that_is_shorter_than_told_has_another_checksum(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT[:-1])
    with Checksum(path) as checksum:
        assert checksum.hexdigest(len(CONTENT), nothing) == sha256(CONTENT[:-1])


def test_an_empty_file_has_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with Checksum(path) as checksum:
        assert checksum.hexdigest(0, nothing) == hashlib.sha256().hexdigest()


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with Checksum(tmp_path / "none") as checksum, pytest.raises(FileNotFoundError):
        checksum.hexdigest(1, nothing)


def test_whoever_waits_is_told_how_far_it_is_and_may_give_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    waits: list[float] = []

    def give_up(share: float) -> None:
        waits.append(share)
        raise InterruptedError

    # Nobody is ready at the first look.
    monkeypatch.setattr("app.models.hub.checksum.wait", _never)
    checksum = Checksum(path)
    with checksum, pytest.raises(InterruptedError):
        checksum.hexdigest(len(CONTENT), give_up)
    assert len(waits) == 1
    assert not checksum._thread.is_alive()


class _NobodyReady:
    done = ()


def _never(*_: object, **__: object) -> _NobodyReady:
    return _NobodyReady()
