"""A session over a real store and a scripted engine."""

from dataclasses import replace
from pathlib import Path

from app.conversations.store import Store
from app.conversations.tree import Node, State
from app.core.errors import AppError
from app.engine.events import Step
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.session.conversation import Conversation
from app.session.session import Session
from app.session.state import Outcome
from app.session.tool_use import ToolUse
from app.settings.layers import Layer
from app.worker.events import Failed, Finished, Loaded
from tests import fake_engine
from tests.fake_engine import FIXED, STATS, FakeEngine, no_loader
from tests.fake_tools import no_tools
from tests.settings.in_memory import in_memory

PAIR = replace(fake_engine.PAIR, draft=None, n_ctx=4096)
BROKEN = AppError("It broke.", "Fix it.")


def step(request: int, text: str, *, thinking: bool = False) -> Step:
    return Step(request, (Segment(text, None, thinking),), STATS)


def finished(request: int, text: str, reason: FinishReason = FinishReason.STOP) -> Finished:
    return Finished(request, reason, text, "", STATS)


class ScriptedSession:
    """A session with a loaded pair, and a second connection to its file."""

    def __init__(
        self,
        file: Path,
        *,
        loaded: bool = True,
        flags: Layer = FIXED,
        tools: ToolUse | None = None,
    ) -> None:
        self.file = file
        self.engine = FakeEngine()
        self.said: list[str] = []
        self.live = in_memory({"answer.titles": False, **flags})
        self.session = Session(self.engine, "A pair", self.live, tools or no_tools(), lambda: Store(file), no_loader)
        self.library = self.session.library
        self.library.say = self.said.append
        self.library.open_store()
        self.session.load_next()
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
        number = conversation or self.conversation.number or store.summaries()[0].id
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

    # Events of the engine

    def says(self, text: str, *, thinking: bool = False) -> None:
        self.session.handle(step(len(self.engine.requests), text, thinking=thinking))

    def finishes(self, text: str = "", reason: FinishReason = FinishReason.STOP, repeats: int = 0) -> Outcome:
        event = finished(len(self.engine.requests), text, reason)
        outcome = self.session.handle(replace(event, repeats=repeats, at_limit=repeats > 0)).ended
        assert outcome is not None
        return outcome

    def answers(self, text: str, reason: FinishReason = FinishReason.STOP) -> None:
        self.says(text)
        self.finishes(text, reason)

    def fails(self, error: AppError = BROKEN) -> Outcome:
        outcome = self.session.handle(Failed(len(self.engine.requests), error)).ended
        assert outcome is not None
        return outcome

    def exchange(self, prompt: str, text: str, reason: FinishReason = FinishReason.STOP) -> int:
        """Ask and answer; return the conversation."""
        self.session.send(prompt)
        self.answers(text, reason)
        assert self.conversation.number is not None
        return self.conversation.number
