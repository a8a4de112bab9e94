"""A keeper over a real store, for tests."""

from __future__ import annotations

from pathlib import Path

from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import AppError
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import FinishReason, Origin
from app.session.keeper import Keeper
from app.worker.events import AnswerPlan, Finished

STATS = GenerationStats(prompt_n=10, predicted_n=21, draft_n=20, draft_n_accepted=15, predicted_ns=2_000_000_000)


BROKEN = AppError("It broke.", "Mend it.")


class Kept:
    """A keeper over a real store, and a second look at the same file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.said: list[str] = []
        self.keeper = Keeper(lambda: Store.open(file))
        self.keeper.say = self.said.append
        self.keeper.open_store()
        self.keeper.models = {"target": "Big"}

    @property
    def other(self) -> Store:
        return Store.open(self.file)

    def path(self, conversation: int | None = None) -> list[tuple[str, str, State]]:
        store = self.other
        number = conversation or self.keeper.conversation or store.summaries()[0].id
        path = store.load(number).tree.path
        store.close()
        return [(node.text, node.reasoning, node.state) for node in path]

    def texts(self, conversation: int | None = None) -> list[str]:
        return [text for text, _, _ in self.path(conversation)]

    def hear(self, text: str, *, thinking: bool = False) -> None:
        self.keeper.add([Segment(text, Origin.TARGET, thinking)])

    def end(self, text: str, reason: FinishReason = FinishReason.STOP) -> None:
        self.keeper.finish(Finished(1, reason, text, "", STATS, AnswerPlan("auto", "model", None, None)))

    def exchange(self, prompt: str, text: str, reason: FinishReason = FinishReason.STOP) -> int:
        self.keeper.ask(prompt)
        self.hear(text)
        self.end(text, reason)
        assert self.keeper.conversation is not None
        return self.keeper.conversation
