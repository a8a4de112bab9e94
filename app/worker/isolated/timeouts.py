"""How long a child that uses devices of other machines may say nothing before that is no longer work.

A server computes one thing at a time and answers nobody meanwhile, so nothing that could be asked tells a slow one from
one that hangs. What tells them apart is what the same work has taken before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from app.worker.events import Event, LoadProgress, PromptProgress, Step

CHUNK = 512
"""Most prompt tokens between two events: `app.llama.params.ContextParams.n_batch`, which a device reads at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of silence.

    Measured on one processor core that a server shared with what used it, with a target of 1.5 billion weights and a
    prompt of 2,200 tokens: 3 s between two reports of loading 3.6 GB, 14 s for 512 tokens of the prompt, 0.6 s for a
    step. A part of the prompt took at most 1.2 times, a step at most 3 times the longest of its kind before. Whoever
    is not known yet may be forty times slower than that, and whoever is known may pause for half a minute.

    Attributes:
        least: Always granted, however quick everything was so far.
        loading: Granted to loading: a big tensor on a slow network is one silence.
        unknown: Granted to work that nothing comparable is known of.
        stopped: Always granted after a stop was asked for.
        noticed: Below it a silence is not worth a word.
        factor: Silences are longer than before when a context fills or a machine does other things, but not so much.
    """

    least: float = 30.0
    loading: float = 300.0
    unknown: float = 600.0
    stopped: float = 10.0
    noticed: float = 20.0
    factor: float = 8.0


class _Phase(Enum):
    LOADING = auto()
    PROMPT = auto()
    WRITING = auto()
    OTHER = auto()


class AdaptiveTimeout:
    """Learns from the silences between events what the next one may be.

    Args:
        limits: What is granted.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._phase = _Phase.LOADING
        self._done: int | None = None
        self._load_s = self._prompt_s = self._step_s = 0.0
        """The slowest so far: between two reports of loading, of one prompt token, of one step."""

    def begin(self, *, loading: bool) -> None:
        """Something new is worked at; a pair that is loaded has nothing to do with the one before it."""
        if loading:
            self._load_s = self._prompt_s = self._step_s = 0.0
        self._phase, self._done = (_Phase.LOADING if loading else _Phase.PROMPT), None

    def heard(self, event: Event, silence_s: float) -> None:
        """An event came after so many seconds."""
        before = self._phase
        match event:
            case LoadProgress():
                self._phase = _Phase.LOADING
                if before is _Phase.LOADING:
                    self._load_s = max(self._load_s, silence_s)
            case PromptProgress(done=done):
                self._phase = _Phase.PROMPT
                if before is _Phase.PROMPT and self._done is not None and done > self._done:
                    self._prompt_s = max(self._prompt_s, silence_s / (done - self._done))
                self._done = done
            case Step():
                self._phase = _Phase.WRITING
                if before is _Phase.WRITING:
                    self._step_s = max(self._step_s, silence_s)
            case _:
                self._phase = _Phase.OTHER

    @property
    def usual_s(self) -> float:
        """The longest silence that the work at hand is known to need; 0 where nothing is known."""
        match self._phase:
            case _Phase.LOADING:
                return self._load_s
            case _Phase.PROMPT:
                # A token alone never takes less than one of many.
                return CHUNK * (self._prompt_s or self._step_s)
            case _Phase.WRITING:
                return self._step_s or CHUNK * self._prompt_s
        return 0.0

    @property
    def limit_s(self) -> float:
        """The silence that is too long."""
        granted = self._limits
        if self._phase is _Phase.LOADING:
            return max(granted.loading, granted.factor * self.usual_s)
        return max(granted.least, granted.factor * self.usual_s) if self.usual_s else granted.unknown

    @property
    def stopped_limit_s(self) -> float:
        """The same after a stop was asked for: work that a native call has begun goes to its end."""
        return max(self._limits.stopped, 2 * self.usual_s)

    @property
    def notice_s(self) -> float:
        """The silence that is worth a word."""
        return max(self._limits.noticed, 2 * self.usual_s)
