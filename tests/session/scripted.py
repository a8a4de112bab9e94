"""A session over a real store and a scripted engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.conversations.store import Store
from app.conversations.tree import Node, State
from app.core.errors import AppError
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.models.pair_info import ModelInfo, PairInfo
from app.session.conversation import Conversation
from app.session.session import Session
from app.session.turn import Outcome
from app.settings.layers import Layer
from app.worker.engine_worker import Job, Loader, Progress
from app.worker.events import AnswerPlan, Failed, Finished, Loaded
from app.worker.request import AnswerRequest, LoadedPair
from tests.settings.in_memory import in_memory

STATS = GenerationStats(prompt_n=10, predicted_n=21, draft_n=20, draft_n_accepted=15, predicted_ns=2_000_000_000)
PAIR = PairInfo(ModelInfo("Big", "Big-Q4_K_M.gguf", "Q4_K - Medium", 1, 1), None, n_ctx=4096, device="CPU")
FIXED: Layer = {"draft.mode": "fixed"}
BROKEN = AppError("It broke.", "Fix it.")


class ScriptedEngine:
    """Satisfies `app.session.answering.Engine` and records the commands."""

    def __init__(self) -> None:
        self.loads: list[Loader] = []
        self.requests: list[AnswerRequest] = []
        self.jobs: list[Job] = []
        self.cancelled = 0
        self.drafts: list[bool] = []

    def load(self, loader: Loader) -> None:
        self.loads.append(loader)

    def answer(self, request: AnswerRequest) -> int:
        self.requests.append(request)
        return len(self.requests)

    def run(self, job: Job) -> int:
        self.jobs.append(job)
        return 1000 + len(self.jobs)

    def cancel(self, number: int | None = None) -> None:
        self.cancelled += 1

    def inspect(self, on: bool) -> None: ...

    def draft(self, on: bool) -> None:
        self.drafts.append(on)

    def close(self, timeout: float | None = None) -> bool:
        return True


def no_loader(cancel: threading.Event, progress: Progress) -> LoadedPair:
    raise AssertionError("nothing is loaded here")


class ScriptedSession:
    """A session with a loaded pair, and a second look at its file."""

    def __init__(
        self,
        file: Path,
        *,
        loaded: bool = True,
        now: Callable[[], float] | None = None,
        flags: Layer = FIXED,
    ) -> None:
        self.file = file
        self.engine = ScriptedEngine()
        self.said: list[str] = []
        opener = (lambda: Store(file, now)) if now is not None else (lambda: Store(file))
        self.live = in_memory({"answer.titles": False, **flags})
        self.session = Session(self.engine, "A pair", self.live, opener)
        self.library = self.session.library
        self.library.say = self.said.append
        self.library.open_store()
        if loaded:
            self.session.handle(Loaded(PAIR))

    @property
    def conversation(self) -> Conversation:
        """The open conversation."""
        return self.session.conversation

    @property
    def store(self) -> Store:
        """The open store."""
        store = self.library.store
        assert store is not None
        return store

    @property
    def other(self) -> Store:
        """The same file in another Tandem."""
        return Store(self.file)

    def path(self, conversation: int | None = None) -> list[tuple[str, str, State]]:
        """Return text, reasoning and state of the stored active branch."""
        store = self.other
        number = conversation or self.library.conversation or store.summaries()[0].id
        path = store.load(number).tree.path
        store.close()
        return [(node.text, node.reasoning, node.state) for node in path]

    def texts(self, conversation: int | None = None) -> list[str]:
        return [text for text, _, _ in self.path(conversation)]

    @property
    def read(self) -> list[str]:
        """Return the messages that the model reads for the running answer."""
        return [message.content for message in self.engine.requests[-1].messages]

    def node(self, text: str) -> int:
        """Return the id of the newest message with a text."""
        nodes: list[Node] = [node for node in self.conversation.tree.nodes.values() if node.text == text]
        return nodes[-1].id

    # What the engine says

    def says(self, text: str, *, thinking: bool = False) -> None:
        self.session.add([Segment(text, None, thinking)])

    def finishes(self, text: str = "", reason: FinishReason = FinishReason.STOP, repeats: int = 0) -> Outcome:
        event = Finished(len(self.engine.requests), reason, text, "", STATS, AnswerPlan("auto", "model", None, None))
        outcome = self.session.handle(replace(event, repeats=repeats, at_limit=repeats > 0))
        assert outcome is not None
        return outcome

    def fails(self, error: AppError = BROKEN) -> Outcome:
        outcome = self.session.handle(Failed(len(self.engine.requests), error))
        assert outcome is not None
        return outcome

    def exchange(self, prompt: str, text: str, reason: FinishReason = FinishReason.STOP) -> int:
        """Ask and answer; return the conversation."""
        assert self.session.send(prompt)
        self.says(text)
        self.finishes(text, reason)
        assert self.library.conversation is not None
        return self.library.conversation
