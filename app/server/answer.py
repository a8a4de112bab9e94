"""Turn the engine's events of one answer into text, reasoning, tool calls and an end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.engine.stats import GenerationStats
from app.engine.text.tool_calls import ToolCall, ToolCallScanner
from app.engine.types import FinishReason
from app.server.conversation import new_call_id
from app.server.engine_queue import Ticket
from app.server.errors import as_request_error
from app.worker.events import Event, Failed, Finished, PromptProgress, Step, TokenProbability

KEEP_ALIVE_S = 10.0
"""Seconds without an event after which a stream sends a comment, so that no proxy closes it."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Progress of reading the prompt: tokens in all, from the cache, and done; and the milliseconds so far."""

    total: int
    cached: int
    done: int
    ms: float


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of an answer or its reasoning; the first part of a step carries the step's tokens and counters.

    Attributes:
        probabilities: Those of the tokens, if requested.
        stats: Counters after the step; None if another part carries them.
    """

    text: str
    reasoning: bool = False
    probabilities: tuple[TokenProbability, ...] = ()
    tokens: tuple[int, ...] = ()
    stats: GenerationStats | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """Tool calls; they follow all text."""

    calls: tuple[ToolCall, ...]


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

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens as OpenAI's chat API reports them."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.stats.predicted_n,
            "total_tokens": self.prompt_tokens + self.stats.predicted_n,
            "prompt_tokens_details": {"cached_tokens": self.stats.cache_n},
        }


Part = Delta | Calls | End


@dataclass(slots=True)
class Answer:
    """A complete answer; `end` is set by its last part."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    probabilities: list[TokenProbability] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    end: End = field(init=False)

    def add(self, part: Part) -> None:
        """Append a part."""
        match part:
            case Delta(text, reasoning, probabilities, tokens):
                self.reasoning += text if reasoning else ""
                self.text += "" if reasoning else text
                self.probabilities += probabilities
                self.tokens += tokens
            case Calls(calls):
                self.calls = calls
            case End(finished=finished):
                self.end = part
                self._drop_stop(finished.stop)

    def _drop_stop(self, stop: str) -> None:
        """Drop the probabilities of the stop string, which is not part of the text."""
        dropped = b""
        while stop and stop.encode() not in dropped and self.probabilities:
            dropped = self.probabilities.pop().piece + dropped


class PartReader:
    """Turn the events of a request into parts, with calls of the named tools."""

    def __init__(self, tools: Sequence[str] = ()) -> None:
        self._scanner = ToolCallScanner(tools) if tools else None

    def read(self, event: Event) -> list[Part]:
        """Return the parts of an event.

        Raises:
            RequestError: The request failed.
        """
        match event:
            case Failed(error=error):
                raise as_request_error(error)
            case Step(segments=segments):
                parts: list[Part] = [
                    Delta(text, one.reasoning)
                    for one in segments
                    if (text := one.text if one.reasoning or self._scanner is None else self._scanner.push(one.text))
                ]
                first = parts[0] if parts else Delta("")
                assert isinstance(first, Delta)
                parts[:1] = [replace(first, probabilities=event.probabilities, tokens=event.tokens, stats=event.stats)]
                return parts
            case Finished():
                return self._end(event)
        return []

    def _end(self, event: Finished) -> list[Part]:
        rest, calls = self._scanner.end() if self._scanner is not None else ("", ())
        cut = event.reason in (FinishReason.LENGTH, FinishReason.CONTEXT)
        parts: list[Part] = [Delta(rest)] if rest else []
        if calls:
            parts.append(Calls(tuple(replace(call, id=new_call_id()) for call in calls)))
        return [*parts, End("length" if cut else "tool_calls" if calls else "stop", event)]


async def whole_answer(ticket: Ticket, reader: PartReader) -> Answer:
    """Wait for a whole answer."""
    answer = Answer()
    async for event in ticket.events():
        for part in reader.read(event):
            answer.add(part)
    return answer


async def parts_of(ticket: Ticket, reader: PartReader) -> AsyncIterator[Part | Prompt | None]:
    """Yield the progress of the prompt and the parts of an answer; None after `KEEP_ALIVE_S` seconds without text."""
    due = time.monotonic() + KEEP_ALIVE_S
    prompt: Prompt | None = None
    began = 0.0
    while True:
        event = await ticket.next(max(0.0, due - time.monotonic()))
        if isinstance(event, PromptProgress) and not event.drafting:
            began = began if prompt is not None else time.monotonic()
            cached = prompt.cached if prompt is not None else event.done
            yield (prompt := Prompt(event.total, cached, event.done, (time.monotonic() - began) * 1e3))
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
