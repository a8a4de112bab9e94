"""Files that are written whole or not at all."""

from __future__ import annotations

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

from app.core import atomic

NEEDS_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="modes, links, signals and pipes of POSIX")


@NEEDS_POSIX
def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    atomic.write(tmp_path / "new", b"content")

    assert (tmp_path / "new").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


@NEEDS_POSIX
def test_a_link_stays_one_and_what_it_leads_to_keeps_its_mode(tmp_path: Path) -> None:
    real, link = tmp_path / "elsewhere" / "real", tmp_path / "link"
    real.parent.mkdir()
    real.write_bytes(b"old")
    real.chmod(0o644)
    link.symlink_to(real)

    atomic.write(link, b"new")

    assert link.is_symlink()
    assert (real.read_bytes(), stat.S_IMODE(real.stat().st_mode)) == (b"new", 0o644)
    assert list(tmp_path.iterdir()).count(link) == len(list(real.parent.iterdir())) == 1


@NEEDS_POSIX
def test_a_pipe_is_refused_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(OSError, match="no regular file"):
        atomic.write(pipe, b"new")
    assert pipe.is_fifo()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("step", ["mkstemp", "fsync", "replace"])
def test_a_refusal_at_any_step_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr({"mkstemp": tempfile, "fsync": os, "replace": Path}[step], step, refuse)

    with pytest.raises(OSError, match=os.strerror(code)):
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

    if refusals > 3:
        with pytest.raises(PermissionError):
            atomic.write(file, b"new")
    else:
        atomic.write(file, b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old" if refusals > 3 else b"new"]


@pytest.mark.parametrize("refusals", [3, 1 << 20])
def test_on_windows_a_new_file_that_is_being_read_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    file, unlink, seconds = tmp_path / "file", Path.unlink, iter(range(1 << 20))
    left = refusals

    def refuse(path: Path) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise PermissionError(errno.EACCES, "in use", str(path))
        unlink(path)

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(atomic, "time", SimpleNamespace(monotonic=lambda: next(seconds) / 10, sleep=lambda _: None))

    atomic.create(file, b"new")
    assert file.read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == (2 if refusals > 3 else 1)


@NEEDS_POSIX
def test_a_disk_that_is_full_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"

    done = _run(f"{limit}\ntry: atomic.write(file, bytes(1 << 20))\nexcept OSError: print('refused')", file)

    assert done.stdout == "refused\n"
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@NEEDS_POSIX
def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    done = _run("import os\nos.fsync = lambda _: os.kill(os.getpid(), 9)\natomic.write(file, b'new')", file)

    assert done.returncode == -9
    assert file.read_bytes() == b"old"


def test_what_only_saves_time_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("it waited"))

    atomic.write(tmp_path / "file", b"content", durable=False)

    assert (tmp_path / "file").read_bytes() == b"content"


def _run(code: str, file: Path) -> subprocess.CompletedProcess[str]:
    head = f"from pathlib import Path\nfrom app.core import atomic\nfile = Path({str(file)!r})\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)


def test_a_new_file_is_never_written_over_another(tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        atomic.create(file, b"ours")

    assert file.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [file]


def test_of_a_new_file_that_the_disk_refuses_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(OSError, match="full"):
        atomic.create(tmp_path / "new", b"ours")

    assert list(tmp_path.iterdir()) == []


@NEEDS_POSIX
def test_a_kill_in_the_middle_leaves_no_new_file(tmp_path: Path) -> None:
    file = tmp_path / "new"

    done = _run("import os\nos.fsync = lambda _: os.kill(os.getpid(), 9)\natomic.create(file, b'ours')", file)

    assert done.returncode == -9
    assert not file.exists()


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_disk_without_links_gets_its_new_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    file = tmp_path / "new"

    def refuse(*_: object) -> None:
        if is_taken:
            file.write_bytes(b"theirs")
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(FileExistsError) if is_taken else nullcontext():
        atomic.create(file, b"ours")

    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"theirs" if is_taken else b"ours"]
