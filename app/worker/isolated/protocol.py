"""What two processes say to each other besides the events of `app.worker.events`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.worker.engine_worker import Job, Loader
from app.worker.events import Event
from app.worker.isolated.codec import Codec
from app.worker.request import AnswerRequest


@dataclass(frozen=True, slots=True)
class Begin:
    """The first command. What is asked for next has the number after `last_number`."""

    last_number: int


@dataclass(frozen=True, slots=True)
class Load:
    """Load a pair. The loader must be a value: a frozen dataclass that the codec knows, not a closure."""

    loader: Loader


@dataclass(frozen=True, slots=True)
class Answer:
    """Give an answer."""

    request: AnswerRequest


@dataclass(frozen=True, slots=True)
class RunJob:
    """Do other work with the pair. The job must be a value that the codec knows."""

    job: Job


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop what was asked for so far."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """Tell the target's probabilities with every round from here on, or no longer."""

    on: bool


@dataclass(frozen=True, slots=True)
class Drafts:
    """Let answers be drafted from the next round on, or not."""

    on: bool


Command = Begin | Load | Answer | RunJob | Cancel | Inspect | Drafts
"""From parent to child. The end of the stream means that nobody waits for the child any more."""


@dataclass(frozen=True, slots=True)
class LastWords:
    """What the native library said before it ended the process."""

    text: str


Say = Callable[[Event | LastWords], None]


def codec_for(*values: type) -> Codec:
    """The codec of both sides.

    Args:
        *values: The types of loaders and jobs, and what else may cross that no event names.
    """
    return Codec(Command, Event, LastWords, *values)
