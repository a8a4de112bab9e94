"""Atomic writes and their locks."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from app.core import atomic
from app.core.atomic import exclusive, is_valid_name
from app.core.errors import CatalogError, SettingsError

NEEDS_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="modes, links, signals and pipes of POSIX")


@NEEDS_POSIX
def test_a_new_file_is_private(tmp_path: Path) -> None:
    atomic.write(tmp_path / "new", b"content")

    assert (tmp_path / "new").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


@NEEDS_POSIX
def test_a_link_stays_a_link_and_its_target_keeps_its_mode(tmp_path: Path) -> None:
    real, link = tmp_path / "folder" / "real", tmp_path / "link"
    real.parent.mkdir()
    real.write_bytes(b"old")
    real.chmod(0o644)
    link.symlink_to(real)

    atomic.write(link, b"new")

    assert link.is_symlink()
    assert (real.read_bytes(), stat.S_IMODE(real.stat().st_mode)) == (b"new", 0o644)
    assert list(real.parent.iterdir()) == [real]


@pytest.mark.parametrize("step", ["mkstemp", "fsync", "replace"])
def test_a_refusal_at_any_step_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr({"mkstemp": tempfile, "fsync": os, "replace": Path}[step], step, refuse)

    with pytest.raises(OSError, match="full"):
        atomic.write(file, b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("refusals", [3, 1 << 20])
def test_on_windows_a_file_that_is_being_read_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    file, replace, seconds = tmp_path / "file", Path.replace, iter(range(1 << 20))
    file.write_bytes(b"old")
    left = refusals

    def refuse(path: Path, other: Path) -> Path:
        nonlocal left
        left -= 1
        if left >= 0:
            raise PermissionError(errno.EACCES, "in use", str(other))
        return replace(path, other)

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(atomic, "time", SimpleNamespace(monotonic=lambda: next(seconds) / 10, sleep=lambda _: None))

    with pytest.raises(PermissionError) if refusals > 3 else nullcontext():
        atomic.write(file, b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old" if refusals > 3 else b"new"]


def run(code: str, file: Path) -> subprocess.CompletedProcess[str]:
    head = f"import os\nfrom pathlib import Path\nfrom app.core import atomic\nfile = Path({str(file)!r})\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)


@NEEDS_POSIX
def test_a_full_disk_and_a_kill_leave_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    full = run(f"{limit}\ntry: atomic.write(file, bytes(1 << 20))\nexcept OSError: print('refused')", file)
    assert full.stdout == "refused\n"
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]

    killed = run("os.fsync = lambda _: os.kill(os.getpid(), 9)\natomic.write(file, b'new')", file)
    assert killed.returncode == -9
    assert file.read_bytes() == b"old"


def test_a_cache_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("it waited"))

    atomic.write(tmp_path / "file", b"content", durable=False)

    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_new_file_is_never_written_over_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    atomic.create(tmp_path / "new", b"ours")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"ours"]

    with pytest.raises(FileExistsError):
        atomic.create(tmp_path / "new", b"others")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"ours"]

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="full"):
        atomic.create(tmp_path / "other", b"others")
    assert len(list(tmp_path.iterdir())) == 1


INVALID = ("CON", "con.md", "nul .txt", "COM1.json", "lpt¹", "CONIN$", "talk:all.md", "what?", 'a"b', "a\nb.md", "end.")
VALID = ("console.md", "auxiliary", "com.md", "com10.md", ".hidden", "a.b.c", "übung 1.md")


@pytest.mark.parametrize("name", INVALID + VALID)
def test_windows_lacks_some_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_valid_name(name)

    monkeypatch.setattr(sys, "platform", "win32")

    assert is_valid_name(name) == (name in VALID)


def test_a_lock_creates_the_folder_and_is_released(tmp_path: Path) -> None:
    file = tmp_path / "new" / "settings.toml"
    for text in ("a", "b"):
        with exclusive(file, SettingsError, timeout_s=0):
            file.write_text(text)

    assert file.read_text() == "b"


def test_a_locked_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "pairs.toml"
    held = FileLock(file.with_suffix(".lock"), thread_local=False)
    with held, pytest.raises(CatalogError, match=r"pairs\.toml is locked by another program"):
        _enter(file)


def test_a_lock_in_an_impossible_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CatalogError, match=f"cannot be written: {os.strerror(17)}|{os.strerror(20)}"):
        _enter(tmp_path / "file" / "pairs.toml")


def _enter(file: Path) -> None:
    with exclusive(file, CatalogError, timeout_s=0):
        pytest.fail("somebody else has it")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"format": 3, "n": 5}', 5),
        ('{"format": 2, "n": 5}', None),
        ('{"format": 3, "n": 0}', None),
        ("[" * 100_000, None),
        ("[3]", None),
        ("", None),
    ],
)
def test_an_unusable_cache_is_discarded(tmp_path: Path, text: str, found: int | None) -> None:
    file = tmp_path / "new" / "it.json"
    atomic.write_json(file, "long and longer")
    assert file.read_text() == '"long and longer"'
    file.write_text(text)
    assert atomic.read_json(file, 3, lambda raw: 5 * raw["n"] // raw["n"]) == found
    assert atomic.read_json(tmp_path / "none.json", 3, lambda raw: 1) is None
