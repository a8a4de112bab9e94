"""The pairs of the catalogue and of this machine, for the screens: implements `app.ui.pairs.setups.PairService`.

Called from the screen's thread only; what takes time is in `app.ui.pairs.jobs`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.catalog import Pair
from app.errors import AppError, PairError
from app.pairing.propose import Fit, Proposal, Room, propose, weigh, why
from app.registry import Registered, Registry, SetUp
from app.source import DemoModel, LocalModel, ModelSource
from app.ui.pairs.jobs import Question, SetupJob, sized, with_size
from app.ui.pairs.setups import Card, Choice, State
from app.ui.pairs.texts import pair_texts

if TYPE_CHECKING:
    from app.pairing.setup import Prepared, Setup, Trial

log = logging.getLogger("tandem.pairs")

_DEMO_BYTES = 98_000_000
"""Of the demo's target; its draft is made here."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the program knows and the screens must not import; all but `catalog` and `open_pair` run on other threads.

    Attributes:
        catalog: The known pairs; raises AppError if a file is wrong.
        registry: Where pairs are remembered.
        machine: The machine in one line, and its memory for models; called once. What the engine itself holds at
            that time counts as free.
        demo_file: Where the demo's target or draft is, made if missing.
        demo_is_installed: Whether there is a demo.
        open_pair: How a pair is loaded and asked, from the catalogue's entry and its files.
        trial: Tries a pair after its download; None leaves that to the first chat with it.
    """

    catalog: Callable[[], Sequence[Pair]]
    registry: Registry
    machine: Callable[[], tuple[str, Room]]
    demo_file: Callable[[str], Path]
    demo_is_installed: Callable[[], bool]
    open_pair: Callable[[Pair, SetUp], Choice]
    trial: Trial | None = None


class Pairs:
    """The pairs, and what goes on with them.

    Args:
        surroundings: Everything that this needs of the rest of the program.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._outside = surroundings
        self._machine = ""
        self._room: Room | None = None
        self._has_demo = True
        self._looker: threading.Thread | None = None
        self._stale = True
        self._cards: tuple[Card, ...] = ()
        self._trouble: AppError | None = None
        self._pairs: dict[str, Pair] = {}
        self._added: dict[str, Prepared] = {}
        self._registered = Registered()
        self._jobs: dict[str, SetupJob] = {}
        self._question: Question | None = None
        self._old: list[SetupJob | Question] = []

    # How it is

    def begin(self) -> None:
        if self._looker is None:
            self._looker = threading.Thread(target=self._look_around, name="machine", daemon=True)
            self._looker.start()

    def look(self) -> State:
        # Asked before anything is read: what ends in between is then seen at the next look.
        busy = self._is_looking or self._is_asking or any(one.job.running for one in self._jobs.values())
        if self._stale:
            self._stale = False
            self._read()
        return State(
            machine=self._machine,
            cards=self._cards,
            jobs={name: one.job for name, one in self._jobs.items()},
            inquiry=self._question.inquiry if self._question is not None else None,
            trouble=self._trouble,
            busy=busy,
        )

    # What is asked for

    def start(self, name: str) -> None:
        self._start(self._pairs[name])

    def cancel(self, name: str) -> None:
        if name in self._jobs:
            self._jobs[name].cancel()

    def make_default(self, name: str) -> None:
        if self._files(name) is None:
            raise PairError(f"{name} is not set up yet.", "Press enter on it first.")
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
            pair = replace(asked, name=_unused(asked.name, self._pairs))
        prepared = replace(prepared, pair=pair)
        if pair.name not in self._pairs:
            self._added[pair.name] = prepared
            self._stale = True
        self._start(pair, prepared)
        return pair.name

    def choose(self, name: str) -> Choice:
        files = self._files(name)
        if files is None:
            raise PairError(f"{name} is not on this machine yet.", "Press enter on it to bring it.")
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
    def _is_looking(self) -> bool:
        return self._looker is not None and self._looker.is_alive()

    @property
    def _is_asking(self) -> bool:
        return self._question is not None and self._question.inquiry.running

    def _look_around(self) -> None:
        """On a thread of its own."""
        try:
            self._machine, self._room = self._outside.machine()
            self._has_demo = self._outside.demo_is_installed()
        except Exception as error:
            log.exception("the machine could not be read")
            self._machine = error.message if isinstance(error, AppError) else "what it has could not be read"
        self._stale = True

    def _make_setup(self) -> Setup:
        from app.pairing.setup import Setup

        return Setup(self._outside.registry, self._outside.demo_file, self._outside.trial)

    def _start(self, pair: Pair, prepared: Prepared | None = None) -> None:
        before = self._jobs.pop(pair.name, None)
        if before is not None:
            before.cancel()
            self._old.append(before)
        self._jobs[pair.name] = SetupJob(pair, self._make_setup, self._on_ready, prepared)
        self._jobs[pair.name].begin()

    def _on_ready(self) -> None:
        """On the thread of a set-up."""
        self._stale = True

    def _files(self, name: str) -> SetUp | None:
        """The files of a pair that can be opened."""
        files = self._registered.pairs.get(name)
        # An entry that was changed since it was set up means other files.
        if files is None or not files.is_here or files.pair.sources != self._pairs[name].sources:
            return None
        return files

    def _read(self) -> None:
        """Read the catalogue and what was set up, and put the cards in order."""
        self._trouble = None
        known: dict[str, Pair] = {}
        try:
            self._registered = self._outside.registry.read()
            known = {pair.name: pair for pair in self._outside.catalog()}
        except AppError as error:
            self._trouble = error
        known = {name: one.pair for name, one in self._registered.pairs.items()} | known
        self._pairs = {name: one.pair for name, one in self._added.items()} | known
        proposals = {name: self._weigh(name) for name in self._pairs}
        proposed = propose(list(self._pairs.values()), self._room) if self._room else []
        best = [proposal.pair.name for proposal in proposed]
        cards = [self._card(name, proposals[name], why(proposed) if [name] == best[:1] else "") for name in self._pairs]
        self._cards = tuple(sorted(cards, key=lambda card: self._rank(card, best)))

    def _weigh(self, name: str) -> Proposal | None:
        pair, files = self._pairs[name], self._files(name)
        if name in self._added:
            pair = sized(self._added[name])
        elif files is not None:
            draft = (
                with_size(pair.draft, files.draft.size) if pair.draft is not None and files.draft is not None else None
            )
            pair = replace(pair, target=with_size(pair.target, files.target.size), draft=draft)
        return weigh(pair, self._room) if self._room is not None else None

    def _rank(self, card: Card, best: Sequence[str]) -> tuple[int, int, int]:
        """What can be opened, what is proposed, what is here, what fits, what does not."""
        memory = self._pairs[card.name].memory_gb
        if card.set_up or card.name in self._added:
            return 0, not card.is_default, 0
        if card.name in best:
            return 1, best.index(card.name), 0
        if card.here:
            return 2, 0, 0
        if card.fit in (Fit.FITS, Fit.TIGHT):
            return 3, 2 * card.slow + (card.fit is Fit.TIGHT), -memory
        return 4, memory, 0

    def _card(self, name: str, proposal: Proposal | None, praise: str) -> Card:
        pair, files = self._pairs[name], self._files(name)
        target, draft = pair_texts(pair, files)
        return Card(
            name=name,
            title=pair.title,
            target=target,
            draft=draft,
            size=self._size(pair, files),
            fit=proposal.fit if proposal is not None else None,
            reason=proposal.reason if proposal is not None else "",
            slow=proposal.slow if proposal is not None else False,
            why=praise,
            good_at=pair.good_at,
            licence=pair.licence,
            tested_with=pair.tested_with,
            here=files is not None or all(map(self._is_here, pair.sources)),
            set_up=files is not None,
            is_default=name == self._registered.default,
        )

    def _is_here(self, source: ModelSource) -> bool:
        match source:
            case LocalModel(path):
                return path.is_file()
            case DemoModel():
                return self._has_demo
        return False

    def _size(self, pair: Pair, files: SetUp | None) -> int | None:
        if files is not None:
            return sum(model.size for model in files.models)
        if pair.name in self._added:
            return sum(model.size for _, model in self._added[pair.name].models)
        sizes = [_size(source) for source in pair.sources]
        return sum(size for size in sizes if size is not None) if None not in sizes else None


def _size(source: ModelSource) -> int | None:
    match source:
        case LocalModel(path) if path.is_file():
            return path.stat().st_size
        case DemoModel(part):
            return _DEMO_BYTES if part == "target" else 0
        case _:
            return getattr(source, "size", None)


def _unused(name: str, taken: Mapping[str, Pair]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free
