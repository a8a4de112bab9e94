"""Deleting from the hub's cache: what nobody else there needs, and nothing that makes its client call it damaged."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from huggingface_hub.utils._shared_blobs import shared_blob_target, sweep_shared_blob

from app.models.hub import store
from app.models.hub.content_lock import locked_content, still_comes
from app.models.hub.errors import translated
from app.models.hub.folder import content_of, is_ours, unfinished


def begun(repo: str, sha256: str | None, others: Collection[str] = ()) -> dict[Path, int]:
    """What downloads of ours that were stopped have left of a repository's files, in bytes; not what still comes.

    Args:
        repo: The repository.
        sha256: Of the file that is meant; None for all of them but the others.
        others: SHA-256 of files that somebody else means.

    Raises:
        CacheError: The disk refuses to tell what still comes.
    """
    left: dict[Path, int] = {}
    with translated(repo):
        for path, size in unfinished(repo).items():
            name = content_of(path).name
            if is_ours(path) and (name == sha256 if sha256 is not None else name not in others):
                left |= {path: size} if not still_comes(path) else {}
    return left


def delete_begun(path: Path) -> int:
    """Delete what has come of a file, unless it comes again or has come whole by now; returns the bytes freed."""
    with locked_content(content_of(path)) as ours, suppress(FileNotFoundError):
        if ours:
            size = path.lstat().st_size
            path.unlink()
            _remove_empty(path.parent)
            return size
    return 0


def delete(path: Path) -> int:
    """Delete one file with its content, unless another name in the cache leads to that; returns the bytes freed."""
    snapshot = _snapshot_around(path)
    content = _content_of(path, snapshot) if snapshot is not None else None
    if content is None:
        freed = path.lstat().st_size
    elif any(_entry(other) != _entry(path) for other in _names_of(content)):
        freed = 0
    else:
        # First: where a program has it open Windows refuses, and gigabytes without a name would be found by nobody.
        freed = _delete_content(content)
    path.unlink()
    if snapshot is not None:
        _prune(path.parent, snapshot)
    return freed


def _snapshot_around(path: Path) -> Path | None:
    """The folder of the revision that a named file belongs to, or None if it does not lie in the cache."""
    for place in path.parents:
        repo = place.parent.parent
        if place.parent.name == "snapshots" and repo.parent.resolve() == store.folder().resolve():
            return store.folder() / repo.name / "snapshots" / place.name
    return None


def _content_of(path: Path, snapshot: Path) -> Path | None:
    """Where the content of a name lies, or None where the name is the file itself, or leads out of the repository."""
    if not path.is_symlink():
        return None
    content = snapshot.parents[1] / "blobs" / path.readlink().name
    return content if (path.parent / path.readlink()).parent.resolve() == content.parent.resolve() else None


def _names_of(content: Path) -> list[Path]:
    names = (content.parents[1] / "snapshots").rglob("*")
    return [name for name in names if name.is_symlink() and name.resolve() == content.resolve()]


def _entry(path: Path) -> Path:
    """Where a name stands, whatever it leads to."""
    return path.parent.resolve() / path.name


def _delete_content(content: Path) -> int:
    """Delete what a name leads to; returns the bytes freed."""
    shared, size = shared_blob_target(content, store.folder()), content.lstat().st_size
    content.unlink()
    # Other repositories may have the same content: the client keeps account of them.
    return size if shared is None else sweep_shared_blob(shared, cache_dir=store.folder())


def _prune(place: Path, snapshot: Path) -> None:
    """Remove what is empty without a file: the client calls a cache damaged that claims what is not there."""
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
    while place.resolve() != store.folder().resolve() and not any(place.iterdir()):
        place.rmdir()
        place = place.parent
