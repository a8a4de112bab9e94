"""Hugging Face's cache on this machine, shared with all programs that use it.

Content is under `blobs` by its hash, names are under `snapshots` by commit, as in huggingface_hub. Importing this
module does not load the client.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core import atomic
from app.core.errors import CacheError, HubError
from app.core.regular_file import home_expanded, is_file, status
from app.models.catalog import Pair
from app.models.hub.choose import SHA256_DIGEST, RemoteFile, choose, safe_name
from app.models.source import DEFAULT_REVISION, HubModel

PARTIAL = ".incomplete"
"""Suffix of an incomplete download."""


@contextmanager
def disk_errors() -> Iterator[None]:
    """Convert disk errors to `CacheError`s."""
    try:
        yield
    except OSError as error:
        raise disk_error(error) from error


def disk_error(error: OSError) -> CacheError:
    """Word a disk error."""
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


# Paths


def folder() -> Path:
    """Return the cache folder from HF_HUB_CACHE, its older name, HF_HOME or the client's default."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return home_expanded(os.path.expandvars(named or f"{home}/hub")).absolute()


def _repo_folder(repo: str) -> Path:
    return folder() / f"models--{repo.replace('/', '--')}"


def blob_path(file: RemoteFile) -> Path:
    """Return the path of a file's content, whether it exists or not."""
    if file.sha256 is None:
        raise HubError(f"Hugging Face sends no checksum of {file.path}.", "It may not be a Hugging Face server.")
    return _repo_folder(file.repo) / "blobs" / file.sha256


def partial_path(file: RemoteFile) -> Path:
    """Return the path of an incomplete download."""
    content = blob_path(file)
    return content.with_name(content.name + PARTIAL)


def _content_of(unfinished: Path) -> Path:
    """Return the path of the complete content of an incomplete download."""
    return unfinished.with_name(unfinished.name.partition(".")[0])


# Files on this machine


def cached(file: RemoteFile) -> Path | None:
    """Return a file of its commit, if it is present and complete: after a power cut it may be shorter."""
    named = _named(file)
    with suppress(OSError, ValueError):
        return named if status(named).st_size == file.size else None
    return None


def _named(file: RemoteFile) -> Path:
    return _repo_folder(file.repo) / "snapshots" / file.commit / file.path


def sha256_of(named: Path) -> str | None:
    """Return the checksum in the name of a cached file's content; None if the cache has no links."""
    try:
        content = named.readlink().name
    except OSError:
        return None
    return content if SHA256_DIGEST.fullmatch(content) else None


def cached_model(source: HubModel, *, draft: bool = False) -> tuple[Path, tuple[RemoteFile, ...]] | None:
    """Return the path to load of a model that needs no download, and its files, if it is here.

    Any program may have downloaded it. A file of another commit counts if no commit is named, or by its checksum.
    """
    if ".." in source.revision.split("/"):
        return None
    here = _repo_folder(source.repo)
    with suppress(OSError, ValueError):
        commit = _commit(here, source.revision)
        snapshots = sorted((here / "snapshots").iterdir(), key=lambda one: (one.name == commit, one.stat().st_mtime))
        for snapshot in reversed(snapshots):
            # A source that is missing or ambiguous in one snapshot may be found in the next.
            with suppress(HubError):
                found = choose(source, _files_of(source.repo, snapshot), draft=draft).files
                is_same = source.sha256 is not None and sha256_of(snapshot / found[0].path) == source.sha256
                if is_same or commit == snapshot.name or source.revision == DEFAULT_REVISION:
                    return snapshot / found[0].path, found
    return None


def _commit(here: Path, revision: str) -> str:
    """Return the commit of a branch or tag in a repository's folder; a commit is returned unchanged."""
    reference = here / "refs" / revision
    return reference.read_text().strip() if is_file(reference) else revision


def _files_of(repo: str, snapshot: Path) -> list[RemoteFile]:
    paths = [path for path in snapshot.rglob("*") if is_file(path)]
    return [
        RemoteFile(path.relative_to(snapshot).as_posix(), status(path).st_size, sha256_of(path), repo, snapshot.name)
        for path in paths
    ]


def cached_file(source: HubModel, *, draft: bool = False) -> Path | None:
    """Return the path to load of a model that needs no download, if it is here."""
    found = cached_model(source, draft=draft)
    return found[0] if found is not None else None


def bytes_to_download(pair: Pair) -> int:
    """Return the bytes of a pair that would be downloaded, without files of unknown size."""
    n_bytes = 0
    for source in pair.sources:
        if isinstance(source, HubModel) and source.size is not None and cached_file(source) is None:
            n_bytes += source.size
            if source.file is not None and source.sha256 is not None:
                n_bytes -= partial_bytes(RemoteFile(source.file, source.size, source.sha256, source.repo))
    return n_bytes


