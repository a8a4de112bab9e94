"""What a child was asked for and has not done yet, and what it has loaded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from app.core.errors import AppError, StoppedError
from app.models.pair_info import PairInfo
from app.worker.engine_worker import Loader
from app.worker.events import (
    Event,
    Failed,
    Finished,
    JobEnded,
    Loaded,
    LoadProgress,
    Measuring,
    Notice,
    PairChanged,
    PromptProgress,
    Step,
)
from app.worker.isolated.partial_answer import PartialAnswer
from app.worker.isolated.protocol import Answer, Load, RunJob


@dataclass(slots=True)
class PendingRequest:
    """One request.

    Attributes:
        number: Of the request.
        command: What the child was told.
        is_reload: Whether it is loaded only because its process has ended, so that nobody waits for its events.
        is_settled: Whether its end was told already.
        unloaded: Why the pair that it needs could not be loaded again; None where that is not so.
        partial: What has come of an answer; None for anything else.
    """

    number: int
    command: Load | Answer | RunJob
    is_reload: bool = False
    is_settled: bool = False
    unloaded: AppError | None = None
    partial: PartialAnswer | None = None

    @property
    def loader(self) -> Loader | None:
        """What is loaded; None for an answer."""
        return self.command.loader if isinstance(self.command, Load) else None

    def stopped(self) -> Event:
        """Its end, as that of something that was stopped."""
        if self.partial is not None:
            return self.partial.finished(self.number)
        if self.loader is not None:
            return Failed(None, StoppedError("Loading was stopped."))
        return Failed(self.number, StoppedError("It was stopped."))

    def failed(self, error: AppError) -> Event:
        """Its end, as that of something that went wrong."""
        return Failed(None if self.loader is not None else self.number, error)


class RequestQueue:
    """The requests of one child after another, in order. Whoever has it holds a lock meanwhile.

    Args:
        on_next: Told what the child comes to; None when nothing is left.
    """

    def __init__(self, on_next: Callable[[PendingRequest | None], None]) -> None:
        self._on_next = on_next
        self._pending: deque[PendingRequest] = deque()
        self._last_number = 0
        self._activity = ""
        self.loader: Loader | None = None
        """Of the pair that was loaded last."""
        self.has_pair = False
        """Whether the child has a pair, or will have."""
        self._pair: PairInfo | None = None
        """What the pair was that was loaded last."""
        self._notices: set[Notice] = set()
        """What was said while one was loaded that somebody waited for."""

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter(self._pending)

    @property
    def current(self) -> PendingRequest | None:
        """What the child is at."""
        return self._pending[0] if self._pending else None

    @property
    def last_number(self) -> int:
        """Of the latest request."""
        return self._last_number

    @property
    def is_stuck(self) -> bool:
        """Whether the child is still at something that was stopped without it."""
        return self.current is not None and self.current.is_settled

    @property
    def activity(self) -> str:
        """What the child is doing, as a clause."""
        loading = self.current is not None and self.current.loader is not None
        return self._activity or ("loading the models" if loading else "reading the prompt")

    def unsettled(self) -> list[PendingRequest]:
        """Everything that somebody waits for."""
        return [request for request in self._pending if not request.is_settled]

    def add(self, command: Load | Answer | RunJob) -> Sequence[PendingRequest]:
        """Note something that the child is asked for; returns what it must be told, a lost pair's loading first."""
        added = []
        if _needs_pair(command) and not self.has_pair and self.loader is not None:
            added.append(self._append(Load(self.loader), is_reload=True))
        return [*added, self._append(command)]

    def pass_over(self) -> int:
        """Note something that no child need be asked for; returns its number."""
        self._last_number += 1
        return self._last_number

    def _append(self, command: Load | Answer | RunJob, *, is_reload: bool = False) -> PendingRequest:
        self._last_number += 1
        self.has_pair = self.has_pair or isinstance(command, Load)
        partial = PartialAnswer(command.request) if isinstance(command, Answer) else None
        self._pending.append(PendingRequest(self._last_number, command, is_reload, partial=partial))
        if len(self._pending) == 1:
            self._on_next(self._pending[0])
        return self._pending[-1]

    def clear(self) -> None:
        """The child is gone, and with it everything that it was asked for and had."""
        self._pending.clear()
        self.has_pair, self._activity = False, ""
        self._on_next(None)

    def reissue(self, requests: Sequence[PendingRequest]) -> Sequence[PendingRequest]:
        """Ask a new child for what the last one has left; returns what it must be told.

        Args:
            requests: From `unsettled`, before `clear`.
        """
        left = list(requests)
        for request in left:
            # The new one may load what the last one could not.
            request.unloaded = None
        is_lost = bool(left) and left[0].loader is None and any(_needs_pair(request.command) for request in left)
        if is_lost and self.loader is not None:
            left.insert(0, PendingRequest(left[0].number - 1, Load(self.loader), is_reload=True))
        self._pending.extend(left)
        if left:
            self.has_pair = left[0].loader is not None
            self._on_next(left[0])
        return left

    def follow(self, event: Event) -> Event | None:
        """Keep account of an event; returns what the world is told of it."""
        now = self.current
        if now is not None and now.partial is not None:
            now.partial.follow(event, self._pair)
        match event:
            case PairChanged(pair):
                self._pair = pair
                return event
            case Loaded(pair) if now is not None:
                before, self._pair = self._pair, pair
                self.loader, self.has_pair = now.loader, True
                done = self._finish()
                if done.is_reload:
                    return PairChanged(pair) if pair != before else None
                return event if not done.is_settled else None
            case Failed(request=None) if now is not None:
                self.has_pair = False
                done = self._finish()
                if not done.is_reload:
                    self.loader = None
                    return None if done.is_settled else event
                # What the pair was loaded for is what fails, and all that waits behind it: the child says so of each.
                for waiting in takewhile(lambda request: request.loader is None, self._pending):
                    waiting.unloaded = event.error
                return None
            case Finished() | JobEnded() | Failed() if now is not None:
                done = self._finish()
                if isinstance(event, Failed) and done.unloaded is not None:
                    event = replace(event, error=done.unloaded)
                return None if done.is_settled else event
            case Notice() if now is not None and now.is_reload:
                return event if event not in self._notices else None
            case _ if now is not None and now.is_settled:
                return None
            case Notice() if now is not None and now.loader is not None:
                self._notices.add(event)
            case _:
                self._activity = _activity(event) or self._activity
        return event

    def _finish(self) -> PendingRequest:
        self._activity = ""
        done = self._pending.popleft()
        self._on_next(self.current)
        return done


def _needs_pair(command: Load | Answer | RunJob) -> bool:
    """Whether a pair that was lost is loaded again for something."""
    match command:
        case Answer():
            return True
        case RunJob(job):
            return job.loads
    return False


def _activity(event: Event) -> str:
    """What a child is at that says so, as a clause; "" if the event does not tell."""
    match event:
        case LoadProgress(what=what):
            return f"loading the {what} model"
        case PromptProgress():
            return "reading the prompt"
        case Measuring():
            return "measuring the pair"
        case Step():
            return "writing the answer"
    return ""
