"""The steps of a setup: find and check both models, download and register them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from app.core.errors import CacheError, HubError, Interrupted, ModelLoadError, PairError
from app.core.fixes import fix
from app.core.printable import printable
from app.core.units import gigabytes
from app.engine.sources import Source
from app.models.catalog import Pair
from app.models.compatibility import PairCheck, check_pair, remedy_text, with_facts
from app.models.hub import cache
from app.models.hub.download import Download
from app.models.pair_summary import has_room, title_of, with_sizes, without_draft
from app.models.progress import DownloadWatcher, HeaderWatcher, Watcher
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.resolve import DemoFile, ResolvedModel, current, facts_of, own_draft, resolve
from app.models.source import DEFAULT_REVISION, HubModel, ModelSource


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pair whose files are known and whose headers were read.

    Attributes:
        models: The models by role: "target", "draft", and "vision" for the encoder of pictures.
    """

    pair: Pair
    models: Mapping[str, ResolvedModel]
    check: PairCheck
    download_bytes: int
    free_bytes: int

    @property
    def sized(self) -> Pair:
        """Return the pair with the sizes of its files."""
        return with_sizes(self.pair, *(model.size for model in self.models.values()))

    def refuse(self) -> None:
        """Raise PairError for incompatible models and CacheError for a full disk, before the user is asked."""
        if self.check.remedy is not None:
            raise PairError(self.check.problems[0], remedy_text(self.check.remedy, self.models["target"].source))
        if not has_room(self.download_bytes, self.free_bytes):
            raise CacheError(
                f"{gigabytes(self.download_bytes)} are to be downloaded to {cache.folder()}, "
                f"and {gigabytes(self.free_bytes)} are free there.",
                "Make room, choose a smaller pair, or set HF_HUB_CACHE to a folder on another disk.",
            )


def prepare(
    pair: Pair,
    demo_file: DemoFile,
    watcher: HeaderWatcher,
    *,
    finds_draft: bool = False,
    finds_projector: bool = True,
    latest: bool = False,
) -> Prepared:
    """Find both models and read their headers; this downloads a few megabytes.

    Files that are here are hashed; damaged files are deleted, to be downloaded again.

    Args:
        finds_draft: Add draft layers from the target's repository to a pair without a draft.
        finds_projector: Add the projector from the target's repository, if any.
        latest: Use the repositories' current files instead of the catalog's files.

    Raises:
        AppError: A model is not available or invalid; `FileChangedError` if `latest` may help.
        Interrupted: Canceled.
    """
    warnings: list[str] = []

    def found(source: ModelSource, *, draft: bool = False) -> ResolvedModel:
        return undamaged(resolve(source, demo_file, watcher, draft=draft))

    def undamaged(model: ResolvedModel) -> ResolvedModel:
        for file in model.files:
            if Download(file, watcher).delete_if_damaged():
                warnings.append(f"{file.name} was damaged here; it is downloaded again.")
                model = replace(model, path=None)
        return model

    sources = [current(source, watcher) for source in pair.sources] if latest else pair.sources
    target = found(sources[0])
    models = {"target": target}
    try:
        if pair.draft is not None:
            models["draft"] = found(sources[1], draft=True)
    except ModelLoadError as error:
        warnings.append(without_draft(error))
    warnings += _changes(pair, models.values(), watcher)
    facts = [facts_of(model, watcher) for model in models.values()]
    if finds_draft and pair.draft is None and (beside := own_draft(target, facts[0], watcher, warnings)):
        draft, draft_facts = beside
        models["draft"] = undamaged(draft)
        facts.append(draft_facts)
        pair = replace(pair, draft=draft.source, title=title_of(pair.target, draft.source))
    check = check_pair(*facts)
    if finds_draft and check.draft is None and check.draft_name:
        pair = replace(pair, title=f"{pair.title} + {Source.MTP.label}")
    if finds_projector and target.projector is not None:
        watcher.begin(target.projector.name)
        models["vision"] = undamaged(target.projector)
    return Prepared(
        pair=with_facts(replace(pair, license=pair.license or printable(target.license)), check),
        models=models,
        check=replace(check, warnings=(*check.warnings, *warnings)),
        download_bytes=_missing_bytes(models.values()),
        free_bytes=cache.free_bytes(),
    )


def install(
    prepared: Prepared,
    registry: Registry,
    downloads: list[DownloadWatcher],
    stop: threading.Event,
    *,
    default: bool | None = None,
) -> None:
    """Download what is missing, one model at a time, and register the pair.

    `downloads` receives the progress of each model. For `default` see `Registry.add`.

    Raises:
        AppError: See `Prepared.refuse`; or a file is not available, or the pair cannot be registered.
        Interrupted: Canceled.
    """
    models = prepared.models
    # The disk may have filled up since `prepare`.
    missing_bytes = _missing_bytes(models.values())
    replace(prepared, download_bytes=missing_bytes, free_bytes=cache.free_bytes()).refuse()
    paths = {role: model.path for role, model in models.items()}
    watchers = {role: DownloadWatcher(role, models[role].size, stop) for role in paths if not paths[role]}
    downloads += watchers.values()
    paths |= {role: _fetch(models[role], watcher, registry) for role, watcher in watchers.items()}
    for model in models.values():
        if isinstance(model.source, HubModel):
            cache.save_revision(model.source.repo, model.source.revision, model.files[0].commit)
    if stop.is_set():
        raise Interrupted
    on_disk = {role: ModelOnDisk(path, models[role].size) for role, path in paths.items() if path is not None}
    files = SetUp(prepared.pair, on_disk["target"], on_disk.get("draft"), on_disk.get("vision"))
    registry.add(files, default=default)


def _fetch(model: ResolvedModel, watcher: DownloadWatcher, registry: Registry) -> Path:
    paths = []
    for file in model.files:
        n_received = watcher.now.n_received
        paths.append(Download(file, watcher).run())
        if watcher.now.n_received > n_received:
            # Registered immediately, because the next download may fail.
            registry.claim(paths[-1])
    return paths[0]


def _changes(pair: Pair, models: Iterable[ResolvedModel], watcher: Watcher) -> Iterator[str]:
    """Yield what changed on Hugging Face since the catalog named the files to download."""
    for named, model in zip(pair.sources, models, strict=False):
        used = model.source
        if model.moved_to is not None:
            yield f"{named} was renamed to {model.moved_to}; Hugging Face forwards the old name."
        if model.path is not None or not isinstance(named, HubModel) or not isinstance(used, HubModel):
            continue
        if named.is_pinned and not used.is_pinned:
            yield f"{used.file} of {used.repo} is used in its current version; the catalog has no checksum for it."
        elif used.is_pinned and used.revision != DEFAULT_REVISION:
            with suppress(HubError):
                now = current(used, watcher)
                if isinstance(now, HubModel) and not now.is_pinned:
                    latest = fix("setup.latest", pair.name)
                    still = f"revision {used.revision[:7]} is used, which still exists"
                    yield f"{used.repo} has another {used.file} now; {still}. For the current one: {latest}"


def _missing_bytes(models: Iterable[ResolvedModel]) -> int:
    return sum(map(cache.missing_bytes, {file for model in models for file in model.files}))