def complete(file: RemoteFile) -> Path | None:
    """Return a complete file, by its name or its content, if present."""
    if (named := cached(file)) is not None:
        return named
    content = blob_path(file)
    return content if content.exists() and content.stat().st_size == file.size else None


def partial_bytes(file: RemoteFile) -> int:
    try:
        return min(file.size, partial_path(file).stat().st_size)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def missing_bytes(file: RemoteFile) -> int:
    """Return the missing bytes of a file. Raises HubError."""
    with disk_errors():
        return 0 if complete(file) is not None else file.size - partial_bytes(file)


def free_bytes() -> int:
    """Return the free space on the disk of the cache. Raises CacheError."""
    place = folder()
    with disk_errors():
        while not place.exists() and place != place.parent:
            place = place.parent
        return shutil.disk_usage(place).free


def unfinished(repo: str = "*") -> dict[Path, int]:
    """Return incomplete downloads of any program with their bytes, except running downloads."""
    found = {}
    for path in sorted(folder().glob(f"models--{repo.replace('/', '--')}/blobs/*{PARTIAL}")):
        with suppress(OSError):
            if not is_downloading(path):
                found[path] = path.stat().st_size
    return found


def is_downloading(unfinished: Path) -> bool:
    """Return whether a program is downloading the rest of a file. Raises OSError."""
    with locked_content(_content_of(unfinished)) as is_locked:
        return not is_locked


def any_downloading() -> bool:
    """Return whether a program is downloading a file into the cache."""
    with disk_errors():
        return any(map(is_downloading, folder().glob(f"models--*/blobs/*{PARTIAL}")))


# Writing


@contextmanager
def locked_content(content: Path) -> Iterator[bool]:
    """Hold the lock that every client of the cache takes before writing; yield False if another program holds it."""
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


def place(file: RemoteFile) -> Path:
    """Link content under `blobs` to its name, as the client does; return the path to load. Raises CacheError."""
    from huggingface_hub.file_download import are_symlinks_supported

    content, named = blob_path(file), _named(file)
    with disk_errors():
        named.parent.mkdir(parents=True, exist_ok=True)
        if not are_symlinks_supported(folder()):
            atomic.replace(content, named)
        elif not (named.is_symlink() and named.resolve() == content.resolve()):
            named.unlink(missing_ok=True)
            # A relative link lets users move the whole cache.
            named.symlink_to(os.path.relpath(content, named.parent))
    return named


def save_revision(repo: str, revision: str, commit: str) -> None:
    """Point a branch or tag to its commit, so that its files are found offline; ignore disk errors."""
    reference = _repo_folder(repo) / "refs" / revision
    if revision != commit and safe_name(revision):
        with suppress(OSError):
            reference.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(reference, commit.encode())


# Deleting


def delete_file(path: Path) -> int:
    """Delete a file, and its blob unless another name links to it; return the bytes freed. Raises CacheError.

    An incomplete download stays while it is running.
    """
    with disk_errors():
        if path.name.endswith(PARTIAL):
            return _delete_partial(path)
        repo = _repo_of(path)
        content = path.resolve() if repo is not None and path.is_symlink() else path
        freed = 0
        if repo is None or content == path:
            freed = path.lstat().st_size
        elif not any(name != path and name.resolve() == content for name in (repo / "snapshots").rglob("*")):
            # Delete the content first: Windows refuses while a program has it open.
            freed = content.lstat().st_size
            content.unlink()
        path.unlink()
        if repo is not None:
            _remove_empty(path.parent)
            _prune(repo)
        return freed


def _delete_partial(path: Path) -> int:
    with locked_content(_content_of(path)) as is_locked, suppress(FileNotFoundError):
        if is_locked:
            size = path.lstat().st_size
            path.unlink()
            _remove_empty(path.parent)
            return size
    return 0


def _repo_of(path: Path) -> Path | None:
    with suppress(ValueError):
        repo, kind, *_ = path.relative_to(folder()).parts
        return folder() / repo if kind == "snapshots" else None
    return None


def _prune(repo: Path) -> None:
    """Remove references to deleted revisions, and empty folders, which huggingface_hub would report as damage."""
    for reference in [one for one in (repo / "refs").rglob("*") if one.is_file()]:
        if not (repo / "snapshots" / reference.read_text().strip()).exists():
            reference.unlink()
            _remove_empty(reference.parent)
    if not (repo / "snapshots").exists() and (repo / "blobs").exists():
        _remove_empty(repo / "blobs")


def _remove_empty(path: Path) -> None:
    while path != folder() and path.exists() and not any(path.iterdir()):
        path.rmdir()
        path = path.parent
