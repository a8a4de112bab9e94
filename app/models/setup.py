"""Setting a pair up: find it, check it, bring both files at once, remember it, try it.

The command line and the screen use the same steps; both only show the events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from app.core.errors import CacheError, CatalogError, Interrupted, ModelLoadError, PairError
from app.core.units import gigabytes
from app.models.catalog import Pair
from app.models.compatibility import check_pair, remedy_text
from app.models.hub import cache
from app.models.hub.download import DownloadRequest, fetch, is_damaged
from app.models.hub.request import RetryPolicy, in_background
from app.models.pair_names import without_draft
from app.models.prepared import DRAFT, TARGET, Prepared, Underway, completed, has_room, missing_bytes
from app.models.progress import Look, Looking, Meter, Progress, Tracked
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.resolve import DemoFile, Resolved, facts_of, resolve
from app.models.source import ModelSource

_LOOK_S = 0.2
_POLITE_S = 0.5

Trial = Callable[[SetUp, Callable[[], bool]], str]
"""Loads a pair and answers a few words; returns a line about it. Raises AppError if the pair does not work."""


@dataclass(frozen=True, slots=True)
class Trying:
    """The files are here and right; the pair is loaded and asked something, which may fail.

    Attributes:
        pair: As it is remembered.
        unkept: Why it cannot be; None where it is.
    """

    pair: SetUp
    unkept: CatalogError | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The pair is set up.

    Attributes:
        pair: As it is remembered.
        line: What the trial showed; "" if there was none.
        unkept: Why it will not be known any more when the program is started again; None where it is remembered.
        fixed: Files that were here and damaged, and have been downloaded again.
    """

    pair: SetUp
    line: str
    unkept: CatalogError | None = None
    mended: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was not as it seemed, in sentences."""
        return tuple(f"{name} was damaged here, and has been downloaded again." for name in self.mended)


SetupEvent = Progress | Trying | Ready


class Setup:
    """The steps from a pair to one that works.

    Args:
        registry: Where pairs are remembered.
        demo_file: Where the demo's files are.
        trial: Tries a pair; None leaves that to the first chat with it.
        clock: Seconds, for speeds.
        underway: Other downloads of this process.
    """

    def __init__(
        self,
        registry: Registry,
        demo_file: DemoFile,
        trial: Trial | None = None,
        clock: Callable[[], float] = time.monotonic,
        underway: Underway | None = None,
    ) -> None:
        self._registry = registry
        self._demo_file = demo_file
        self._trial = trial
        self._clock = clock
        self._underway = underway or Underway()
        self._stop = threading.Event()
        self._brought: set[Path] = set()
        self._mended: list[str] = []
        self.retry = RetryPolicy(self._stop.wait, cancelled=self._stop.is_set)
        self.current_role = ""
        """Role of the model that `prepare` reads, or failed to read."""

    def cancel(self) -> None:
        """Stop at once; what was downloaded stays. May be called from any thread."""
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def prepare(self, pair: Pair, tell: Callable[[Looking], None] = lambda _: None) -> Prepared:
        """Find both models and read their headers; a few megabytes move.

        What is here already is read from its first byte to its last, and is what counts as here only if it is right.

        Args:
            pair: What is asked for.
            tell: Told how that goes, as bytes come.

        Raises:
            AppError: One cannot be had or is no model.
            Interrupted: Cancelled.
        """
        self.current_role = TARGET
        target = self._looked_at(self._resolved(pair.target, tell), tell)
        draft: Resolved | None = None
        notes: tuple[str, ...] = ()
        try:
            if pair.draft is not None:
                self.current_role = DRAFT
                draft = self._looked_at(self._resolved(pair.draft, tell, draft=True), tell)
        except ModelLoadError as error:
            notes = (without_draft(error),)
        self._stop_if_cancelled()
        models = [target] if draft is None else [target, draft]
        facts = []
        for self.current_role, model in zip((TARGET, DRAFT), models, strict=False):
            facts.append(facts_of(model, self.retry, Look(model.name, tell)))
        self.current_role = ""
        check = check_pair(facts[0], facts[1] if draft is not None else None)
        return Prepared(
            pair=completed(pair, target, check),
            target=target,
            draft=draft,
            check=replace(check, warnings=(*check.warnings, *notes)),
            download_bytes=missing_bytes(models),
            free_bytes=max(0, cache.free_bytes() - self._underway.promised(models)),
        )

    def _resolved(self, source: ModelSource, tell: Callable[[Looking], None], *, draft: bool = False) -> Resolved:
        look = Look(str(source), tell)
        return resolve(source, self._demo_file, draft=draft, retry=self.retry, watcher=look)

    def _looked_at(self, model: Resolved, tell: Callable[[Looking], None]) -> Resolved:
        """The same, with what is here of it and damaged."""
        look = Look(model.name, tell)
        requests = [
            DownloadRequest(model.repo, model.commit, file, look, self._stop.is_set, self.retry) for file in model.files
        ]
        return model.with_damaged(tuple(one.file for one in requests if is_damaged(one)))

    def bring(self, prepared: Prepared, *, default: bool = True, first: bool = True) -> Iterator[SetupEvent]:
        """Download what is missing, remember the pair and try it.

        It is remembered before it is tried: what has come is not to be asked for again because the pair, such as it is
        meant by the settings, does not fit. Only a pair that works becomes the default.

        Args:
            prepared: The pair, from `prepare`.
            default: Whether it is taken when none is named, in place of another one.
            first: Whether it is where there is no other one.

        Yields:
            How it goes, several times a second; `Ready` at the end, also where the pair cannot be remembered.

        Raises:
            PairError: The models are not compatible.
            CacheError: The disk is too small or refuses.
            HubError: A file cannot be had.
            AppError: The pair does not work.
            Interrupted: Cancelled.
        """
        models = [model for _, model in prepared.models]

        def refuse(promised: int) -> None:
            # Since it was prepared the user may have taken their time, and others the disk.
            missing, free = missing_bytes(models), cache.free_bytes()
            self.refuse(replace(prepared, download_bytes=missing, free_bytes=max(0, free - promised)))

        with self._underway.bringing(models, refuse):
            paths = yield from self._download(prepared)
        for model in models:
            model.keep_revision()
        pair = self._set_up(prepared, paths)
        self._stop_if_cancelled()
        line = ""
        if self._trial is not None:
            yield Trying(pair, self._remembered(pair, default=False, first=False))
            line = self._trial(pair, self._stop.is_set)
            self._stop_if_cancelled()
        yield Ready(pair, line, self._remembered(pair, default=default, first=first), tuple(self._mended))

    def _remembered(self, pair: SetUp, *, default: bool, first: bool) -> CatalogError | None:
        """Remember a pair; returns why that cannot be done."""
        try:
            self._registry.add(pair, default=default, first=first)
        except CatalogError as error:
            return error
        return None

    def refuse(self, prepared: Prepared) -> None:
        """Say what stands against bringing a pair, before anybody is asked about it; see `bring`.

        Raises:
            PairError: The models are not compatible.
            CacheError: The disk is too small.
        """
        if prepared.check.remedy is not None:
            raise PairError(prepared.check.problems[0], remedy_text(prepared.check.remedy, prepared.pair.target))
        if not has_room(prepared.download_bytes, prepared.free_bytes):
            beside = " beside what other downloads have still to bring" if self._underway.promised() else ""
            raise CacheError(
                f"{gigabytes(prepared.download_bytes)} are to be downloaded to {cache.folder()}, "
                f"and {gigabytes(prepared.free_bytes)} are free there{beside}.",
                "Make room, choose a smaller pair, or set HF_HUB_CACHE to a folder on another disk.",
            )

    def _download(self, prepared: Prepared) -> Generator[Progress, None, dict[str, Path]]:
        """Bring what is missing of both models side by side; returns the path to load for each role."""
        paths = {role: model.path for role, model in prepared.models if model.path is not None}
        wanted = [Tracked(role, model) for role, model in prepared.models if model.path is None]
        if not wanted:
            return paths
        meter = Meter(self._clock)
        failed = threading.Event()

        def stopped() -> bool:
            return self._stop.is_set() or failed.is_set()

        running = {in_background(partial(self._fetch, one, stopped), f"download {one.role}"): one for one in wanted}
        try:
            while not self._stop.is_set():
                done, pending = wait(running, timeout=_LOOK_S, return_when=FIRST_EXCEPTION)
                yield meter.read(wanted)
                if not pending or any(future.exception() is not None for future in done):
                    break
        finally:
            # Also when anyone who reads these events has lost interest: a thread must not go on by itself.
            failed.set()
        # A thread may sit in a silent connection until its time limit; no one who stopped should wait for that.
        _, left = wait(running, timeout=_POLITE_S if self._stop.is_set() else None)
        if left:
            raise Interrupted
        self._raise_first(list(running))
        return paths | {one.role: future.result() for future, one in running.items()}

    def _raise_first(self, futures: list[Future[Path]]) -> None:
        """Tell what went wrong, not what was stopped because of it."""
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in errors:
            if not isinstance(error, Interrupted):
                raise error
        if errors:
            raise Interrupted

    def _fetch(self, one: Tracked, stopped: Callable[[], bool]) -> Path:
        model = one.model
        # A pause also ends when the other download fails.
        retry = replace(self.retry, pause=lambda seconds: self._stop.wait(seconds) or stopped())
        found = []
        for file in model.files:
            was_here, came = cache.cached(model.repo, model.commit, file.path, file.size) is not None, one.came
            doubted = file in model.damaged
            found.append(fetch(DownloadRequest(model.repo, model.commit, file, one, stopped, retry, doubted)))
            if doubted and one.came > came:
                self._mended.append(found[-1].name)
            if not was_here or one.came > came:
                self._claim(found[-1])
        return found[0]

    def _claim(self, path: Path) -> None:
        """Remember at once who brought it: the other model may be stopped, and this one is found here the next time."""
        self._brought.add(path)
        # Where that cannot be written down, neither can the pair: that is told once all is here.
        with suppress(CatalogError):
            self._registry.claim(path)

    def _set_up(self, prepared: Prepared, paths: dict[str, Path]) -> SetUp:
        models = {
            role: ModelOnDisk(
                path=paths[role],
                size=model.size,
                repo=model.repo,
                commit=model.commit,
                files=tuple(file.path for file in model.files),
            )
            for role, model in prepared.models
        }
        ours = set(self._brought)
        with suppress(CatalogError):
            ours |= self._registry.read().downloaded
        models = {role: replace(m, ours=m.path in ours) for role, m in models.items()}
        return SetUp(prepared.pair, models[TARGET], models.get(DRAFT))

    def _stop_if_cancelled(self) -> None:
        if self._stop.is_set():
            raise Interrupted
