"""From a source to the very files: on the hub by listing, on this machine by looking."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from app.core import regular_file
from app.core.errors import DamagedFileError, HubError, ModelFileError
from app.models.catalog import Pair
from app.models.gguf import GgufHeader, read_header
from app.models.hub import cache, choose
from app.models.hub.client import repository, safe_name
from app.models.hub.header import read_remote_header
from app.models.hub.request import CACHED_S, LOOKUP_S, UNWATCHED, RetryPolicy, Watcher, look_up
from app.models.model_facts import ModelFacts, model_facts
from app.models.model_names import quantization
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource
from app.models.split_model import missing_part, part_names, part_of

DemoFile = Callable[[str], Path]
"""Gives the path of the demo's target or draft, making what is missing."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model whose files are known.

    Attributes:
        source: As it was asked for.
        repo: Its repository; "" for a file on this machine.
        commit: Of the repository.
        files: In the repository, first part first.
        path: Of the file to load if it is on this machine already, else None.
        size: Bytes of all parts.
        quant: Quantization by the file's name.
        license: Identifier, or "".
        gated: Whether the hub wants terms accepted first.
        away: Why the hub has not said that this commit is the revision that was asked for; None where it has, or was
            not asked.
        damaged: Of the files those that are here and are not what they should be.
    """

    source: ModelSource
    repo: str
    commit: str
    files: tuple[choose.RemoteFile, ...]
    path: Path | None
    size: int
    quant: str
    licence: str = ""
    gated: bool = False
    away: HubError | None = None
    damaged: tuple[choose.RemoteFile, ...] = ()

    @property
    def name(self) -> str:
        """The file to load, without folders."""
        return (self.path.name if self.path is not None else self.files[0].path.rsplit("/", 1)[-1]) or str(self.source)

    @property
    def content(self) -> Hashable:
        """Return what comes, of whatever revision: the hub's cache has files by their content."""
        return self.repo, tuple((file.sha256 or file.etag or file.path, file.size) for file in self.files)

    @property
    def missing_bytes(self) -> int:
        """Return what has still to be downloaded, or again."""
        return cache.missing_bytes(self.repo, self.commit, self.files, self.damaged) if self.repo else 0

    @property
    def listed(self) -> bool:
        """Return whether the hub has said what its files are."""
        return bool(self.repo) and self.away is None

    def with_damaged(self, files: tuple[choose.RemoteFile, ...]) -> Resolved:
        """The same where some of its files were found to be here and damaged.

        Raises:
            HubError: They are to be brought again, and the hub is not there.
        """
        if not files:
            return self
        if self.away is not None:
            raise _damaged(files[0].path, self.away) from self.away
        return replace(self, path=None, damaged=files)

    def keep_revision(self) -> None:
        """Let its files be found again by the branch or tag that was asked for; they are here now."""
        if self.listed and isinstance(self.source, HubModel) and safe_name(self.source.revision):
            cache.save_revision(self.repo, self.source.revision, self.commit)


def resolve(
    source: ModelSource,
    demo_file: DemoFile,
    *,
    draft: bool = False,
    retry: RetryPolicy | None = None,
    watcher: Watcher = UNWATCHED,
) -> Resolved:
    """Find the files of a source.

    Args:
        source: What is asked for.
        demo_file: Where the demo's files are.
        draft: Whether it is to be a draft, which decides the quantization where none is named.
        retry: How to wait where the hub has trouble; None asks it once.
        watcher: Told of that.

    Raises:
        HubError: The hub does not have it or cannot be asked.
        ModelFileError: A local file is missing, or a folder.
        Interrupted: Canceled.
    """
    match source:
        case HubModel():
            return _on_hub(source, retry, watcher, draft=draft)
        case LocalModel(path):
            return _local(source, path)
        case DemoModel(part):
            return _local(source, demo_file(part))


