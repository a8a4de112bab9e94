"""Pipes, devices and folders in place of Tandem's files: no one waits for them, and they stay."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.compare.history import speedups
from app.conversations.opening import check_file
from app.conversations.store import Store
from app.core import atomic, json_file, regular_file
from app.core.errors import AppError
from app.llama import stored_measurements
from app.llama.child import SafeFiles
from app.models.catalog import Catalog, shipped_file
from app.models.registry import Registry
from app.settings.file import SettingsFile
from app.ui.terminal.stderr_guard import guarded_stderr

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of POSIX")

KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}
REFUSED: dict[str, Callable[[Path], object]] = {
    "settings": lambda path: SettingsFile(path).set("draft.n_max", 3),
    "catalog": lambda path: Catalog(path),
    "the user's catalog": lambda path: Catalog(shipped_file(), path).get("mine"),
    "pairs": lambda path: Registry(path).read(),
    "conversations": Store.open,
    "check of conversations": check_file,
}
DISCARDED: dict[str, Callable[[Path], object]] = {
    "cache": lambda path: json_file.read(path, 1, lambda raw: raw),
    "statistics": stored_measurements.load_statistics,
    "threads": stored_measurements.load_threads,
    "safe": lambda path: path.with_name("model") in SafeFiles(path) or None,
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_anything_but_a_file_is_neither_read_nor_written(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(path := tmp_path / "odd")
    before = os.lstat(path).st_mode

    with pytest.raises(OSError, match="no regular file"):
        regular_file.read_bytes(path)
    with pytest.raises(OSError, match="no regular file"):
        atomic.write(path, b"new")
    with guarded_stderr(path):
        os.write(2, b"noise")
    assert os.lstat(path).st_mode == before


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_a_pipe_in_place_of_a_file_is_an_error_with_a_hint(tmp_path: Path, use: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "odd")

    with pytest.raises(AppError, match=r"odd.*\.") as refusal:
        use(tmp_path / "odd")
    assert refusal.value.hint
    assert (tmp_path / "odd").is_fifo()


@pytest.mark.parametrize("use", DISCARDED.values(), ids=DISCARDED)
def test_a_pipe_in_place_of_a_cache_is_ignored(tmp_path: Path, use: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "odd")
    assert use(tmp_path / "odd") is None

    os.mkfifo(tmp_path / "result.json")
    assert speedups(tmp_path, "EPYC") == {}


def test_an_endless_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    (path := tmp_path / "odd").touch()
    os.truncate(path, 1 << 40)

    for name in ("settings", "catalog", "pairs"):
        with pytest.raises(AppError, match=r"odd.*larger than"):
            REFUSED[name](path)
    assert [use(path) for use in DISCARDED.values()] == [None] * len(DISCARDED)


def test_line_ends_are_normalized(tmp_path: Path) -> None:
    (path := tmp_path / "file").write_bytes("á\n\r\nb\rc".encode())

    assert regular_file.read_text(path) == "á\n\nb\nc"
    assert regular_file.read_bytes(path, 2) == "á".encode()


def test_a_broken_link_is_written_through_but_is_no_catalog(tmp_path: Path) -> None:
    link = tmp_path / "settings.toml"
    link.symlink_to("target.toml")
    SettingsFile(link).set("draft.n_max", 3)
    assert link.is_symlink()
    assert "n_max = 3" in (tmp_path / "target.toml").read_text()

    (tmp_path / "models.toml").symlink_to("nowhere.toml")
    unread = Catalog(shipped_file(), tmp_path / "models.toml").unread
    assert unread is not None
    assert "cannot be read" in unread.message
