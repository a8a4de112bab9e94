"""What a child was asked for and has not done yet."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import StoppedError
from app.events import Event, Failed, LoadProgress, Measuring, PromptProgressed, StepCompleted
from app.isolated.cut import Cut
from app.isolated.protocol import Answer, Load, RunJob
from app.worker import Loader


@dataclass(slots=True)
class Asked:
    """One request.

    Attributes:
        number: Of the request.
        command: What the child was told.
        again: Whether it is loaded only because its process has ended, so that nobody waits for its events.
        is_settled: Whether its end was told already.
        cut: What has come of an answer; None for anything else.
    """

    number: int
    command: Load | Answer | RunJob
    again: bool = False
    is_settled: bool = False
    cut: Cut | None = None

    @property
    def loader(self) -> Loader | None:
        """What is loaded; None for an answer."""
        return self.command.loader if isinstance(self.command, Load) else None

    def stopped(self) -> Event:
        """Its end, as that of something that was stopped."""
        if self.cut is not None:
            return self.cut.finished(self.number)
        if self.loader is not None:
            return Failed(None, StoppedError("Loading was stopped."))
        return Failed(self.number, StoppedError("It was stopped."))


def doing(event: Event) -> str:
    """What a child is at that says so, as a clause; "" if the event does not tell."""
    match event:
        case LoadProgress(what=what):
            return f"loading the {what} model"
        case PromptProgressed():
            return "reading the prompt"
        case Measuring():
            return "measuring the pair"
        case StepCompleted():
            return "writing the answer"
    return ""
