"""Resolve a source to its files, and read their headers: from Hugging Face, or on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from app.core import regular_file
from app.core.errors import (
    AppError,
    DamagedFileError,
    HubError,
    HubTimeoutError,
    NoRepositoryError,
    NoRevisionError,
    PairError,
)
from app.models.compatibility import check_pair
from app.models.gguf import (
    MAX_HEADER_BYTES,
    GgufHeader,
    HeaderError,
    HeaderIncompleteError,
    file_errors,
    parse_header,
    read_header,
)
from app.models.hub import cache, choose
from app.models.hub.client import repository, stream_from
from app.models.hub.request import CACHED_S, HEADER_S, LOOKUP_S, host, interruptible_lookup
from app.models.model_facts import ModelFacts, model_facts
from app.models.model_names import part_of, parts_here
from app.models.progress import Watcher
from app.models.source import DEFAULT_REVISION, DemoModel, HubModel, LocalModel, ModelSource

DemoFile = Callable[[str], Path]
"""Returns the path of the demo's target or draft; creates the file if missing."""
_FIRST_PARSE = 1 << 16


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model whose files are known.

    Attributes:
        files: Files in the repository, in the order of a split model's parts; () for a file on this machine.
        path: The file to load, if it is already on this machine.
        beside: Draft layers in the same repository, preferred first.
        projector: Projector for a target in the same repository, if any.
    """

    source: ModelSource
    files: tuple[choose.RemoteFile, ...]
    path: Path | None
    size: int
    license: str = ""
    gated: bool = False
    beside: tuple[HubModel, ...] = ()
    moved_to: str | None = None
    projector: ResolvedModel | None = None

    @property
    def name(self) -> str:
        """Name of the file to load, without folders."""
        return self.path.name if self.path is not None else self.files[0].name


def resolve(source: ModelSource, demo_file: DemoFile, watcher: Watcher, *, draft: bool = False) -> ResolvedModel:
    """Find the files of a source.

    Args:
        draft: Whether it is used as a draft, which decides the default quantization.

    Raises:
        HubError: Hugging Face does not have it or cannot be reached.
        ModelFileError: A local file is missing, or a folder.
        Interrupted: Canceled.
    """
    watcher.begin(str(source))
    match source:
        case HubModel():
            return _on_hub(source, watcher, draft=draft)
        case LocalModel(path):
            return _local(source, path)
        case DemoModel(part):
            return _local(source, demo_file(part))


def _on_hub(source: HubModel, watcher: Watcher, *, draft: bool) -> ResolvedModel:
    # A downloaded file is used if Hugging Face does not answer, or now has another file.
    here = cache.cached_model(source, draft=draft)
    ask = partial(repository, source.repo, source.revision)
    try:
        listed = interruptible_lookup(ask, watcher, LOOKUP_S if here is None else CACHED_S)
        files = choose.choose(source, listed.files, draft=draft).files
    except HubError as error:
        if here is not None:
            return ResolvedModel(source, here[1], here[0], sum(file.size for file in here[1]))
        if isinstance(error, NoRevisionError) and source.sha256 is not None and source.revision != DEFAULT_REVISION:
            # Its checksum shows whether the file of another commit is the same.
            return _on_hub(replace(source, revision=DEFAULT_REVISION), watcher, draft=draft)
        if isinstance(error, NoRepositoryError) and source.is_pinned:
            gone = f"{source.repo} is gone from {host()}, or it is private now."
            raise NoRepositoryError(gone, "Choose another pair: ⟨pairs⟩") from error
        raise

    def in_repository(path: str) -> HubModel:
        return HubModel(source.repo, file=path, revision=source.revision)

    projector = None if draft else choose.projector_for(files[0].path, listed.files)
    return replace(
        _listed(source, files),
        license=listed.license,
        gated=listed.gated,
        beside=tuple(in_repository(found.name) for found in choose.draft_layers(listed.files)),
        moved_to=listed.name if listed.name.lower() != source.repo.lower() else None,
        projector=_listed(in_repository(projector.path), (projector,)) if projector is not None else None,
    )


def _listed(source: HubModel, files: tuple[choose.RemoteFile, ...]) -> ResolvedModel:
    paths = list(map(cache.cached, files))
    return ResolvedModel(source, files, paths[0] if all(paths) else None, sum(file.size for file in files))


def current(source: ModelSource, watcher: Watcher) -> ModelSource:
    """Return a repository's current replacement for a catalog's file, without a checksum if it changed.

    Raises:
        HubError: There is no replacement, or Hugging Face cannot be reached.
        Interrupted: Canceled.
    """
    if not isinstance(source, HubModel) or not source.is_pinned:
        return source
    watcher.begin(f"the newest {source.file or source}")
    listed = interruptible_lookup(partial(repository, source.repo, DEFAULT_REVISION), watcher, LOOKUP_S)
    found = choose.successor(source, listed.files)
    is_same = found.files[0].sha256 == source.sha256 if source.sha256 is not None else found.size == source.size
    if found.name == source.file and is_same:
        return replace(source, revision=DEFAULT_REVISION)
    return HubModel(source.repo, file=found.name)


def _local(source: ModelSource, path: Path) -> ResolvedModel:
    with file_errors(path):
        regular_file.status(path)
        parts = parts_here(path)
        size = sum(part.stat().st_size for part in parts)
    return ResolvedModel(source, (), parts[0], size)


def facts_of(model: ResolvedModel, watcher: Watcher) -> ModelFacts:
    """Return the properties of a model from its header.

    Raises:
        HubError: The header is not available or invalid.
        ModelFileError: The header of a local file is not available or invalid, or the file is truncated.
        Interrupted: Canceled.
    """
    watcher.begin(model.name)
    if model.path is not None:
        header = read_header(model.path, tensors=True)
    else:
        header = read_remote_header(model.files[0], watcher)
    last = max((tensor.offset for tensor in header.tensors.values()), default=0)
    if len(model.files) <= 1 and part_of(model.name) is None and header.data_start + last > model.size:
        raise DamagedFileError(f"{model.name} is cut short: it ends before its last tensor.", "Download it again.")
    return model_facts(header, file=model.files[0].path if model.files else model.name, size=model.size)


def read_remote_header(file: choose.RemoteFile, watcher: Watcher) -> GgufHeader:
    """Read a header by range requests of a few megabytes; the model is not downloaded.

    Raises:
        HubError: It is not available, or the file is not a GGUF model; `HubTimeoutError` at the deadline.
        Interrupted: Canceled.
    """
    end, data = min(file.size, MAX_HEADER_BYTES), bytearray()

    def request() -> GgufHeader:
        """Request the missing bytes; hang up when the header is complete."""
        # Every parse begins at the first byte, so the next parse waits for twice as many.
        next_parse = _FIRST_PARSE
        with closing(stream_from(file, len(data), end)) as pieces:
            for piece in pieces:
                watcher.check_cancelled()
                data.extend(piece)
                watcher.received(len(piece))
                if len(data) >= min(next_parse, end):
                    next_parse = 2 * len(data)
                    with suppress(HeaderIncompleteError):
                        return parse_header(bytes(data), tensors=True)
        raise HubError(f"{file.path} of {file.repo} is damaged: it ends inside its header.", "Choose another file.")

    try:
        return interruptible_lookup(request, watcher, HEADER_S)
    except HeaderError as error:
        raise HubError(f"{file.path} of {file.repo} is not a GGUF model: {error}.", "Choose another file.") from None


# Drafts for a target


def own_draft(
    target: ResolvedModel, facts: ModelFacts, watcher: Watcher, warnings: list[str]
) -> tuple[ResolvedModel, ModelFacts] | None:
    """Return the first compatible draft layers beside a target.

    None if the target's file has its own, or if none beside it can draft; then `warnings` receives the first reason.
    """
    alone = check_pair(facts)
    if alone.problems or alone.draft_kind is not None:
        return None
    refused: list[AppError] = []
    found = None
    try:
        found = next(compatible_drafts(facts, target.beside, watcher, refused), None)
    except HubError as error:
        refused.append(error)
    if found is None:
        warnings += [error.message for error in refused[:1]]
    return found


def compatible_drafts(
    target: ModelFacts, sources: Iterable[ModelSource], watcher: Watcher, refused: list[AppError]
) -> Iterator[tuple[ResolvedModel, ModelFacts]]:
    """Yield the drafts that suit a target and have at most half its size; each header costs a few megabytes.

    `refused` receives why the others cannot draft.
    """
    seen: set[ModelSource] = set()
    for source in sources:
        try:
            model = resolve(source, Path, watcher, draft=True)
            if source in seen or model.size * 2 > target.weight_bytes:
                continue
            facts = facts_of(model, watcher)
        except HubTimeoutError:
            raise
        except AppError as error:
            refused.append(error)
            continue
        if problems := check_pair(target, facts).problems:
            refused.append(PairError(problems[0]))
            continue
        seen.add(source)
        yield model, facts
