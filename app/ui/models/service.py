"""The pairs of the catalog and of this machine, for the screens; implements `PairService` on their thread."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.core.errors import AppError, PairError
from app.core.regular_file import resolved
from app.core.units import gigabytes
from app.models.catalog import Pair
from app.models.expected_speedup import expected_gain, speeds
from app.models.pair_names import free_name, pair_name, pair_texts
from app.models.pair_size import model_bytes, size_text, with_files
from app.models.prepared import Underway, has_room
from app.models.recommend import Proposal, Room, Standing, every_pair, in_order, longest_context, propose, weigh, why
from app.models.registry import ModelOnDisk, Registered, SetUp
from app.models.source import HubModel, LocalModel, ModelSource
from app.ui.key_names import key
from app.ui.models.state import LoadRequest, PairCard, PairsState, Stage
from app.ui.models.tasks import CheckTask, MachineProbe, PairEnvironment, SetupTask

if TYPE_CHECKING:
    from app.models.prepared import Prepared
    from app.models.setup import Setup


class Pairs:
    """All pairs and their setups; see `PairService`."""

    def __init__(self, environment: PairEnvironment) -> None:
        self._environment = environment
        self._probe = MachineProbe(environment, self._mark_stale)
        self._facts = self._probe.facts
        self._stale = True
        self._cards: tuple[PairCard, ...] = ()
        self._problems: list[AppError] = []
        self._pairs: dict[str, Pair] = {}
        self._added: dict[str, Prepared] = {}
        self._registered = Registered()
        self._setups: dict[str, SetupTask] = {}
        self._check: CheckTask | None = None
        self._replaced: list[SetupTask | CheckTask] = []
        self._ended: frozenset[SetupTask] = frozenset()
        """Ended setups that the last refresh has seen."""
        self._underway = Underway()
        self._open: tuple[Pair | None, SetUp | None, bool] = (None, None, False)
        """The pair that the chat asked for, its files, and whether it is loaded or loading."""
        self._open_name = ""
        self._unlisted: dict[str, tuple[Pair, SetUp | None]] = {}
        """Pairs that were opened by their files."""

    def begin(self) -> None:
        # Other programs set up and remove pairs, too.
        self._stale = True
        self._refresh()

    def look(self) -> PairsState:
        # Read first: work that ends meanwhile is seen by the next call.
        busy = self._probe.is_running or self._probe.is_provisional
        busy = busy or any(one.job.running for one in self._setups.values())
        busy = busy or (self._check is not None and self._check.inquiry.running)
        if self._is_refresh_due():
            busy = True
            self._refresh()
        if self._update_open() or self._stale:
            self._stale = False
            self._read()
        return PairsState(
            machine=self._facts.machine,
            cards=self._cards,
            jobs={name: one.job for name, one in self._setups.items()},
            inquiry=self._check.inquiry if self._check is not None else None,
            troubles=tuple(self._problems),
            busy=busy,
        )

    def start(self, name: str, *, agreed: bool = False) -> None:
        before = self._setups.get(name)
        asking = before is not None and before.job.stage is Stage.ASKING
        self._start(
            self._pairs[name],
            before.prepared if before is not None and asking else None,
            agreed=agreed or (before is not None and before.agreed),
        )

    def cancel(self, name: str) -> None:
        if name in self._setups:
            self._setups[name].cancel()

    def make_default(self, name: str) -> None:
        files = self._files(name)
        if files is None:
            raise PairError(f"{name} is not set up.", f"Press {key('pairs.choose', 'enter')} to set it up.")
        if name not in self._registered.pairs:
            self._environment.registry.add(files, default=False)
        self._environment.registry.set_default(name)
        self._stale = True

    def ask(self, target: str, draft: str) -> None:
        self.drop()
        self._check = CheckTask(target, draft, self._make_setup, self._room)
        self._check.begin()

    def drop(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._replaced.append(self._check)
            self._check = None

    def add(self) -> str:
        prepared = self._check.prepared if self._check is not None else None
        if prepared is None or prepared.check.problems:
            raise PairError("There is no checked pair to add.", "Check two models first.")
        asked = prepared.pair
        pair = next((known for known in self._pairs.values() if known.sources == asked.sources), None)
        if pair is None:
            unread = dict.fromkeys(self._registered.problems)
            pair = replace(asked, name=free_name(asked, {**unread, **self._pairs}))
        prepared = replace(prepared, pair=pair)
        if pair.name not in self._pairs:
            self._added[pair.name] = prepared
            self._stale = True
        self._start(pair, prepared, agreed=True)
        return pair.name

    def choose(self, name: str) -> LoadRequest:
        files = self._files(name)
        if files is None:
            enter = key("pairs.choose", "enter")
            raise PairError(f"{name} is not on this machine.", f"Press {enter} to download it.")
        return self._environment.open_pair(self._pairs[name], files)

    def close(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        tasks: list[SetupTask | CheckTask] = [*self._setups.values(), *self._replaced]
        tasks += [self._check] if self._check is not None else []
        for task in tasks:
            task.cancel()
        ended = [task.join(None if until is None else max(0.0, until - time.monotonic())) for task in tasks]
        return all(ended)

    def _mark_stale(self) -> None:
        self._stale = True

    def _is_refresh_due(self) -> bool:
        """Return whether a setup has ended, or loading, since the machine was inspected."""
        if not self._probe.has_begun or self._probe.is_running:
            return False
        return not self._ended_setups <= self._ended or (
            self._probe.is_provisional and not self._environment.is_loading()
        )

    @property
    def _ended_setups(self) -> frozenset[SetupTask]:
        return frozenset(one for one in self._setups.values() if not one.job.running)

    def _refresh(self) -> None:
        self._ended = self._ended_setups
        sources = (source for pair in self._pairs.values() for source in pair.sources)
        self._probe.refresh(frozenset(source for source in sources if isinstance(source, HubModel)))

    @property
    def _room(self) -> Room | None:
        room = self._facts.room
        if room is None:
            return None
        return replace(room, n_ctx=self._environment.n_ctx(), measured=speeds(self._facts.seen))

    def _make_setup(self) -> Setup:
        from app.models.setup import Setup

        return Setup(self._environment.registry, self._environment.demo_file, underway=self._underway)

    def _start(self, pair: Pair, prepared: Prepared | None = None, *, agreed: bool) -> None:
        before = self._setups.pop(pair.name, None)
        if before is not None:
            before.cancel()
            self._replaced.append(before)
        self._setups[pair.name] = SetupTask(pair, self._make_setup, self._mark_stale, prepared, agreed=agreed)
        self._setups[pair.name].begin()

    def _files(self, name: str) -> SetUp | None:
        """Return the files of a pair that can be opened."""
        task, pair = self._setups.get(name), self._pairs[name]
        if (registered := self._registered.usable(pair)) is not None:
            return registered
        files = task.files if task is not None else None
        if files is None and name in self._unlisted:
            files = self._unlisted[name][1]
        return files if files is not None and files.is_here and files.is_of(pair) else None

    def _update_open(self) -> bool:
        """Read which pair the chat uses; return whether that changed."""
        pair, files = self._environment.current() or (None, None)
        is_open = pair is not None and not self._environment.is_unloaded()
        changed = pair is not self._open[0] or is_open is not self._open[2]
        self._open = pair, files, is_open
        return changed

    def _with_unlisted(self, known: Mapping[str, Pair]) -> dict[str, Pair]:
        """Return the known pairs after those that were opened by their files."""
        self._unlisted = {
            name: one for name, one in self._unlisted.items() if name not in known and not _name_of(one[0], known)
        }
        pairs = {name: pair for name, (pair, _) in self._unlisted.items()} | dict(known)
        pair, files, is_open = self._open
        name = _name_of(pair, pairs) if pair is not None else ""
        if pair is not None and not name:
            pair = pair if files is not None else replace(pair, name=pair_name(pair.target))
            name = free_name(pair, pairs)
            pair = replace(pair, name=name)
            self._unlisted[name] = pair, replace(files, pair=pair) if files is not None else _local_files(pair)
            pairs = {name: pair} | pairs
        self._open_name = name if is_open else ""
        return pairs

    def _read(self) -> None:
        """Read the catalog and the registry, and order the cards."""
        self._problems = []
        self._facts = self._probe.facts
        known: dict[str, Pair] = {}
        try:
            self._registered = self._environment.registry.read()
            default = self._registered.pairs.get(self._registered.default or "")
            if default is not None and not default.is_here:
                self._problems.append(default.gone)
            if self._registered.trouble is not None:
                self._problems.append(self._registered.trouble)
            pairs, problem = self._environment.catalog()
            known = {pair.name: pair for pair in pairs}
            if problem is not None:
                self._problems.append(problem)
        except AppError as error:
            self._problems.append(error)
        known = every_pair(known, self._registered)
        self._pairs = self._with_unlisted({name: one.pair for name, one in self._added.items()} | known)
        room, pairs = self._room, [self._as_known(name) for name in self._pairs]
        proposed = propose(pairs, room, self._has_disk) if room is not None else []
        standings = [self._standing(name) for name in self._pairs]
        self._cards = tuple(self._card(one, proposed) for one in in_order(standings, proposed))

    def _standing(self, name: str) -> Standing:
        pair, files, room = self._pairs[name], self._files(name), self._room
        return Standing(
            pair,
            weigh(self._as_known(name), room) if room is not None else None,
            set_up=files is not None,
            here=files is not None or all(map(self._facts.is_here, pair.sources)),
            is_default=name == self._registered.default,
            is_new=name in self._added,
        )

    def _as_known(self, name: str) -> Pair:
        """Return the pair with sizes from its files or headers, as far as they are known."""
        files, prepared = self._files(name), self._prepared(name)
        return prepared.sized if files is None and prepared is not None else with_files(self._pairs[name], files)

    def _card(self, one: Standing, proposed: Sequence[Proposal]) -> PairCard:
        pair, proposal, name, room = one.pair, one.proposal, one.pair.name, self._room
        files = self._files(name)
        target, draft = pair_texts(pair, files)
        return PairCard(
            name=name,
            title=pair.title,
            target=target,
            draft=draft,
            size=self._size(pair, files),
            to_come=self._to_come(pair) if files is None else 0,
            came=sum(map(self._facts.n_came, pair.sources)) if files is None else 0,
            fit=proposal.fit if proposal is not None else None,
            reason=proposal.reason if proposal is not None else "",
            speed=proposal.pace(at_least=room.at_least) if proposal is not None and room is not None else "",
            slow=proposal.slow if proposal is not None else False,
            why=why(proposed) if proposed and proposed[0].pair.name == name else "",
            gain=expected_gain(pair, room, self._facts.seen),
            good_at=pair.good_at,
            licence=pair.licence,
            tested_with=pair.tested_with,
            here=one.here,
            set_up=one.set_up,
            is_demo=pair.is_demo,
            is_default=one.is_default,
            is_open=name == self._open_name,
            lacks_draft=name == self._open_name and self._environment.lacks_draft(),
            context=longest_context(self._as_known(name), room) if room else 0,
        )

    def _size(self, pair: Pair, files: SetUp | None) -> str:
        if files is None and (prepared := self._prepared(pair.name)) is not None:
            return gigabytes(sum(model.size for _, model in prepared.models))
        return size_text(pair, files)

    def _prepared(self, name: str) -> Prepared | None:
        """Return what Hugging Face said about a pair in this run."""
        task = self._setups.get(name)
        return self._added.get(name) or (task.prepared if task is not None else None)

    def _to_come(self, pair: Pair) -> int | None:
        """Return the bytes to download; None if the catalog does not know."""
        if pair.name in self._added:
            return self._added[pair.name].download_bytes
        missing = [s for s in pair.sources if isinstance(s, HubModel) and s not in self._facts.cached]
        sizes = [source.size for source in missing]
        known = sum(size for size in sizes if size is not None)
        return known - sum(map(self._facts.n_came, missing)) if None not in sizes else None

    def _has_disk(self, pair: Pair) -> bool:
        free, to_come = self._facts.free_disk, self._to_come(pair) if self._files(pair.name) is None else 0
        prepared = self._prepared(pair.name)
        models = [model for _, model in prepared.models] if prepared is not None else []
        # Running downloads of the same files count as this pair's.
        promised = self._underway.promised(models, pair.sources)
        return free is None or to_come is None or has_room(to_come, free - promised)


def _name_of(pair: Pair, known: Mapping[str, Pair]) -> str:
    """Return the name of the known pair with the same models; "" without one."""
    models = _models(pair)
    alike = [name for name, other in known.items() if _models(other) == models]
    return pair.name if pair.name in alike else next(iter(alike), "")


def _models(pair: Pair) -> tuple[ModelSource, ...]:
    return tuple(LocalModel(resolved(one.path)) if isinstance(one, LocalModel) else one for one in pair.sources)


def _local_files(pair: Pair) -> SetUp | None:
    """Return two local files as a pair that is set up; None for others."""
    models = [
        ModelOnDisk(source.path, model_bytes(source) or 0) for source in pair.sources if isinstance(source, LocalModel)
    ]
    return SetUp(pair, *models) if len(models) == len(pair.sources) else None
