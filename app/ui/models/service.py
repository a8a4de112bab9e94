"""The pairs of the catalogue and of this machine, for the screens: implements `app.ui.models.state.PairService`.

Called from the screen's thread only; what takes time is in `app.ui.models.jobs`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.core.errors import AppError, PairError
from app.core.units import gigabytes
from app.models.catalog import Pair
from app.models.expected_speedup import expected_gain, speeds
from app.models.pair_names import free_name, pair_texts
from app.models.pair_size import size_text, with_files
from app.models.prepared import Underway, has_room
from app.models.recommend import Proposal, Room, Standing, every_pair, in_order, longest_context, propose, weigh, why
from app.models.registry import Registered, SetUp
from app.models.source import HubModel
from app.ui.key_names import key
from app.ui.models.jobs import Question, SetupJob
from app.ui.models.lookout import Lookout, Surroundings
from app.ui.models.opened import Opened
from app.ui.models.state import LoadRequest, PairCard, PairsState, Stage

if TYPE_CHECKING:
    from app.models.prepared import Prepared
    from app.models.setup import Setup


class Pairs:
    """The pairs, and what goes on with them.

    Args:
        surroundings: Everything that this needs of the rest of the program.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._outside = surroundings
        self._lookout = Lookout(surroundings, self._on_change)
        self._opened = Opened(surroundings.current, surroundings.is_unloaded)
        self._known = self._lookout.found
        """Of what was found that which the cards were made of."""
        self._stale = True
        self._cards: tuple[PairCard, ...] = ()
        self._troubles: list[AppError] = []
        self._pairs: dict[str, Pair] = {}
        self._added: dict[str, Prepared] = {}
        self._registered = Registered()
        self._jobs: dict[str, SetupJob] = {}
        self._question: Question | None = None
        self._old: list[SetupJob | Question] = []
        self._underway = Underway()

    # How it is

    def begin(self) -> None:
        # Other programs set pairs up and remove them too.
        self._stale = True
        self._look_out()

    def _look_out(self) -> None:
        sources = (source for pair in self._pairs.values() for source in pair.sources)
        self._lookout.begin(frozenset(source for source in sources if isinstance(source, HubModel)))

    def look(self) -> PairsState:
        # Asked before anything is read: what ends in between is then seen at the next look.
        lookout = self._lookout
        busy = lookout.is_looking or lookout.is_provisional or self._is_asking or self._is_setting_up
        if lookout.is_due(frozenset(one for one in self._jobs.values() if not one.job.running)):
            busy = True
            self._look_out()
        if self._opened.look() or self._stale:
            self._stale = False
            self._read()
        return PairsState(
            machine=self._known.machine,
            cards=self._cards,
            jobs={name: one.job for name, one in self._jobs.items()},
            inquiry=self._question.inquiry if self._question is not None else None,
            troubles=tuple(self._troubles),
            busy=busy,
        )

    # What is asked for

    def start(self, name: str, *, agreed: bool = False) -> None:
        before = self._jobs.get(name)
        asked = before if before is not None and before.job.stage is Stage.ASKING else None
        self._start(
            self._pairs[name],
            asked.prepared if asked is not None else None,
            agreed=agreed or (before is not None and before.agreed),
        )

    def cancel(self, name: str) -> None:
        if name in self._jobs:
            self._jobs[name].cancel()

    def make_default(self, name: str) -> None:
        files = self._files(name)
        if files is None:
            raise PairError(f"{name} is not set up yet.", f"Press {key('pairs.choose', 'enter')} on it first.")
        if name not in self._registered.pairs:
            self._outside.registry.add(files, default=False)
        self._outside.registry.set_default(name)
        self._stale = True

    def ask(self, target: str, draft: str) -> None:
        self.drop()
        self._question = Question(target, draft, self._make_setup, self._room)
        self._question.begin()

    def drop(self) -> None:
        if self._question is not None:
            self._question.cancel()
            self._old.append(self._question)
            self._question = None

    def add(self) -> str:
        prepared = self._question.prepared if self._question is not None else None
        if prepared is None or prepared.check.problems:
            raise PairError("There are no two models to add.", "Ask about them first.")
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
            raise PairError(f"{name} is not on this machine yet.", f"Press {enter} on it to bring it.")
        return self._outside.open_pair(self._pairs[name], files)

    def close(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        tasks: list[SetupJob | Question] = [*self._jobs.values(), *self._old]
        tasks += [self._question] if self._question is not None else []
        for task in tasks:
            task.cancel()
        ended = [task.join(None if until is None else max(0.0, until - time.monotonic())) for task in tasks]
        return all(ended)

    # Behind it

    @property
    def _is_asking(self) -> bool:
        return self._question is not None and self._question.inquiry.running

    @property
    def _is_setting_up(self) -> bool:
        return any(one.job.running for one in self._jobs.values())

    @property
    def _room(self) -> Room | None:
        """What pairs are held against, as the settings are."""
        room = self._known.room
        if room is None:
            return None
        return replace(room, n_ctx=self._outside.n_ctx(), measured=speeds(self._known.seen))

    def _make_setup(self) -> Setup:
        from app.models.setup import Setup

        return Setup(self._outside.registry, self._outside.demo_file, underway=self._underway)

    def _start(self, pair: Pair, prepared: Prepared | None = None, *, agreed: bool) -> None:
        before = self._jobs.pop(pair.name, None)
        if before is not None:
            before.cancel()
            self._old.append(before)
        self._jobs[pair.name] = SetupJob(pair, self._make_setup, self._on_change, prepared, agreed=agreed)
        self._jobs[pair.name].begin()

    def _on_change(self) -> None:
        """On another thread: what the cards are made of has changed."""
        self._stale = True

    def _files(self, name: str) -> SetUp | None:
        """The files of a pair that can be opened."""
        job, pair = self._jobs.get(name), self._pairs[name]
        if (registered := self._registered.usable(pair)) is not None:
            return registered
        files = (job.files if job is not None else None) or self._opened.files(name)
        return files if files is not None and files.is_here and files.is_of(pair) else None

    def _read(self) -> None:
        """Read the catalogue and what was set up, and put the cards in order."""
        self._troubles = []
        self._known = self._lookout.found
        known: dict[str, Pair] = {}
        try:
            self._registered = self._outside.registry.read()
            default = self._registered.pairs.get(self._registered.default or "")
            if default is not None and not default.is_here:
                self._troubles.append(default.gone)
            if self._registered.trouble is not None:
                self._troubles.append(self._registered.trouble)
            pairs, trouble = self._outside.catalog()
            known = {pair.name: pair for pair in pairs}
            if trouble is not None:
                self._troubles.append(trouble)
        except AppError as error:
            self._troubles.append(error)
        known = every_pair(known, self._registered)
        self._pairs = self._opened.join({name: one.pair for name, one in self._added.items()} | known)
        room, pairs = self._room, [self._as_known(name) for name in self._pairs]
        proposed = propose(pairs, room, self._has_disk) if room is not None else []
        standings = [self._standing(name) for name in self._pairs]
        self._cards = tuple(self._card(one, proposed) for one in in_order(standings, proposed))

    def _standing(self, name: str) -> Standing:
        pair, files = self._pairs[name], self._files(name)
        return Standing(
            pair,
            self._weigh(name),
            set_up=files is not None,
            here=files is not None or all(map(self._known.is_here, pair.sources)),
            is_default=name == self._registered.default,
            is_new=name in self._added,
        )

    def _weigh(self, name: str) -> Proposal | None:
        if self._room is None:
            return None
        return weigh(self._as_known(name), self._room)

    def _as_known(self, name: str) -> Pair:
        """The pair with what its files and their headers say, as far as these have been read."""
        files, prepared = self._files(name), self._prepared(name)
        return prepared.sized if files is None and prepared is not None else with_files(self._pairs[name], files)

    def _card(self, one: Standing, proposed: Sequence[Proposal]) -> PairCard:
        pair, proposal, name = one.pair, one.proposal, one.pair.name
        files = self._files(name)
        target, draft = pair_texts(pair, files)
        return PairCard(
            name=name,
            title=pair.title,
            target=target,
            draft=draft,
            size=self._size(pair, files),
            to_come=self._to_come(pair) if files is None else 0,
            came=sum(map(self._known.n_came, pair.sources)) if files is None else 0,
            fit=proposal.fit if proposal is not None else None,
            reason=proposal.reason if proposal is not None else "",
            slow=proposal.slow if proposal is not None else False,
            why=why(proposed) if proposed and proposed[0].pair.name == name else "",
            gain=expected_gain(pair, self._room, self._known.seen),
            good_at=pair.good_at,
            licence=pair.licence,
            tested_with=pair.tested_with,
            here=one.here,
            set_up=one.set_up,
            is_default=one.is_default,
            is_open=name == self._opened.name,
            lacks_draft=name == self._opened.name and self._outside.lacks_draft(),
            context=longest_context(self._as_known(name), self._room) if self._room else 0,
        )

    def _size(self, pair: Pair, files: SetUp | None) -> str:
        if files is None and (prepared := self._prepared(pair.name)) is not None:
            return gigabytes(sum(model.size for _, model in prepared.models))
        return size_text(pair, files)

    def _prepared(self, name: str) -> Prepared | None:
        """What the hub has told of a pair since the program began."""
        job = self._jobs.get(name)
        return self._added.get(name) or (job.prepared if job is not None else None)

    def _to_come(self, pair: Pair) -> int | None:
        """Bytes that would be downloaded, as far as the catalogue knows."""
        if pair.name in self._added:
            return self._added[pair.name].download_bytes
        missing = [s for s in pair.sources if isinstance(s, HubModel) and s not in self._known.cached]
        sizes = [source.size for source in missing]
        known = sum(size for size in sizes if size is not None)
        return known - sum(map(self._known.n_came, missing)) if None not in sizes else None

    def _has_disk(self, pair: Pair) -> bool:
        free, to_come = self._known.free_disk, self._to_come(pair) if self._files(pair.name) is None else 0
        prepared = self._prepared(pair.name)
        models = [model for _, model in prepared.models] if prepared is not None else []
        # What comes already is this pair's, too, whoever has asked for it.
        promised = self._underway.promised(models, pair.sources)
        return free is None or to_come is None or has_room(to_come, free - promised)
