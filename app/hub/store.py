"""The hub's own cache on this machine, shared with every other program that uses it.

Files lie where huggingface_hub puts them: content under `blobs` by its hash, names under `snapshots` by commit. What
another program has downloaded is found, and what is downloaded here is found by others.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.file_download import are_symlinks_supported, repo_folder_name

from app import atomic
from app.errors import HubError
from app.hub.choose import RemoteFile
from app.hub.errors import host, translated
from app.regular_file import is_file

_PARTIAL = ".incomplete"


def folder() -> Path:
    """The cache, from HF_HUB_CACHE, HF_HOME or the client's default."""
    return Path(constants.HF_HUB_CACHE)


def cached(repo: str, commit: str, path: str) -> Path | None:
    """A file that is here already, by commit, branch or tag; None if it is not."""
    found = try_to_load_from_cache(repo, path, revision=commit)
    return Path(found) if isinstance(found, str) and is_file(Path(found)) else None


def blob(repo: str, file: RemoteFile) -> Path:
    """Where a file's content lies, or will lie."""
    return _repo(repo) / "blobs" / _content_name(file)


def partial(repo: str, file: RemoteFile) -> Path:
    """Where what has come of a file is kept until all has."""
    content = blob(repo, file)
    return content.with_name(content.name + _PARTIAL)


def _repo(repo: str) -> Path:
    return folder() / repo_folder_name(repo_id=repo, repo_type="model")


def _content_name(file: RemoteFile) -> str:
    # Both come from outside; anything but letters and digits could leave the folder.
    name = file.sha256 or file.etag or ""
    if not name.isalnum():
        raise HubError(f"{host()} does not tell the checksum of {file.path}.", "It may be a hub of another make.")
    return name


@contextmanager
def locked(repo: str, file: RemoteFile) -> Iterator[bool]:
    """Hold the lock that every client of the cache takes before writing this content; False if another has it."""
    path = folder() / ".locks" / repo_folder_name(repo_id=repo, repo_type="model") / f"{_content_name(file)}.lock"
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
    """Give content that lies under `blobs` its name; returns the path to load.

    Raises:
        HubError: The hub or the disk refused.
    """
    with translated(repo):
        if not are_symlinks_supported(folder()):
            return _moved(blob(repo, file), _repo(repo) / "snapshots" / commit / file.path)
        # The client finds the content and only links it.
        return Path(hf_hub_download(repo, file.path, revision=commit))


def _moved(content: Path, named: Path) -> Path:
    """Content under its name, as on Windows, where not everybody may make links: the client would keep a copy of it."""
    named.parent.mkdir(parents=True, exist_ok=True)
    try:
        atomic.move_large(content, named)
    except FileNotFoundError:
        # Another Tandem was quicker.
        if not named.is_file():
            raise
    return named


def free_bytes() -> int:
    """Free space on the disk that the cache is on.

    Raises:
        CacheError: It may not be looked at.
    """
    place = folder()
    with translated(""):
        while not place.exists() and place != place.parent:
            place = place.parent
        return shutil.disk_usage(place).free


def missing_bytes(repo: str, commit: str, files: tuple[RemoteFile, ...]) -> int:
    """How much of some files has still to come.

    Raises:
        HubError: The disk refuses, or the hub does not tell what their content is called.
    """
    missing = 0
    with translated(repo):
        for file in files:
            if cached(repo, commit, file.path) is None and not blob(repo, file).exists():
                missing += file.size - kept_bytes(repo, file)
    return missing


def kept_bytes(repo: str, file: RemoteFile) -> int:
    """How much of a file has come, as long as not all has."""
    try:
        return min(file.size, partial(repo, file).stat().st_size)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def delete(path: Path) -> int:
    """Delete one file with its content, unless another name in the cache leads to that; returns the bytes freed."""
    content = path.resolve()
    size = content.stat().st_size
    repo = folder_of(content)
    if content == path or repo is None:
        path.unlink()
        if (repo := _repo_around(path)) is not None:
            _prune(path.parent, repo)
        return size
    links = [other for other in (repo / "snapshots").rglob("*") if other.is_symlink() and other.resolve() == content]
    if any(_entry(other) != _entry(path) for other in links):
        path.unlink()
        return 0
    # First: where a program has it open Windows refuses, and gigabytes without a name would be found by nobody.
    content.unlink()
    path.unlink()
    _prune(path.parent, repo)
    return size


def _entry(path: Path) -> Path:
    """Where a name stands, whatever it leads to."""
    return path.parent.resolve() / path.name


def folder_of(content: Path) -> Path | None:
    """The repository's folder that a file's content lies in, or None if it does not lie in the cache."""
    repo = content.parent.parent
    return repo if content.parent.name == "blobs" and repo.parent == folder().resolve() else None


def _repo_around(path: Path) -> Path | None:
    """The repository's folder that a named file lies in, or None if it does not lie in the cache."""
    repos = (parent.parent for parent in path.parents if parent.name == "snapshots")
    return next((repo for repo in repos if repo.parent.resolve() == folder().resolve()), None)


def _prune(place: Path, repo: Path) -> None:
    """Remove the folders that are empty now, so that the cache does not claim a revision without files."""
    while place.resolve() != repo.resolve() and not any(place.iterdir()):
        place.rmdir()
        place = place.parent