def _on_hub(source: HubModel, retry: RetryPolicy | None, watcher: Watcher, *, draft: bool) -> Resolved:
    # What another time or program has brought can be used without the hub, and where its authors have put another file
    # in its place.
    cached = _cached(source)
    ask = partial(repository, source.repo, source.revision)
    try:
        seconds = LOOKUP_S if cached is None else CACHED_S
        listed = ask() if retry is None else look_up(ask, retry, watcher, seconds)
        chosen = choose.choose(source, listed.files, draft=draft)
    except HubError as error:
        if cached is not None:
            return replace(cached, away=error)
        raise
    here = [cache.cached(source.repo, listed.commit, file.path, file.size) for file in chosen.files]
    return Resolved(
        source=source,
        repo=source.repo,
        commit=listed.commit,
        files=chosen.files,
        path=here[0] if all(here) else None,
        size=chosen.size,
        quant=chosen.quant,
        licence=listed.licence,
        gated=listed.gated,
    )


def cached_file(source: HubModel) -> Path | None:
    """The file of a source that can be used without the hub; None for a split model, whose parts it would name.

    Where the branch has moved on, a file that is by its own name the one that the source knows is found in an earlier
    commit, and another one is not taken.
    """
    # The name may stand in a catalogue that somebody else has written, and no listing has vouched for it.
    if source.file is None or part_of(source.file) is not None or not safe_name(source.file):
        return None
    # Its size is what people may round; only the hub's listing tells it.
    found = cache.cached(source.repo, source.revision, source.file, None)
    if source.sha256 is None or (found is not None and cache.sha256_of(found) in (None, source.sha256)):
        return found
    return cache.with_content(source.repo, source.file, source.sha256)


def came_before(source: HubModel) -> int:
    """Bytes that a download which was cut has left of a source; 0 where only the hub knows what they are called."""
    if source.file is None or source.size is None or source.sha256 is None:
        return 0
    return cache.partial_bytes(source.repo, choose.RemoteFile(source.file, source.size, source.sha256))


def to_come(pair: Pair) -> int:
    """Bytes of a pair that would be downloaded, as far as the catalogue knows how large it is."""
    missing = [s for s in pair.sources if isinstance(s, HubModel) and s.size is not None and cached_file(s) is None]
    return sum((source.size or 0) - came_before(source) for source in missing)


def _cached(source: HubModel) -> Resolved | None:
    path = cached_file(source)
    if path is None or source.file is None:
        return None
    size = path.stat().st_size
    # .../snapshots/<commit>/<file in the repository>
    commit = path.parents[source.file.count("/")].name
    file = choose.RemoteFile(source.file, size, source.sha256)
    return Resolved(source, source.repo, commit, (file,), path, size, quantization(source.file))


def _local(source: ModelSource, path: Path) -> Resolved:
    try:
        regular_file.status(path)
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a folder, not a model file.", "Name the .gguf file inside it.") from None
    except regular_file.PipeOrDeviceError:
        raise ModelFileError(f"{path} is not a regular file.", "A model must be a .gguf file on disk.") from None
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise ModelFileError(f"There is no file {path}.", "Check the path.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.", "Check the path.") from error
    parts = part_names(path.name)
    if missing := missing_part(path):
        raise ModelFileError(f"{path} is one of {len(parts)} parts, and {missing} is not beside it.", "Get all parts.")
    size = sum((path.parent / part).stat().st_size for part in parts)
    return Resolved(source, "", "", (), path.parent / parts[0], size, quantization(path.name))


def facts_of(model: Resolved, retry: RetryPolicy, watcher: Watcher = UNWATCHED) -> ModelFacts:
    """Return what the model is, from its header, wherever it lies.

    Raises:
        HubError: The header cannot be had or is none.
        ModelFileError: The same for a file on this machine.
        Interrupted: Cancelled.
    """
    header: GgufHeader
    if model.path is not None and not model.listed:
        try:
            header, n_parts = read_header(model.path, tensors=True), len(part_names(model.path.name))
        except DamagedFileError as error:
            raise _damaged(model.name, model.away) if model.away is not None else error from error
    else:
        first = model.files[0]
        damaged = first in model.damaged
        header = read_remote_header(model.repo, model.commit, first, retry, watcher, damaged=damaged)
        n_parts = len(model.files)
    return model_facts(header, file=model.name, size=model.size, quant=model.quant, whole=n_parts == 1)


def _damaged(path: str, away: HubError) -> HubError:
    """Return what to say of a file that is here and damaged, where the hub does not give it again."""
    name = path.rsplit("/", 1)[-1]
    return HubError(f"{name} is damaged here, and cannot be downloaded again: {away.message}", away.hint)
