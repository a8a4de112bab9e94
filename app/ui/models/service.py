"""The pairs of the catalog and of this machine, and their setups, for the screens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from app.core.errors import AppError, PairError
from app.hardware.recommend import Capacity, Proposal, every_pair, in_order, propose, weigh, why
from app.models.catalog import Pair
from app.models.pair_summary import free_name, model_bytes, pair_name, pair_of, pair_texts, size_text, with_files
from app.models.registry import ModelOnDisk, Registered, SetUp
from app.models.setup_task import SetupTask, Stage
from app.models.source import DemoModel, FoundRepository, HubModel, LocalModel, ModelSource
from app.session.state import Phase
from app.ui.key_names import key
from app.ui.models.opener import Opener
from app.ui.models.state import LoadRequest, PairCard, PairsState
from app.worker import known_pairs

if TYPE_CHECKING:
    from app.models.setup import Prepared
    from app.session.session import Session

_MAX_FOUND = 30
"""Number of repositories in a search result."""
_POLL_S = 0.1


class PairService:
    """All pairs and their setups. Every call returns immediately."""

    def __init__(self, opener: Opener, session: Session) -> None:
        self._opener, self._session = opener, session
        self._registry = known_pairs.registry()
        self._machine: str | None = None
        """This machine in one line; None until it is known."""
        self._capacity: Capacity | None = None
        self._cached: Set[HubModel] = frozenset()
        """Models on this machine."""
        self._inspector: threading.Thread | None = None
        self._stale = True
        self._cards: tuple[PairCard, ...] = ()
        self._problems: list[AppError] = []
        self._pairs: dict[str, Pair] = {}
        self._registered = Registered()
        self._found: Sequence[Pair] = ()
        """Pairs of models that other programs have on this machine."""
        self._added: dict[str, Pair] = {}
        """Pairs that were added, or opened by their files, in this run."""
        self._seen: tuple[object, ...] = ()
        """The state that the cards show: the chat's pair, whether it is loaded, and the stage of each setup."""
        self._setups: dict[str, SetupTask] = {}
        self._tasks: list[SetupTask] = []
        """All started tasks."""

    def refresh(self) -> None:
        """Read the pairs again and inspect the machine in the background; other programs change them, too."""
        self._stale = True
        if not self._is_inspecting:
            self._inspector = threading.Thread(target=self._inspect, name="machine", daemon=True)
            self._inspector.start()

    def state(self) -> PairsState:
        """Return the current state."""
        # Read first, so that the next call sees work that ends meanwhile.
        loads = self._session.will_load
        busy = loads or self._is_inspecting or any(task.progress.running for task in self._tasks)
        setups = {name: task.progress for name, task in self._setups.items()}
        is_open = self._session.phase is not Phase.UNLOADED
        current = self._opener.current
        seen = (current, is_open, loads, *(setup.stage for setup in setups.values()))
        if self._stale or seen != self._seen:
            self._stale, self._seen = False, seen
            self._read(current, is_open=is_open, is_loading=loads)
        return PairsState(self._machine, self._cards, setups, tuple(self._problems), busy)

    def set_up(self, name: str, *, confirmed: bool = False, latest: bool = False) -> None:
        """Set a pair up, or resume; unless `confirmed`, ask before a download.

        With `latest`, the repositories' current files replace the files of the catalog.
        """
        before = self._setups.get(name)
        progress = before.progress if before is not None else None
        prepared = progress.prepared if progress is not None and progress.stage is Stage.CHECKED else None
        self._start(self._pairs[name], prepared, confirmed=confirmed, latest=latest)

    def cancel_setup(self, name: str) -> None:
        """Stop a setup; downloaded bytes stay."""
        if name in self._setups:
            self._setups[name].cancel()

    def make_default(self, name: str) -> None:
        """Open Tandem with this pair from now on; may raise AppError."""
        files = self._files(name)
        registered = self._registered.pairs.get(name)
        if files is None and registered is not None and registered.is_of(self._pairs[name]):
            raise registered.gone
        if files is None:
            raise PairError(f"{name} is not set up.", f"Press {key('pairs.choose')} to set it up.")
        if name not in self._registered.pairs:
            self._registry.add(files)
        self._registry.set_default(name)
        self._stale = True

    def check(self, target: str, draft: str) -> SetupTask:
        """Start to check two models, given as sources; with "" as `draft`, look for a draft beside the target."""
        pair = partial(pair_of, target, draft or None)
        return self._run(pair, installs=False, finds_draft=not draft)

    def fit(self, prepared: Prepared) -> str | None:
        """Return whether checked models fit into memory, and why; None until the machine is known."""
        return weigh(prepared.sized, self._capacity).summary

    def search(self, words: str) -> Sequence[FoundRepository]:
        """Return the repositories with GGUF files that a search on Hugging Face finds.

        Waits for the answer; call it on a thread. Raises HubError.
        """
        from app.models.hub.client import search

        return search(words, limit=_MAX_FOUND)

    def add(self, prepared: Prepared) -> str:
        """Set up a checked pair; return its name."""
        asked = prepared.pair
        pair = next((known for known in self._pairs.values() if known.sources == asked.sources), None)
        if pair is None:
            pair = replace(asked, name=free_name(asked, self._pairs))
            self._added[pair.name] = pair
            self._stale = True
        self._start(pair, replace(prepared, pair=pair), confirmed=True)
        return pair.name

    def load_request(self, name: str) -> LoadRequest:
        """Return the request to load a pair. Raises AppError if its files are missing."""
        # A setup may have ended since the last call.
        self.state()
        files = self._files(name)
        if files is None:
            enter = key("pairs.choose")
            raise PairError(f"{name} is not on this machine.", f"Press {enter} to download it.")
        return self._opener.open(known_pairs.KnownPair(self._pairs[name], files))

    def close(self, timeout: float) -> bool:
        """Stop everything; return whether all threads ended within `timeout` seconds."""
        until = time.monotonic() + timeout
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            task.join(max(0.0, until - time.monotonic()))
        return not any(task.is_alive() for task in self._tasks)

    # Background work

    @property
    def _is_inspecting(self) -> bool:
        return self._inspector is not None and self._inspector.is_alive()

    def _inspect(self) -> None:
        """Inspect this machine and its models while no pair is being loaded, which takes memory."""
        while self._session.phase is Phase.LOADING:
            time.sleep(_POLL_S)
        sources = (source for pair in list(self._pairs.values()) for source in pair.sources)
        on_hub = frozenset(source for source in sources if isinstance(source, HubModel))
        machine, capacity, cached = "could not be inspected", None, set[HubModel]()
        try:
            machine, capacity = self._measured_capacity()
        except Exception as error:
            machine = error.message if isinstance(error, AppError) else machine
        with suppress(Exception):
            cached = set(filter(known_pairs.is_here, on_hub))
        self._machine, self._capacity, self._cached = machine, capacity, cached
        self._stale = True
        with suppress(AppError, OSError):
            self._found = tuple(known_pairs.pairs_here(self._opener.live).values())
        self._stale = True

    def _measured_capacity(self) -> tuple[str, Capacity]:
        # Not needed for the first frame.
        from app.compare.measured_pairs import measured_capacity
        from app.llama.fitting.machine_room import loaded_bytes

        return measured_capacity(known_pairs.context_of(self._opener.live), loaded_bytes(self._session.pair))

    def _start(self, pair: Pair, prepared: Prepared | None, *, confirmed: bool, latest: bool = False) -> None:
        before = self._setups.pop(pair.name, None)
        if before is not None:
            before.cancel()
        self._setups[pair.name] = self._run(lambda: pair, prepared=prepared, confirmed=confirmed, latest=latest)

    def _run(self, pair: Callable[[], Pair], **options: Any) -> SetupTask:
        """Start a setup; for the options see `SetupTask`."""
        task = SetupTask(self._registry, known_pairs.demo_file, pair, **options)
        self._tasks.append(task)
        task.start()
        return task

    # The list

    def _read(self, current: Pair | None, *, is_open: bool, is_loading: bool) -> None:
        """Read the catalog and the registry, and order the cards; `is_open` means that the chat uses `current`."""
        self._problems = []
        known: dict[str, Pair] = {}
        try:
            self._registered = self._registry.read()
            default = self._registered.pairs.get(self._registered.default or "")
            if default is not None and not default.is_here:
                self._problems.append(default.gone)
            catalog = known_pairs.catalog()
            known = catalog.pairs
            if catalog.unread is not None:
                self._problems.append(catalog.unread)
        except AppError as error:
            self._problems.append(error)
        is_demo_open = current is not None and current.is_demo
        has_demo = is_demo_open or known_pairs.is_here(DemoModel("target"))
        self._pairs = every_pair(self._added | known, self._registered, self._found, has_demo=has_demo)
        open_name = self._listed(current) if current is not None else ""
        weighed = [weigh(self._sized(name), self._capacity) for name in self._pairs]
        proposed = propose(weighed) if self._capacity is not None else []
        cards = in_order([self._card(one, proposed) for one in weighed], proposed)
        self._cards = tuple(
            replace(card, is_open=is_open, is_loading=is_loading) if card.name == open_name else card for card in cards
        )

    def _listed(self, pair: Pair) -> str:
        """Return the name of the chat's pair; list it if it was opened by its files."""
        names = [name for name, other in self._pairs.items() if other.sources == pair.sources]
        name = pair.name if pair.name in names else next(iter(names), "")
        if not name:
            name = free_name(replace(pair, name=pair_name(pair.target)), self._pairs)
            self._added[name] = replace(pair, name=name)
            self._pairs = self._added | self._pairs
            files = _local_files(self._added[name])
            if files is not None and files.is_here:
                # Every command then knows it by this name.
                with suppress(AppError):
                    self._registry.add(files, default=False)
        return name

    def _files(self, name: str) -> SetUp | None:
        pair = self._pairs[name]
        if (registered := self._registered.usable(pair)) is not None:
            return registered
        files = _local_files(pair) if name in self._added else None
        return files if files is not None and files.is_here and files.is_of(pair) else None

    def _prepared(self, name: str) -> Prepared | None:
        task = self._setups.get(name)
        return task.progress.prepared if task is not None else None

    def _sized(self, name: str) -> Pair:
        files, prepared = self._files(name), self._prepared(name)
        return prepared.sized if files is None and prepared is not None else with_files(self._pairs[name], files)

    def _card(self, weighed: Proposal, proposed: Sequence[Proposal]) -> PairCard:
        pair, name = weighed.pair, weighed.pair.name
        files = self._files(name)
        target, draft = pair_texts(pair, files)
        return PairCard(
            weighed,
            set_up=files is not None,
            here=files is not None or all(map(self._is_on_disk, self._pairs[name].sources)),
            is_default=name == self._registered.default,
            is_new=name in self._added,
            target=target,
            draft=draft,
            size=size_text(pair),
            why=why(proposed) if proposed and proposed[0].pair.name == name else None,
            download_bytes=self._download_bytes(name),
        )

    def _is_on_disk(self, source: ModelSource) -> bool:
        # The cache of downloads may be on a slow disk.
        return source in self._cached if isinstance(source, HubModel) else known_pairs.is_here(source)

    def _download_bytes(self, name: str) -> int | None:
        if self._files(name) is not None:
            return 0
        if (prepared := self._prepared(name)) is not None:
            return prepared.download_bytes
        missing = [one for one in self._pairs[name].sources if isinstance(one, HubModel) and not self._is_on_disk(one)]
        sizes = [source.size for source in missing]
        return sum(size for size in sizes if size is not None) if None not in sizes else None


def _local_files(pair: Pair) -> SetUp | None:
    models = [
        ModelOnDisk(source.path, model_bytes(source) or 0) for source in pair.sources if isinstance(source, LocalModel)
    ]
    return SetUp(pair, *models) if len(models) == len(pair.sources) else None
