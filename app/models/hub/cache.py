"""Hugging Face's cache on this machine, shared with every other program that uses it.

Content lies under `blobs` by its hash, names under `snapshots` by commit, as huggingface_hub puts them. Importing this
module does not load the client.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core import atomic
from app.core.errors import CacheError, HubError
from app.core.regular_file import is_file, is_folder, status
from app.models.hub.choose import RemoteFile
from app.models.source import home_expanded

PARTIAL = ".incomplete"
"""Suffix of a file that is not downloaded completely."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CACHE_TAG = "CACHEDIR.TAG"
_CACHE_SIGNATURE = (
    "Signature: 8a477f597d28d172789f06886806bc55\n# Files of the Hugging Face hub. See https://bford.info/cachedir/\n"
)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn errors of the disk into `CacheError`s."""
    try:
        yield
    except OSError as error:
        raise disk_error(error) from error


def disk_error(error: OSError) -> CacheError:
    """Return the sentence for an error of the disk."""
    place = error.filename or folder()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CacheError(
            f"The disk with {place} is full.",
            "Free some space and try again; the download resumes. Or set HF_HUB_CACHE to a folder on another disk.",
        )
    return CacheError(
        f"{place} cannot be used: {error.strerror or error}.",
        "Close programs that use it, or set HF_HUB_CACHE to a folder of your own.",
    )


# Where files lie


def folder() -> Path:
    """Return the cache folder from HF_HUB_CACHE, its older name, HF_HOME or the client's default."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return home_expanded(os.path.expandvars(named or f"{home}/hub"))


def _repo_folder(repo: str) -> Path:
    return folder() / f"models--{repo.replace('/', '--')}"


def blob(repo: str, file: RemoteFile) -> Path:
    """Return the path of a file's content, present or not."""
    # The name comes from outside; anything but letters and digits could leave the folder.
    name = file.sha256 or file.etag or ""
    if not name.isalnum():
        raise HubError(f"Hugging Face sends no checksum of {file.path}.", "It may not be a Hugging Face server.")
    return _repo_folder(repo) / "blobs" / name


def partial(repo: str, file: RemoteFile) -> Path:
    """Return the path of an incomplete download."""
    content = blob(repo, file)
    return content.with_name(content.name + PARTIAL)


def _content_of(unfinished: Path) -> Path:
    return unfinished.with_name(unfinished.name.partition(".")[0])


# What is here


def may_hold(repo: str) -> bool:
    """Return True if the cache has a folder for the repository."""
    return is_folder(_repo_folder(repo))


def cached(repo: str, revision: str, path: str, size: int | None) -> Path | None:
    """Return a complete file that is here, by its size: a power cut may leave a shorter one.

    Args:
        repo: Its repository.
        revision: Commit, branch or tag.
        path: Path in the repository.
        size: Bytes; None if unknown.
    """
    if ".." in revision.split("/"):
        return None
    here = _repo_folder(repo)
    with suppress(OSError, ValueError):
        reference = here / "refs" / revision
        commit = reference.read_text().strip() if is_file(reference) else revision
        found = here / "snapshots" / commit / path
        if size in (None, status(found).st_size):
            return found
    return None


def sha256_of(named: Path) -> str | None:
    """Return the checksum in the name of a cached file's content; None where links are not used."""
    try:
        content = named.readlink().name
    except OSError:
        return None
    return content if _SHA256.fullmatch(content) else None


def with_content(repo: str, path: str, sha256: str) -> Path | None:
    """Return a file with this content in any revision, or None."""
    named = sorted((_repo_folder(repo) / "snapshots").glob(f"*/{path}"))
    return next((one for one in named if sha256_of(one) == sha256 and is_file(one)), None)


def complete(repo: str, commit: str, file: RemoteFile) -> Path | None:
    """Return a complete file, by its name or its content; None if there is none."""
    if (named := cached(repo, commit, file.path, file.size)) is not None:
        return named
    content = blob(repo, file)
    return content if content.exists() and content.stat().st_size == file.size else None


def partial_bytes(repo: str, file: RemoteFile) -> int:
    """Return the bytes of an incomplete download."""
    try:
        return min(file.size, partial(repo, file).stat().st_size)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def missing_bytes(repo: str, commit: str, files: tuple[RemoteFile, ...]) -> int:
    """Return the bytes of files that are still to be downloaded.

    Raises:
        HubError: The disk refuses, or Hugging Face sends no checksum.
    """
    with disk_errors():
        missing = [file for file in files if complete(repo, commit, file) is None]
        return sum(file.size - partial_bytes(repo, file) for file in missing)


def free_bytes() -> int:
    """Return the free space on the disk of the cache.

    Raises:
        CacheError: It cannot be read.
    """
    place = folder()
    with disk_errors():
        while not place.exists() and place != place.parent:
            place = place.parent
        return shutil.disk_usage(place).free


