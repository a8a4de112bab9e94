"""The hub's own cache on this machine, shared with every other program that uses it.

Files lie where huggingface_hub puts them: content under `blobs` by its hash, names under `snapshots` by commit. What
another program has downloaded is found, and what is downloaded here is found by others.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from huggingface_hub import constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.file_download import are_symlinks_supported, repo_folder_name

from app.core import atomic
from app.core.errors import HubError
from app.core.regular_file import is_file, status
from app.models.hub.choose import RemoteFile
from app.models.hub.content_lock import locked_content
from app.models.hub.errors import host, translated
from app.models.hub.folder import PARTIAL

_SHA256 = re.compile(r"[0-9a-f]{64}")
_CACHE_TAG = "CACHEDIR.TAG"
_CACHE_SIGNATURE = (
    "Signature: 8a477f597d28d172789f06886806bc55\n# Files of the Hugging Face hub. See https://bford.info/cachedir/\n"
)


def folder() -> Path:
    """The cache, from HF_HUB_CACHE, HF_HOME or the client's default."""
    return Path(constants.HF_HUB_CACHE)


def cached(repo: str, revision: str, path: str, size: int | None) -> Path | None:
    """A file that is here already, as far as can be seen, and all of it: a power cut may leave a shorter one.

    Args:
        repo: Its repository.
        revision: Commit, branch or tag.
        path: In the repository.
        size: Bytes that it has; None where nobody knows.
    """
    try:
        found = try_to_load_from_cache(repo, path, revision=revision)
        if isinstance(found, str) and size in (None, status(Path(found)).st_size):
            return Path(found)
    except (OSError, HFValidationError):
        pass
    return None


def sha256_of(named: Path) -> str | None:
    """The checksum of a file in the cache, as the name of its content tells it; None where that tells none."""
    try:
        content = named.readlink().name
    except OSError:
        # The file itself, as where the cache has no links.
        return None
    return content if _SHA256.fullmatch(content) else None


def with_content(repo: str, path: str, sha256: str) -> Path | None:
    """A file that is here with this content, as its name tells it, whatever the revision; None if there is none.

    Args:
        repo: Its repository.
        path: In the repository.
        sha256: Of its content.
    """
    try:
        named = [snapshot / path for snapshot in sorted((_repo(repo) / "snapshots").iterdir())]
    except OSError:
        return None
    return next((one for one in named if sha256_of(one) == sha256 and is_file(one)), None)


def has_content(repo: str, file: RemoteFile) -> bool:
    """Whether all of a file's content is here, if not under its name.

    Raises:
        OSError: The disk refuses to tell.
    """
    content = blob(repo, file)
    return content.exists() and content.stat().st_size == file.size


def whole(repo: str, commit: str, file: RemoteFile) -> Path | None:
    """A file that is here, as far as can be seen, and all of it, be it without its name.

    Raises:
        HubError: The hub does not tell what its content is called.
        OSError: The disk refuses to tell.
    """
    named = cached(repo, commit, file.path, file.size)
    return named or (blob(repo, file) if has_content(repo, file) else None)


def blob(repo: str, file: RemoteFile) -> Path:
    """Where a file's content lies, or will lie."""
    return _repo(repo) / "blobs" / _content_name(file)


def partial(repo: str, file: RemoteFile) -> Path:
    """Where what has come of a file is kept until all has."""
    content = blob(repo, file)
    return content.with_name(content.name + PARTIAL)


def what_came(repo: str, file: RemoteFile) -> Path:
    """Where what has come of a file lies, be it all or not; nobody has checked it yet.

    Raises:
        HubError: The hub does not tell what its content is called.
        OSError: The disk refuses to tell.
    """
    return blob(repo, file) if has_content(repo, file) else partial(repo, file)


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
    with locked_content(blob(repo, file)) as ours:
        yield ours


def place(repo: str, commit: str, file: RemoteFile) -> Path:
    """Give content that lies under `blobs` its name, as the client does; returns the path to load.

    The client itself would ask the hub again, which may be out of reach by now.

    Raises:
        CacheError: The disk refused.
    """
    content, named = blob(repo, file), _repo(repo) / "snapshots" / commit / file.path
    with translated(repo):
        named.parent.mkdir(parents=True, exist_ok=True)
        if are_symlinks_supported(folder()):
            _link(content, named)
        else:
            _move(content, named)
        _mark_as_cache()
    return named


def _link(content: Path, named: Path) -> None:
    """A name that leads to its content, by a relative way, so that the whole cache can be moved."""
    if _leads(named, content):
        return
    # What stands there is not all of the file.
    named.unlink(missing_ok=True)
    try:
        named.symlink_to(os.path.relpath(content, named.parent))
    except FileExistsError:
        # Another Tandem was quicker.
        if not _leads(named, content):
            raise


def _leads(named: Path, content: Path) -> bool:
    return named.is_symlink() and named.resolve() == content.resolve()


def _move(content: Path, named: Path) -> None:
    """Content under its name, as on Windows, where not everybody may make links: the client would keep a copy of it."""
    try:
        atomic.move_large(content, named)
    except FileNotFoundError:
        # Another Tandem was quicker.
        if not named.is_file():
            raise


def _mark_as_cache() -> None:
    """Tell programs that make backups, as the client does, that everything here can be had again."""
    with suppress(OSError), (folder() / _CACHE_TAG).open("x", encoding="ascii") as tag:
        tag.write(_CACHE_SIGNATURE)


def refer(repo: str, revision: str, commit: str) -> None:
    """Let a branch or tag lead to its commit, as the client does, so that its files are found without the hub.

    Where the disk refuses that, everything else goes on.

    Args:
        repo: The repository.
        revision: The branch or tag; a path that does not lead out of a folder.
        commit: What the hub says that it is.
    """
    reference = _repo(repo) / "refs" / revision
    with suppress(OSError):
        if revision == commit or (reference.is_file() and reference.read_bytes() == commit.encode()):
            return
        reference.parent.mkdir(parents=True, exist_ok=True)
        # In one step: other programs read it at any time.
        new = reference.with_name(f"{reference.name}.{uuid4().hex[:8]}.tmp")
        new.write_bytes(commit.encode())
        new.replace(reference)


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


def missing_bytes(repo: str, commit: str, files: tuple[RemoteFile, ...], damaged: Collection[RemoteFile] = ()) -> int:
    """How much of some files has still to come.

    Args:
        repo: Their repository.
        commit: Its revision.
        files: The files.
        damaged: Those of them that are here and are not what they should be.

    Raises:
        HubError: The disk refuses, or the hub does not tell what their content is called.
    """
    missing = 0
    with translated(repo):
        for file in files:
            if file in damaged or whole(repo, commit, file) is None:
                missing += file.size - kept_bytes(repo, file)
    return missing


def kept_bytes(repo: str, file: RemoteFile) -> int:
    """How much of a file has come, as long as not all has."""
    try:
        return min(file.size, partial(repo, file).stat().st_size)
    except (FileNotFoundError, NotADirectoryError):
        return 0
