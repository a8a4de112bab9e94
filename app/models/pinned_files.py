"""Check whether Hugging Face still has the catalog's files: what is gone, changed, newer or renamed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from app.core.errors import (
    HubError,
    HubTimeoutError,
    NoRepositoryError,
    NoRevisionError,
    UnreachableError,
    WaitError,
)
from app.models.catalog import Pair
from app.models.gguf import MAGIC
from app.models.hub.choose import RemoteFile, choose, projector_for
from app.models.hub.client import repository, stream_from
from app.models.hub.request import LOOKUP_S, interruptible_lookup
from app.models.progress import Watcher
from app.models.resolve import current
from app.models.source import HubModel

UNCHANGED, NEWER, RENAMED, CHANGED, GONE, UNKNOWN = "unchanged", "newer", "renamed", "changed", "gone", "unknown"
STATES = (GONE, CHANGED, UNKNOWN, NEWER, RENAMED, UNCHANGED)
"""States of a file, most urgent first."""
_N_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A file of the catalog on Hugging Face.

    Attributes:
        detail: The difference as a sentence, if any.
    """

    source: HubModel
    pairs: tuple[str, ...]
    state: str
    detail: str | None = None


def sources_of(pairs: Iterable[Pair]) -> dict[HubModel, list[str]]:
    """Return the files of these pairs on Hugging Face, each with the names of its pairs."""
    users: dict[HubModel, list[str]] = {}
    for pair in pairs:
        for source in pair.sources:
            if isinstance(source, HubModel):
                users.setdefault(source, []).append(pair.name)
    return users


def check_files(sources: Mapping[HubModel, Sequence[str]], stop: threading.Event) -> Iterator[FileCheck]:
    """Check every file, several at a time; yield each result when it arrives.

    Raises:
        UnreachableError: Hugging Face cannot be reached.
        Interrupted: After `stop`.
    """
    with ThreadPoolExecutor(_N_PARALLEL) as pool:
        asked = {pool.submit(_checked, source, Watcher(stop)): source for source in sources}
        try:
            for future in as_completed(asked):
                source = asked[future]
                yield FileCheck(source, tuple(sources[source]), *future.result())
        finally:
            pool.shutdown(cancel_futures=True)


def _checked(source: HubModel, watcher: Watcher) -> tuple[str, str | None]:
    try:
        listed = interruptible_lookup(partial(repository, source.repo, source.revision), watcher, LOOKUP_S)
    except UnreachableError:
        raise
    except HubError as error:
        is_gone = isinstance(error, NoRepositoryError | NoRevisionError)
        return GONE if is_gone else UNKNOWN, error.message
    try:
        found = choose(source, listed.files, draft=True)
    except HubError as error:
        return CHANGED if any(file.path == source.file for file in listed.files) else GONE, error.message
    if source.size is not None and found.size != source.size:
        return CHANGED, f"It has {found.size:,} bytes; the catalog says {source.size:,}."
    try:
        for file in filter(None, (found.files[0], projector_for(found.name, listed.files))):
            if not interruptible_lookup(partial(_is_model, file), watcher, LOOKUP_S):
                return CHANGED, f"{file.name} is not a GGUF file."
    except HubError as error:
        return UNKNOWN, error.message
    try:
        now = current(source, watcher)
    except HubError as error:
        # The pinned file is there.
        return UNKNOWN if isinstance(error, WaitError | HubTimeoutError) else NEWER, error.message
    if isinstance(now, HubModel) and source.is_pinned and not now.is_pinned:
        return NEWER, f"The repository has a different {now.file} now."
    if listed.name.lower() != source.repo.lower():
        return RENAMED, f"The repository is {listed.name} now."
    return UNCHANGED, None


def _is_model(file: RemoteFile) -> bool:
    with closing(stream_from(file, 0, len(MAGIC))) as pieces:
        return b"".join(pieces) == MAGIC