def unfinished(repo: str = "*") -> dict[Path, int]:
    """Return incomplete downloads of any program with their bytes, without those that are running."""
    found = {}
    for path in sorted(folder().glob(f"models--{repo.replace('/', '--')}/blobs/*{PARTIAL}")):
        with suppress(OSError):
            if not is_downloading(path):
                found[path] = path.stat().st_size
    return found


def is_downloading(unfinished: Path) -> bool:
    """Return True if a program is downloading the rest of a file.

    Raises:
        OSError: The disk refuses.
    """
    with locked_content(_content_of(unfinished)) as is_locked:
        return not is_locked


def any_downloading() -> bool:
    """Return True if a program is downloading a file into the cache."""
    with disk_errors():
        return any(map(is_downloading, folder().glob(f"models--*/blobs/*{PARTIAL}")))


def is_resumable(unfinished: Path) -> bool:
    """Return True for a download that Tandem resumes; huggingface_hub starts over under a new name."""
    return unfinished.name.removesuffix(PARTIAL).isalnum()


# Writing


@contextmanager
def locked_content(content: Path) -> Iterator[bool]:
    """Hold the lock that every client of the cache takes before it writes; yield False if another has it.

    Raises:
        OSError: The disk refuses.
    """
    from filelock import FileLock, Timeout

    repo = content.parents[1]
    path = repo.parent / ".locks" / repo.name / f"{content.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=0, mode=0o664)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def place(repo: str, commit: str, file: RemoteFile) -> Path:
    """Give content under `blobs` its name, as the client does; return the path to load.

    Raises:
        CacheError: The disk refused.
    """
    from huggingface_hub.file_download import are_symlinks_supported

    content, named = blob(repo, file), _repo_folder(repo) / "snapshots" / commit / file.path
    with disk_errors():
        named.parent.mkdir(parents=True, exist_ok=True)
        if not are_symlinks_supported(folder()):
            atomic.replace(content, named)
        elif not (named.is_symlink() and named.resolve() == content.resolve()):
            named.unlink(missing_ok=True)
            # Relative, so that the whole cache can be moved.
            named.symlink_to(os.path.relpath(content, named.parent))
        with suppress(OSError), (folder() / _CACHE_TAG).open("x", encoding="ascii") as tag:
            tag.write(_CACHE_SIGNATURE)
    return named


def save_revision(repo: str, revision: str, commit: str) -> None:
    """Point a branch or tag to its commit, so that its files are found offline; ignore a disk that refuses."""
    reference = _repo_folder(repo) / "refs" / revision
    with suppress(OSError):
        if revision != commit and not (is_file(reference) and reference.read_bytes() == commit.encode()):
            reference.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(reference, commit.encode())


# Deleting


def delete_partial(path: Path) -> int:
    """Delete an incomplete download unless it is running; return the bytes freed."""
    with disk_errors(), locked_content(_content_of(path)) as is_locked, suppress(FileNotFoundError):
        if is_locked:
            size = path.lstat().st_size
            path.unlink()
            _remove_empty(path.parent)
            return size
    return 0


def delete(path: Path) -> int:
    """Delete a file, with its content unless another name leads to it; return the bytes freed.

    Raises:
        CacheError: The disk refused.
    """
    with disk_errors():
        repo = _repo_of(path)
        content = path.resolve() if repo is not None and path.is_symlink() else path
        freed = 0
        if repo is None or content == path:
            freed = path.lstat().st_size
        elif not any(name != path and name.resolve() == content for name in (repo / "snapshots").rglob("*")):
            # The content first: Windows refuses to delete it while a program has it open.
            freed = content.lstat().st_size
            content.unlink()
        path.unlink()
        if repo is not None:
            _remove_empty(path.parent)
            _prune(repo)
        return freed


def _repo_of(path: Path) -> Path | None:
    """Return the folder of a named file's repository; None outside the cache."""
    with suppress(ValueError):
        repo, kind, *_ = path.relative_to(folder()).parts
        return folder() / repo if kind == "snapshots" else None
    return None


def _prune(repo: Path) -> None:
    """Remove references to revisions that are gone, and empty folders; the client reports them as damage."""
    for reference in [one for one in (repo / "refs").rglob("*") if one.is_file()]:
        if not (repo / "snapshots" / reference.read_text().strip()).exists():
            reference.unlink()
            _remove_empty(reference.parent)
    if not (repo / "snapshots").exists() and (repo / "blobs").exists():
        _remove_empty(repo / "blobs")


def _remove_empty(place: Path) -> None:
    while place != folder() and place.exists() and not any(place.iterdir()):
        place.rmdir()
        place = place.parent
