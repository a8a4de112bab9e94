"""Resolve a source to its files: by a listing of Hugging Face, or on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from app.core import regular_file
from app.core.errors import DamagedFileError, HubError
from app.models.catalog import Pair
from app.models.gguf import file_errors, read_header
from app.models.hub import cache, choose
from app.models.hub.client import repository, safe_name
from app.models.hub.header import read_remote_header
from app.models.hub.request import CACHED_S, LOOKUP_S, RetryPolicy, look_up
from app.models.model_facts import ModelFacts, model_facts
from app.models.model_names import quantization
from app.models.progress import Watcher
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource
from app.models.split_model import part_of, parts_here

DemoFile = Callable[[str], Path]
"""Returns the path of the demo's target or draft; creates it if missing."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model whose files are known.

    Attributes:
        source: As it was asked for.
        repo: Its repository; "" for a file on this machine.
        commit: Of the repository.
        files: In the repository, first part first.
        path: The file to load if it is on this machine already, else None.
        size: Bytes of all parts.
        quant: Quantization by the file's name.
        licence: Identifier, or "".
        gated: Its terms must be accepted first.
        away: Why Hugging Face did not answer and a downloaded file is used; else None.
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

    @property
    def name(self) -> str:
        """The file to load, without folders."""
        return self.path.name if self.path is not None else self.files[0].path.rsplit("/", 1)[-1]

    @property
    def missing_bytes(self) -> int:
        """The bytes that are still to be downloaded."""
        return cache.missing_bytes(self.repo, self.commit, self.files) if self.repo else 0

    @property
    def is_listed(self) -> bool:
        """Hugging Face has listed its files."""
        return bool(self.repo) and self.away is None

    def keep_revision(self) -> None:
        """Let its downloaded files be found by the branch or tag that was asked for."""
        if self.is_listed and isinstance(self.source, HubModel) and safe_name(self.source.revision):
            cache.save_revision(self.repo, self.source.revision, self.commit)


def resolve(
    source: ModelSource,
    demo_file: DemoFile,
    retry: RetryPolicy,
    watcher: Watcher | None = None,
    *,
    draft: bool = False,
) -> Resolved:
    """Find the files of a source.

    Args:
        source: What is asked for.
        demo_file: Finds the demo's files.
        retry: How to wait if Hugging Face has trouble.
        watcher: Receives that as status.
        draft: It is used as a draft, which decides the quantization if none is named.

    Raises:
        HubError: Hugging Face does not have it or cannot be asked.
        ModelFileError: A local file is missing, or a folder.
        Interrupted: Canceled.
    """
    match source:
        case HubModel():
            return _on_hub(source, retry, watcher or Watcher(), draft=draft)
        case LocalModel(path):
            return _local(source, path)
        case DemoModel(part):
            return _local(source, demo_file(part))


def _on_hub(source: HubModel, retry: RetryPolicy, watcher: Watcher, *, draft: bool) -> Resolved:
    # A downloaded file is used if Hugging Face does not answer, or holds another file by now.
    cached = _cached(source)
    ask = partial(repository, source.repo, source.revision)
    try:
        listed = look_up(ask, retry, watcher, LOOKUP_S if cached is None else CACHED_S)
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
    """Return the file of a source that can be used without Hugging Face; None for a split model.

    Another program may have moved the branch on. Then a file with the known checksum is found in an earlier commit.
    """
    # A catalog may hold any name.
    if source.file is None or part_of(source.file) is not None or not safe_name(source.file):
        return None
    # People may round its size.
    found = cache.cached(source.repo, source.revision, source.file, None)
    if source.sha256 is None or (found is not None and cache.sha256_of(found) in (None, source.sha256)):
        return found
    return cache.with_content(source.repo, source.file, source.sha256)


def downloaded_before(source: HubModel) -> int:
    """Return the bytes that a cut download has left of a source; 0 if only Hugging Face knows their name."""
    if source.file is None or source.size is None or source.sha256 is None:
        return 0
    return cache.partial_bytes(source.repo, choose.RemoteFile(source.file, source.size, source.sha256))


def bytes_to_download(pair: Pair) -> int:
    """Return the bytes of a pair that would be downloaded, as far as the catalog knows their sizes."""
    missing = [s for s in pair.sources if isinstance(s, HubModel) and s.size is not None and cached_file(s) is None]
    return sum((source.size or 0) - downloaded_before(source) for source in missing)


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
    with file_errors(path):
        regular_file.status(path)
        parts = parts_here(path)
        size = sum(part.stat().st_size for part in parts)
    return Resolved(source, "", "", (), parts[0], size, quantization(path.name))


def facts_of(model: Resolved, retry: RetryPolicy, watcher: Watcher | None = None) -> ModelFacts:
    """Return the properties of a model from its header.

    Raises:
        HubError: The header is not available or invalid.
        ModelFileError: The same for a file on this machine.
        Interrupted: Canceled.
    """
    if model.path is not None and not model.is_listed:
        try:
            header, is_whole = read_header(model.path, tensors=True), part_of(model.path.name) is None
        except DamagedFileError as error:
            raise damaged_offline(model) if model.away is not None else error from error
    else:
        header = read_remote_header(model.repo, model.commit, model.files[0], retry, watcher)
        is_whole = len(model.files) == 1
    return model_facts(header, file=model.name, size=model.size, quant=model.quant, whole=is_whole)


def damaged_offline(model: Resolved) -> HubError:
    """Return the error for a downloaded file that is damaged while Hugging Face does not answer."""
    assert model.away is not None
    return HubError(
        f"{model.name} is damaged here, and cannot be downloaded again: {model.away.message}", model.away.hint
    )
