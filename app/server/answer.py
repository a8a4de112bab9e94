"""Convert the engine's events of an answer to text, reasoning, tool calls and an end; the interface of the formats."""

import json
import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from app.engine.events import PromptProgress, Step, TokenProbability
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.text.tool_calls import CallPart
from app.engine.types import FinishReason
from app.server.conversation import new_call_id
from app.server.engine_queue import Ticket
from app.server.errors import as_request_error
from app.server.fields import Fields
from app.server.tools import InputReader
from app.worker.events import Event, Failed, Finished
from app.worker.request import AnswerRequest

log = logging.getLogger("tandem.server")

KEEP_ALIVE_S = 10.0
"""A stream sends a comment after this time without an event, so that no proxy closes it."""
Report: TypeAlias = Callable[[Finished], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """Progress of the prefill: all tokens, cached tokens, done tokens, and the elapsed milliseconds."""

    total: int
    cached: int
    done: int
    ms: float


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of an answer or its reasoning; the first part of a step has the step's tokens and counters.

    Attributes:
        probabilities: Probabilities of the tokens, if requested.
        stats: Counters after the step, in one part of the step.
    """

    text: str
    reasoning: bool = False
    probabilities: tuple[TokenProbability, ...] = ()
    tokens: tuple[int, ...] = ()
    stats: GenerationStats | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The end of an answer; the reason is "stop", "length" or "tool_calls"."""

    reason: str
    finished: Finished

    @property
    def stats(self) -> GenerationStats:
        return self.finished.stats

    @property
    def prompt_tokens(self) -> int:
        return self.stats.cache_n + self.stats.prompt_n


Part = Delta | CallPart | End


@dataclass(slots=True)
class Answer:
    """A complete answer: each call is one part, and the last part sets `end`."""

    text: str = ""
    reasoning: str = ""
    calls: list[CallPart] = field(default_factory=list)
    probabilities: list[TokenProbability] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    end: End = field(init=False)

    def add(self, part: Part | PrefillProgress | None) -> None:
        """Append a part; progress adds nothing."""
        match part:
            case Delta(text, reasoning, probabilities, tokens):
                self.reasoning += text if reasoning else ""
                self.text += "" if reasoning else text
                self.probabilities += probabilities
                self.tokens += tokens
            case CallPart(call=call, begins=begins):
                before = "" if begins else self.calls.pop().call.arguments
                self.calls.append(replace(part, call=replace(call, arguments=before + call.arguments)))
            case End():
                self.end = part


class PartReader:
    """Converts the events of a request to parts, with calls of its tools.

    Calls of custom tools have text instead of arguments. The probabilities of the end token and of a stop string are
    left out, like their text.
    """

    def __init__(self, asked: AnswerRequest) -> None:
        self._custom = {tool["function"]["name"]: tool["custom"] for tool in asked.tools if "custom" in tool}
        self._input: InputReader | None = None
        self._call_id, self._is_in_call = "", False
        self._longest_stop = max((len(stop.encode()) for stop in asked.stops), default=0)
        self._held: list[TokenProbability] = []

    def read(self, event: Event) -> list[Part]:
        """Return the parts of an event.

        Raises:
            RequestError: The request failed.
        """
        match event:
            case Failed(error=error):
                raise as_request_error(error)
            case Step(segments=segments):
                parts = list(map(self._part, segments))
                first = parts[0] if parts else None
                # The counters of a step come with text, if only an empty text.
                text, rest = (first, parts[1:]) if isinstance(first, Delta) else (Delta(""), parts)
                self._held += event.probabilities
                step = replace(text, probabilities=self._decided(), tokens=event.tokens, stats=event.stats)
                return [step, *rest]
            case Finished():
                return self._end(event)
        return []

    def _part(self, segment: Segment) -> Part:
        if (part := segment.call) is None:
            return Delta(segment.text, segment.reasoning)
        call, self._is_in_call = part.call, not part.ends
        if part.begins:
            self._call_id = new_call_id()
            self._input = InputReader() if call.name in self._custom else None
        if self._input is not None:
            text = self._input.push(call.arguments)
            if part.ends:
                text += self._input.end()
                self._check(call.name, self._input.text)
            call = replace(call, arguments=text)
        return replace(part, call=replace(call, id=self._call_id))

    def _check(self, name: str, text: str) -> None:
        """Log an input that breaks its grammar: most formats write it as a JSON string, which no grammar constrains."""
        if not (lark := self._custom[name].get("lark")):
            return
        from app.llama.matcher import takes  # Only custom tools need llguidance in this process.

        if not takes(lark, text):
            log.warning("the input of the custom tool %r does not match its grammar", name)

    def _decided(self) -> tuple[TokenProbability, ...]:
        """Return the next probabilities of tokens that are neither part of a stop string nor the last token."""
        n, n_bytes = len(self._held), 0
        while n and (n_bytes < self._longest_stop or not self._held[n - 1].piece):
            n -= 1
            n_bytes += len(self._held[n].piece)
        decided, self._held = tuple(self._held[:n]), self._held[n:]
        return decided

    def _end(self, event: Finished) -> list[Part]:
        dropped, stop = b"", (event.stop or "").encode()
        if event.reason is FinishReason.STOP and not stop and self._held and not self._held[-1].piece:
            self._held.pop()
        while stop not in dropped and self._held:
            dropped = self._held.pop().piece + dropped
        is_short = self._is_in_call or event.reason in (FinishReason.LENGTH, FinishReason.CONTEXT)
        parts: list[Part] = [Delta("", probabilities=tuple(self._held))] if self._held else []
        return [*parts, End("length" if is_short else "tool_calls" if event.calls else "stop", event)]


async def answered_parts(ticket: Ticket, asked: AnswerRequest) -> AsyncIterator[Part | PrefillProgress | None]:
    """Yield the progress of the prompt and the parts of an answer; None after `KEEP_ALIVE_S` seconds without text."""
    reader, due = PartReader(asked), time.monotonic() + KEEP_ALIVE_S
    prompt: PrefillProgress | None = None
    began = 0.0
    while True:
        event = await ticket.next(max(0.0, due - time.monotonic()))
        if isinstance(event, PromptProgress) and not event.drafting:
            began = began if prompt is not None else time.monotonic()
            cached = prompt.cached if prompt is not None else event.done
            yield (prompt := PrefillProgress(event.total, cached, event.done, (time.monotonic() - began) * 1e3))
        parts: list[Part | None] = [*reader.read(event)] if event is not None else []
        is_silent = all(isinstance(part, Delta) and not part.text for part in parts)
        if is_silent and time.monotonic() >= due:
            parts.append(None)
        for part in parts:
            yield part
        if not is_silent or parts[-1:] == [None]:
            due = time.monotonic() + KEEP_ALIVE_S
        if parts and isinstance(parts[-1], End):
            return


@dataclass(frozen=True, slots=True)
class Names:
    """Id, model and time of an answer; the id has the prefix in the API's documentation.

    `report` returns more about an answer, for chat completions that ask for it.
    """

    prefix: str
    model: str
    report: Report | None = None
    created: int = field(default_factory=lambda: int(time.time()))
    token: str = field(default_factory=lambda: secrets.token_hex(12))

    @property
    def id(self) -> str:
        return f"{self.prefix}{self.token}"


class Format(ABC):
    """Writes an answer as a stream of events, or whole.

    Attributes:
        waits: Whether the first event waits for the number of prompt tokens.
    """

    waits = False

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        self._names, self._fields, self._index, self.asked = names, fields, index, asked
        self._tools = {tool["function"]["name"]: tool for tool in asked.tools}

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        """Return the events before the answer; the prompt is unknown while the request is queued."""
        return []

    def progress(self, prompt: PrefillProgress) -> list[str]:
        """Return the events for the progress of the prompt."""
        return []

    def keep_alive(self) -> str:
        """Return the text that keeps a silent stream open, for example while a prompt is read."""
        return ": keep-alive\n\n"

    @abstractmethod
    def part(self, part: Part) -> list[str]:
        """Return the events of a part; the last part is `End`."""

    @abstractmethod
    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return the whole answer as one JSON value."""

    def closing(self, ends: Sequence[End]) -> list[str]:
        """Return the events after the last answer of a request."""
        return []

    def joined(self, values: list[dict[str, Any]], ends: Sequence[End]) -> object:
        """Return all answers of a request as one JSON value."""
        return values[0]


def sse(value: object, event: str = "") -> str:
    """Return a server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n"
