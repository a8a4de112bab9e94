"""Something else in the place of a file that Tandem reads: no one waits for it, and it stays what it was."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from app.compare.history import Facts, History
from app.conversations.opening import check_file
from app.conversations.store import Store
from app.core import atomic, regular_file
from app.core.errors import AppError
from app.llama import stored_measurements
from app.llama.canary import Survivors
from app.llama.fitting.speed import _load as known_speed
from app.models.catalog import Catalog, shipped_file
from app.models.registry import Registry
from app.settings.file import SettingsFile
from app.ui.terminal.stderr_guard import guarded_stderr

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="such things are no files there")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "socket": _socket,
    "link to a pipe": _link_to_a_pipe,
    "link to itself": lambda path: path.symlink_to(path.name),
}
REFUSED: dict[str, Callable[[Path], object]] = {
    "settings": lambda path: SettingsFile(path).set("draft.n_max", 3),
    "catalogue": lambda path: Catalog([path]),
    "catalogue of the user's": lambda path: Catalog([shipped_file(), path]).get("mine"),
    "pairs": lambda path: Registry(path).read(),
    "conversations": Store.open,
}
BEGUN_ANEW: dict[str, Callable[[Path], object]] = {
    "memory": stored_measurements.load_statistics,
    "threads": stored_measurements.load_threads,
    "speed": known_speed,
    "survivors": lambda path: path.with_name("model") in Survivors(path) or None,
}


@pytest.fixture(params=KINDS)
def odd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is no regular file."""
    # The name of a socket may be so many bytes long.
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "odd"
    KINDS[request.param](Path(path.name))
    return path


def kind_of(path: Path) -> int:
    return os.lstat(path).st_mode


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_it_is_refused_with_a_sentence_and_a_way_out(odd: Path, use: Callable[[Path], object]) -> None:
    before = kind_of(odd)
    with pytest.raises(AppError, match=r"odd.*\.") as refusal:
        use(odd)
    assert refusal.value.hint
    assert kind_of(odd) == before


@pytest.mark.parametrize("use", BEGUN_ANEW.values(), ids=BEGUN_ANEW)
def test_what_only_saves_time_is_done_without(odd: Path, use: Callable[[Path], object]) -> None:
    assert use(odd) is None


@pytest.fixture
def enormous(tmp_path: Path) -> Path:
    """A file of a terabyte that takes no place."""
    path = tmp_path / "odd"
    path.touch()
    os.truncate(path, 1 << 40)
    return path


@pytest.mark.parametrize("name", ["settings", "catalogue", "pairs"])
def test_one_without_end_is_refused_before_it_fills_the_memory(enormous: Path, name: str) -> None:
    with pytest.raises(AppError, match=r"odd.*larger than"):
        REFUSED[name](enormous)


@pytest.mark.parametrize("name", ["memory", "threads", "speed", "survivors"])
def test_one_without_end_only_costs_time(enormous: Path, name: str) -> None:
    assert BEGUN_ANEW[name](enormous) is None


def test_it_is_not_written_over(odd: Path) -> None:
    before = kind_of(odd)
    with pytest.raises(OSError, match=r"no regular file|symbolic links"):
        atomic.write(odd, b"new")
    assert kind_of(odd) == before


def test_conversations_go_on_without_a_file(odd: Path) -> None:
    store = Store.open_anyway(odd)
    assert "cannot be saved" in store.notice
    assert not store.on_disk
    store.create()
    with suppress(AppError):
        # It is not written there either.
        store.close()
    with pytest.raises(AppError, match="odd"):
        check_file(odd)


def test_a_history_in_its_place_is_none(odd: Path) -> None:
    facts = Facts("machine", "target", "", "suite", {})
    odd.rename(odd.with_name(f"{facts.key}.json"))
    assert History(odd.parent, facts).results() == []


def test_the_log_goes_nowhere(odd: Path) -> None:
    with guarded_stderr(odd):
        os.write(2, b"noise")


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(json.dumps("á\n").encode() + b"\r\nb\rc")
    assert regular_file.read_text(path) == '"\\u00e1\\n"\nb\nc'
    assert regular_file.read_bytes(path, 3) == b'"\\u'


def test_on_windows_too_a_folder_is_told_from_what_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, _: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(IsADirectoryError, match="a folder"):
        regular_file.read_bytes(tmp_path)
    with pytest.raises(PermissionError):
        regular_file.read_bytes(tmp_path / "file")


def test_a_link_to_nothing_is_no_file_yet(tmp_path: Path) -> None:
    link = tmp_path / "settings.toml"
    link.symlink_to("elsewhere.toml")
    SettingsFile(link).set("draft.n_max", 3)
    assert link.is_symlink()
    assert "n_max = 3" in (tmp_path / "elsewhere.toml").read_text()
    (tmp_path / "models.toml").symlink_to("nowhere.toml")
    unread = Catalog([shipped_file(), tmp_path / "models.toml"]).unread
    assert unread is not None
    assert "cannot be read" in unread.message


def test_what_says_that_it_is_a_file_and_lets_its_readers_wait_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    # As /proc/kmsg does; anyone who writes here says nothing.
    monkeypatch.setattr(regular_file, "_check", lambda *_: None)
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        for most in (-1, 10):
            with pytest.raises(regular_file.PipeOrDeviceError):
                regular_file.read_bytes(tmp_path / "pipe", most)
    finally:
        os.close(writer)
