"""Hugging Face's cache on this machine, shared with every other program that uses it.

Content lies under `blobs` by its hash, names under `snapshots` by commit, as huggingface_hub puts them. Importing this
module does not load the client.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

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
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_IN_USE = (32, 33)
"""Windows' ERROR_SHARING_VIOLATION and ERROR_LOCK_VIOLATION; Python maps them to a permission error."""


def disk_error(error: OSError) -> CacheError:
    """Return the sentence for an error of the disk."""
    place = error.filename or folder()
    if error.errno in _DISK_FULL:
        return CacheError(
            f"The disk with {place} is full.",
            "Free some space and try again; the download resumes. Or set HF_HUB_CACHE to a folder on another disk.",
        )
    if getattr(error, "winerror", None) in _IN_USE:
        return CacheError(f"{place} is in use.", "Close the program that uses it, perhaps another Tandem.")
    if error.errno in _DENIED:
        return CacheError(f"No permission to write {place}.", "Set HF_HUB_CACHE to a folder of your own.")
    return CacheError(f"{place} cannot be used: {error.strerror or error}.", "Check the disk, or set HF_HUB_CACHE.")


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn errors of the disk into `CacheError`s."""
    try:
        yield
    except OSError as error:
        raise disk_error(error) from error


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


def content_of(unfinished: Path) -> Path:
    """Return the path of the content that an incomplete download becomes."""
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
        if status(found).st_size == (size if size is not None else status(found).st_size):
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
    try:
        named = [snapshot / path for snapshot in sorted((_repo_folder(repo) / "snapshots").iterdir())]
    except OSError:
        return None
    return next((one for one in named if sha256_of(one) == sha256 and is_file(one)), None)


def has_content(repo: str, file: RemoteFile) -> bool:
    """Return True if all of a file's content is here, with or without its name."""
    content = blob(repo, file)
    return content.exists() and content.stat().st_size == file.size


def whole(repo: str, commit: str, file: RemoteFile) -> Path | None:
    """Return a complete file, by its name or its content; None if there is none."""
    named = cached(repo, commit, file.path, file.size)
    return named or (blob(repo, file) if has_content(repo, file) else None)


def downloaded_part(repo: str, file: RemoteFile) -> Path:
    """Return the path of what was downloaded so far, complete or not, unchecked."""
    return blob(repo, file) if has_content(repo, file) else partial(repo, file)


def unfinished(repo: str = "*") -> dict[Path, int]:
    """Return incomplete downloads of any program with their bytes, of one repository or of all."""
    found = {}
    with suppress(OSError):
        for path in sorted(folder().glob(f"models--{repo.replace('/', '--')}/blobs/*{PARTIAL}")):
            with suppress(OSError):
                found[path] = path.stat().st_size
    return found


def is_resumable(unfinished: Path) -> bool:
    """Return True for a download that Tandem resumes; huggingface_hub starts over under a new name."""
    return unfinished.name.removesuffix(PARTIAL).isalnum()


def partial_bytes(repo: str, file: RemoteFile) -> int:
    """Return the bytes of an incomplete download."""
    try:
        return min(file.size, partial(repo, file).stat().st_size)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def missing_bytes(repo: str, commit: str, files: tuple[RemoteFile, ...], damaged: Collection[RemoteFile] = ()) -> int:
    """Return the bytes of files that are still to be downloaded.

    Args:
        repo: Their repository.
        commit: Its revision.
        files: The files.
        damaged: Files that are here with a wrong checksum.

    Raises:
        HubError: The disk refuses, or Hugging Face sends no checksum.
    """
    with disk_errors():
        missing = (file for file in files if file in damaged or whole(repo, commit, file) is None)
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


def is_downloading(unfinished: Path) -> bool:
    """Return True if a program is downloading the rest of a file.

    Raises:
        OSError: The disk refuses.
    """
    with locked_content(content_of(unfinished)) as ours:
        return not ours


def place(repo: str, commit: str, file: RemoteFile) -> Path:
    """Give content under `blobs` its name, as the client does; return the path to load.

    Raises:
        CacheError: The disk refused.
    """
    from huggingface_hub.file_download import are_symlinks_supported

    content, named = blob(repo, file), _repo_folder(repo) / "snapshots" / commit / file.path
    with disk_errors():
        named.parent.mkdir(parents=True, exist_ok=True)
        if are_symlinks_supported(folder()):
            _link(content, named)
        else:
            _move(content, named)
        with suppress(OSError), (folder() / _CACHE_TAG).open("x", encoding="ascii") as tag:
            tag.write(_CACHE_SIGNATURE)
    return named


