"""Set a pair up: find and check both models, download, register and try them.

The command line and the screen use the same steps and show the same events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

from app.core.errors import CacheError, CatalogError, Interrupted, ModelLoadError, PairError
from app.core.printable import printable
from app.core.units import MAX_SIZE, gigabytes
from app.models.catalog import Pair
from app.models.compatibility import PairCheck, check_pair, remedy_text
from app.models.hub import cache
from app.models.hub.download import DownloadRequest, delete_if_damaged, fetch
from app.models.hub.request import RetryPolicy, in_background
from app.models.memory_estimate import longest_trained
from app.models.pair_names import without_draft
from app.models.pair_size import has_room, with_size
from app.models.progress import DownloadWatcher, HeaderWatcher, Meter, Progress
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.resolve import DemoFile, Resolved, damaged_offline, facts_of, resolve
from app.models.source import ModelSource

TARGET, DRAFT = "target", "draft"
_POLL_S = 0.2
_STOP_S = 0.5

Trial = Callable[[SetUp, Callable[[], bool]], str]
"""Loads a pair and answers a few words; returns a line about it. Raises AppError if the pair does not work."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pair whose files are known and whose headers have been read.

    Attributes:
        pair: What was asked for.
        target: Its files.
        draft: The draft's files, or None.
        check: Result of the compatibility check.
        download_bytes: Bytes to download.
        free_bytes: Free space on the disk of the cache.
        notes: Further sentences for the user.
    """

    pair: Pair
    target: Resolved
    draft: Resolved | None
    check: PairCheck
    download_bytes: int
    free_bytes: int
    notes: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[tuple[str, Resolved], ...]:
        """Role and files of each model."""
        return ((TARGET, self.target),) if self.draft is None else ((TARGET, self.target), (DRAFT, self.draft))

    @property
    def sized(self) -> Pair:
        """The pair with the sizes of its files."""
        draft = self.pair.draft
        if draft is not None and self.draft is not None:
            draft = with_size(draft, self.draft.size)
        return replace(self.pair, target=with_size(self.pair.target, self.target.size), draft=draft)


@dataclass(frozen=True, slots=True)
class Trying:
    """The files are complete; the pair is loaded and answers once, which may fail.

    Attributes:
        pair: As it is registered.
        unkept: Why it could not be registered, or None.
    """

    pair: SetUp
    unkept: CatalogError | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The pair is set up.

    Attributes:
        pair: As it is registered.
        line: Result of the trial; "" without one.
        unkept: Why it could not be registered, or None.
    """

    pair: SetUp
    line: str
    unkept: CatalogError | None = None


SetupEvent = Progress | Trying | Ready


def completed(pair: Pair, target: Resolved, check: PairCheck) -> Pair:
    """Return the pair with what the catalog leaves out and the listing and the headers say."""
    facts, overhead = check.target, check.overhead
    mixture = facts.bytes_per_token if facts.expert_share < 1 else 0
    return replace(
        pair,
        licence=pair.licence or printable(target.licence),
        bytes_per_token=pair.bytes_per_token or mixture,
        context=pair.context or (longest_trained(facts.n_ctx_train) if facts.n_ctx_train else 0),
        # A hostile header may have sizes that the registry could not hold.
        working=overhead if max(astuple(overhead)) <= MAX_SIZE else pair.working,
    )