def _link(content: Path, named: Path) -> None:
    """Link relatively, so that the whole cache can be moved."""
    if _leads_to(named, content):
        return
    named.unlink(missing_ok=True)
    try:
        named.symlink_to(os.path.relpath(content, named.parent))
    except FileExistsError:
        # Another Tandem was faster.
        if not _leads_to(named, content):
            raise


def _leads_to(named: Path, content: Path) -> bool:
    return named.is_symlink() and named.resolve() == content.resolve()


def _move(content: Path, named: Path) -> None:
    """Move content to its name, where Windows does not allow links."""
    try:
        atomic.move_large(content, named)
    except FileNotFoundError:
        if not named.is_file():
            raise


def save_revision(repo: str, revision: str, commit: str) -> None:
    """Point a branch or tag to its commit, so that its files are found offline; ignore a disk that refuses."""
    reference = _repo_folder(repo) / "refs" / revision
    with suppress(OSError):
        if revision == commit or (reference.is_file() and reference.read_bytes() == commit.encode()):
            return
        reference.parent.mkdir(parents=True, exist_ok=True)
        new = reference.with_name(f"{reference.name}.{uuid4().hex[:8]}.tmp")
        new.write_bytes(commit.encode())
        new.replace(reference)


# Deleting


def resumable(repo: str, sha256: str | None, others: Collection[str] = ()) -> dict[Path, int]:
    """Return stopped downloads of Tandem for a repository, in bytes, without those that are running.

    Args:
        repo: The repository.
        sha256: Checksum of one file; None for all files except `others`.
        others: Checksums of files that belong to other pairs.

    Raises:
        CacheError: The disk refuses.
    """
    left: dict[Path, int] = {}
    with disk_errors():
        for path, size in unfinished(repo).items():
            name = content_of(path).name
            if is_resumable(path) and (name == sha256 if sha256 is not None else name not in others):
                left |= {path: size} if not is_downloading(path) else {}
    return left


def delete_partial(path: Path) -> int:
    """Delete an incomplete download unless it is running; return the bytes freed."""
    with disk_errors(), locked_content(content_of(path)) as ours, suppress(FileNotFoundError):
        if ours:
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
        snapshot = _snapshot_of(path)
        content = _content_of(path, snapshot) if snapshot is not None else None
        freed = 0
        if content is None:
            freed = path.lstat().st_size
        elif not any(_location(other) != _location(path) for other in _names_of(content)):
            # The content first: Windows refuses to delete it while a program has it open.
            freed = content.lstat().st_size
            content.unlink()
        path.unlink()
        if snapshot is not None:
            _prune(path.parent, snapshot)
        return freed


def _snapshot_of(path: Path) -> Path | None:
    """Return the revision's folder of a named file; None outside the cache."""
    for place in path.parents:
        repo = place.parent.parent
        if place.parent.name == "snapshots" and repo.parent.resolve() == folder().resolve():
            return folder() / repo.name / "snapshots" / place.name
    return None


def _content_of(path: Path, snapshot: Path) -> Path | None:
    """Return the content of a name; None for a plain file, or a link that leaves the repository."""
    if not path.is_symlink():
        return None
    content = snapshot.parents[1] / "blobs" / path.readlink().name
    return content if (path.parent / path.readlink()).parent.resolve() == content.parent.resolve() else None


def _names_of(content: Path) -> list[Path]:
    names = (content.parents[1] / "snapshots").rglob("*")
    return [name for name in names if name.is_symlink() and name.resolve() == content.resolve()]


def _location(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _prune(place: Path, snapshot: Path) -> None:
    """Remove empty folders and references to them; the client reports them as damage."""
    repo = snapshot.parents[1]
    _remove_empty(place)
    if not snapshot.exists():
        for reference in [one for one in (repo / "refs").rglob("*") if one.is_file()]:
            if reference.read_bytes() == snapshot.name.encode():
                reference.unlink()
                _remove_empty(reference.parent)
    if not (repo / "snapshots").exists() and (repo / "blobs").exists():
        _remove_empty(repo / "blobs")


def _remove_empty(place: Path) -> None:
    while place.resolve() != folder().resolve() and not any(place.iterdir()):
        place.rmdir()
        place = place.parent