class Setup:
    """The steps of one setup.

    Args:
        registry: Where pairs are stored.
        demo_file: Finds the demo's files.
        trial: Tries a pair; None leaves that to the first chat.
        clock: Seconds, for speeds.
    """

    def __init__(
        self,
        registry: Registry,
        demo_file: DemoFile,
        trial: Trial | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._demo_file = demo_file
        self._trial = trial
        self._clock = clock
        self._stop = threading.Event()
        self._downloaded: set[Path] = set()
        self._notes: list[str] = []
        self.retry = RetryPolicy(self._stop.wait, cancelled=self._stop.is_set)
        self.current_role = ""
        """Role of the model that `prepare` reads, or failed to read."""

    def cancel(self) -> None:
        """Stop at once; downloaded bytes stay. May be called from any thread."""
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def prepare(self, pair: Pair, on_status: Callable[[str], None] = lambda _: None) -> Prepared:
        """Find both models and read their headers; a few megabytes are downloaded.

        Files that are here are hashed; damaged ones are deleted, to be downloaded again.

        Args:
            pair: What is asked for.
            on_status: Receives the status text.

        Raises:
            AppError: A model is not available or invalid.
            Interrupted: Canceled.
        """
        self.current_role = TARGET
        models = [self._found(pair.target, on_status)]
        warnings: tuple[str, ...] = ()
        try:
            if pair.draft is not None:
                self.current_role = DRAFT
                models.append(self._found(pair.draft, on_status, draft=True))
        except ModelLoadError as error:
            warnings = (without_draft(error),)
        facts = []
        for self.current_role, model in zip((TARGET, DRAFT), models, strict=False):
            self.retry.stop_if_cancelled()
            facts.append(facts_of(model, self.retry, HeaderWatcher(model.name, on_status)))
        self.current_role = ""
        check = check_pair(*facts)
        return Prepared(
            pair=completed(pair, models[0], check),
            target=models[0],
            draft=models[1] if len(models) > 1 else None,
            check=replace(check, warnings=(*check.warnings, *warnings)),
            download_bytes=_missing_bytes(models),
            free_bytes=cache.free_bytes(),
            notes=tuple(self._notes),
        )

    def _found(self, source: ModelSource, on_status: Callable[[str], None], *, draft: bool = False) -> Resolved:
        """Resolve a source, and delete damaged files of it."""
        watcher = HeaderWatcher(str(source), on_status)
        model = resolve(source, self._demo_file, self.retry, watcher, draft=draft)
        for file in model.files:
            if delete_if_damaged(DownloadRequest(model.repo, model.commit, file, watcher, self.retry)):
                if model.away is not None:
                    raise damaged_offline(model) from model.away
                self._notes.append(f"{file.path.rsplit('/', 1)[-1]} was damaged here; it is downloaded again.")
                model = replace(model, path=None)
        return model

    def install(self, prepared: Prepared, *, default: bool = True, first: bool = True) -> Iterator[SetupEvent]:
        """Download what is missing, register the pair and try it.

        It is registered before the trial, so that its files are found again if it does not fit. Only a pair that works
        becomes the default.

        Args:
            prepared: The pair, from `prepare`.
            default: It becomes the default pair.
            first: It becomes the default pair if there is none.

        Raises:
            PairError: The models are not compatible.
            CacheError: The disk is too small or refuses.
            HubError: A file is not available.
            AppError: The pair does not work.
            Interrupted: Canceled.
        """
        models = [model for _, model in prepared.models]
        # Since `prepare` the disk may have filled up.
        self.refuse(replace(prepared, download_bytes=_missing_bytes(models), free_bytes=cache.free_bytes()))
        paths = yield from self._download(prepared)
        for model in models:
            model.keep_revision()
        pair = self._set_up(prepared, paths)
        self.retry.stop_if_cancelled()
        line = ""
        if self._trial is not None:
            yield Trying(pair, self._register(pair, default=False, first=False))
            line = self._trial(pair, self._stop.is_set)
            self.retry.stop_if_cancelled()
        yield Ready(pair, line, self._register(pair, default=default, first=first))

    def _register(self, pair: SetUp, *, default: bool, first: bool) -> CatalogError | None:
        """Register a pair; return why that failed, or None."""
        try:
            self._registry.add(pair, default=default, first=first)
        except CatalogError as error:
            return error
        return None

    def refuse(self, prepared: Prepared) -> None:
        """Raise if a pair cannot be set up, before the user is asked.

        Raises:
            PairError: The models are not compatible.
            CacheError: The disk is too small.
        """
        if prepared.check.remedy is not None:
            raise PairError(prepared.check.problems[0], remedy_text(prepared.check.remedy, prepared.pair.target))
        if not has_room(prepared.download_bytes, prepared.free_bytes):
            raise CacheError(
                f"{gigabytes(prepared.download_bytes)} are to be downloaded to {cache.folder()}, "
                f"and {gigabytes(prepared.free_bytes)} are free there.",
                "Make room, choose a smaller pair, or set HF_HUB_CACHE to a folder on another disk.",
            )

    def _download(self, prepared: Prepared) -> Generator[Progress, None, dict[str, Path]]:
        """Download both models side by side; return the path to load for each role."""
        paths = {role: model.path for role, model in prepared.models if model.path is not None}
        missing = {
            DownloadWatcher(role, model.name, model.size): model for role, model in prepared.models if not model.path
        }
        if not missing:
            return paths
        meter = Meter(self._clock)
        failed = threading.Event()

        def stopped() -> bool:
            return self._stop.is_set() or failed.is_set()

        # A pause also ends when the other download fails.
        retry = replace(self.retry, pause=lambda seconds: self._stop.wait(seconds) or stopped(), cancelled=stopped)
        running = {
            in_background(partial(self._fetch, model, watcher, retry), "download"): watcher
            for watcher, model in missing.items()
        }
        try:
            while not self._stop.is_set():
                done, pending = wait(running, timeout=_POLL_S, return_when=FIRST_EXCEPTION)
                yield meter.read(list(missing))
                if not pending or any(future.exception() is not None for future in done):
                    break
        finally:
            # Also when the reader of these events has gone: a thread must not continue alone.
            failed.set()
        # A thread may wait for a silent connection until its time limit.
        _, left = wait(running, timeout=_STOP_S if self._stop.is_set() else None)
        if left:
            raise Interrupted
        _raise_first(list(running))
        return paths | {watcher.now.role: future.result() for future, watcher in running.items()}

    def _fetch(self, model: Resolved, watcher: DownloadWatcher, retry: RetryPolicy) -> Path:
        paths = []
        for file in model.files:
            n_received = watcher.now.n_received
            paths.append(fetch(DownloadRequest(model.repo, model.commit, file, watcher, retry)))
            if watcher.now.n_received > n_received:
                # Stored at once: the other download may fail.
                self._downloaded.add(paths[-1])
                with suppress(CatalogError):
                    self._registry.claim(paths[-1])
        return paths[0]

    def _set_up(self, prepared: Prepared, paths: dict[str, Path]) -> SetUp:
        ours = set(self._downloaded)
        with suppress(CatalogError):
            ours |= self._registry.read().downloaded
        models = {
            role: ModelOnDisk(
                path=paths[role],
                size=model.size,
                repo=model.repo,
                commit=model.commit,
                files=tuple(file.path for file in model.files),
                ours=paths[role] in ours,
            )
            for role, model in prepared.models
        }
        return SetUp(prepared.pair, models[TARGET], models.get(DRAFT))


def _missing_bytes(models: list[Resolved]) -> int:
    """Return the bytes to download; a file that is target and draft counts once."""
    return sum({(model.repo, model.files): model.missing_bytes for model in models}.values())


def _raise_first(futures: list[Future[Path]]) -> None:
    """Raise the first failure; one that another failure stopped comes last."""
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, Interrupted)):
        raise error
