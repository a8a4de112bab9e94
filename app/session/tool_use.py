"""The tools of a turn: the offered tools, the user's permissions, and the sequence of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Protocol

from app.conversations.message import Ending, ResultOf
from app.conversations.tree import State
from app.core.errors import AppError
from app.core.printable import printable
from app.core.units import counted
from app.engine.stats import GenerationStats
from app.engine.text.tool_calls import ToolCall, read_arguments
from app.engine.types import FinishReason
from app.session.conversation import Conversation
from app.session.past_calls import REPEATED, PastCalls, is_empty, with_results_as_text
from app.session.permissions import Permission, Permissions
from app.session.state import Outcome
from app.settings.mcp_file import McpServer, chosen_servers
from app.worker.events import Finished, Tool, ToolReturned, ToolsListed
from app.worker.request import AnswerRequest

if TYPE_CHECKING:
    from app.worker.tool_servers import ToolServers

_SAFE_NAME = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that function names may not contain in any call format."""
_MIN_CHARACTERS, _CHARACTERS_PER_TOKEN = 2_000, 3
"""Shortest part of a result that is kept, and a cautious estimate of characters per token."""
_STOPPED_RESULT, _DECLINED_RESULT = "The user stopped this call.", "The user does not allow this call."


class Transcript(Protocol):
    """Receives the results of calls, such as a conversation."""

    @property
    def number(self) -> int | None:
        """Return the conversation for which the user may allow tools."""

    def add_result(self, result: ResultOf, text: str, state: State = State.COMPLETE) -> None: ...


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for the user, or, without a tool, the question whether to continue after many calls.

    Attributes:
        has_changed: Whether the tool was allowed before its server changed its description.
    """

    call: ToolCall | None = None
    tool: Tool | None = None
    has_changed: bool = False


class ToolUse:
    """Gives the model tools, and runs the calls of its answers after the user allows them.

    Attributes:
        servers: Returns the servers of mcp.json; raises AppError.
        question: What the user must answer before the turn continues, if anything.
        listed: The tools of each started server, or why it has none.
    """

    def __init__(self, host: ToolServers, servers: Callable[[], Sequence[McpServer]], permissions: Permissions) -> None:
        self._host, self.servers, self.permissions = host, servers, permissions
        self.question: Question | None = None
        self.running: ToolCall | None = None
        self.listed: dict[str, ToolsListed] = {}
        self._servers: dict[str, McpServer] = {}
        self._chosen: set[str] = set()
        self._awaited: set[str] = set()
        self._tools: dict[str, Tool] = {}
        self._calls: list[ToolCall] = []
        self._number = self._n_rounds = 0
        self._room = 0
        self._past = PastCalls()
        self._has_news = self._must_answer = False

    # Servers and tools

    def connect(self, names: Sequence[str] | None) -> bool:
        """Start servers and list their tools for a turn; return whether to wait. A failed server is not tried again.

        Raises AppError for a damaged file or an unknown name.
        """
        self._awaited, self._tools, self._n_rounds, self._calls = set(), {}, 0, []
        self._past, self._must_answer = PastCalls(), False
        known = {server.name: server for server in chosen_servers(self.servers(), names)}
        for name in known:
            if self._servers.get(name) != known[name]:
                self.listed.pop(name, None)
        self._servers |= known
        ready = [server for name, server in known.items() if not ((now := self.listed.get(name)) and now.error)]
        self._chosen = {server.name for server in ready}
        self._awaited = set(self._chosen)
        self._host.connect(ready)
        return bool(self._awaited)

    def check(self, names: Sequence[str]) -> None:
        """Start servers and list their tools, including failed servers; no turn waits for them."""
        servers = chosen_servers(self.servers(), names)
        for server in servers:
            self.listed.pop(server.name, None)
        self._host.connect(servers)

    def take_list(self, event: ToolsListed) -> bool:
        """Store the tools of a server; return whether a turn has waited for them, and all have arrived."""
        self.listed[event.server] = event
        if event.server not in self._awaited:
            return False
        self._awaited.discard(event.server)
        if self._awaited:
            return False
        for tool in (tool for server in sorted(self._chosen) for tool in self.listed[server].tools):
            name, other = (_SAFE_NAME.sub("_", one) for one in (tool.name, f"{tool.server}__{tool.name}"))
            names = chain([name, other], (f"{other}_{n}" for n in count(2)))
            self._tools[next(one for one in names if one not in self._tools)] = tool
        return True

    def failures_with(self, server: str) -> str:
        """Return why a server has no tools, and with it the turn's other failed servers, without their fixes."""
        names = sorted(self._chosen) if server in self._chosen else [server]
        errors = [error for name in names if (listed := self.listed.get(name)) and (error := listed.error)]
        return errors[0].sentences if len(errors) == 1 else " ".join(error.message for error in errors)

    @property
    def activity(self) -> str | None:
        """Return what the turn waits for, if it waits."""
        if self._awaited:
            return f"starting tools of {printable(', '.join(sorted(self._awaited)))}"
        if self.question is not None:
            return "waiting for your answer"
        return f"running {printable(self.running.name)}" if self.running is not None else None

    @property
    def offered(self) -> tuple[dict[str, Any], ...]:
        """Return the tools of this turn, as in OpenAI's API."""
        return tuple(
            {"type": "function", "function": {"name": name, "description": tool.description, "parameters": tool.schema}}
            for name, tool in sorted(self._tools.items())
        )

    def completed(self, request: AnswerRequest) -> AnswerRequest:
        """Return a request with the tools of this turn, or without any if the model must answer from the results."""
        if self._must_answer:
            return with_results_as_text(request)
        return replace(request, tools=self.offered)

    def offer(self, names: Sequence[str] | None) -> str:
        """Return how many tools of these servers a prompt has, or how many servers the first prompt starts.

        None means all servers that are not disabled.
        """
        # The tools screen may list them before any turn has tools.
        if not (self.listed and self._servers):
            n = sum(not server.is_disabled if names is None else server.name in names for server in self._known)
            return counted(n, "tool server") if n else ""
        n = sum(names is None or tool.server in names for tool in self._tools.values())
        return counted(n, "tool") if n else ""

    @cached_property
    def _known(self) -> Sequence[McpServer]:
        try:
            return self.servers()
        except AppError:
            return ()

    # The calls of an answer

    def begin(self, calls: Sequence[ToolCall], used: GenerationStats | None, n_ctx: int) -> None:
        """Store the calls of an answer; results may fill the rest of the context, if its size is known."""
        self._calls, self._has_news = list(calls), not calls
        left = n_ctx - used.cache_n - used.prompt_n - used.predicted_n if used is not None else 0
        self._room = max(_MIN_CHARACTERS, _CHARACTERS_PER_TOKEN * max(left, n_ctx // 2) // 2)

    def next(self, conversation: Transcript, limit: int) -> bool:
        """Run calls, or ask the user, until none is left; return whether the model continues."""
        while self._calls:
            call = self._calls[0]
            tool, arguments = self._tools.get(call.name), read_arguments(call)
            if self._past.has(call):
                self._end_call(conversation, REPEATED, failed=False)
            elif tool is None or arguments is None:
                reason = f"There is no tool {call.name}." if tool is None else "The arguments are not a JSON object."
                self._end_call(conversation, reason, failed=True)
            elif self.permissions.allows(tool, conversation.number):
                self._run(call, tool, arguments)
                return False
            else:
                self.question = Question(call, tool, self.permissions.knows(tool))
                return False
        self._must_answer = not self._has_news
        if self._n_rounds >= limit and not self._must_answer:
            self.question = Question()
            return False
        self._n_rounds += 1
        return True

    def asks_again(self, answer: Finished) -> bool:
        """Return whether an answer to results is empty, so that the model is asked again, without tools."""
        is_last = bool(answer.calls or answer.reasoning.strip()) or answer.reason is not FinishReason.STOP
        if is_last or self._must_answer or not self._n_rounds or not is_empty(answer.text, self._tools):
            return False
        self._must_answer = True
        return True

    def answer(self, permission: Permission, conversation: Transcript) -> AppError | None:
        """Apply the answer to the question; return why it cannot be stored, if so; then it holds only for this call."""
        question, failure = self.question, None
        assert question is not None
        if question.tool is not None and permission is not Permission.NO:
            reading = (tool for tool in self.listed[question.tool.server].tools if tool.reads_only)
            allowed = reading if permission is Permission.READING else (question.tool,)
            try:
                self.permissions.allow(permission, allowed, conversation.number)
            except AppError as error:
                failure = error
        self.question = None
        if question.call is None or question.tool is None:
            self._n_rounds, self._has_news = 0, permission is not Permission.NO
        elif permission is Permission.NO:
            self._end_call(conversation, _DECLINED_RESULT, failed=True)
        else:
            self._run(question.call, question.tool, read_arguments(question.call) or {})
        return failure

    def _run(self, call: ToolCall, tool: Tool, arguments: dict[str, Any]) -> None:
        self._number += 1
        self.running = call
        self._host.call(self._number, self._servers[tool.server], tool.name, arguments, repeats=tool.reads_only)

    def take_result(self, event: ToolReturned, conversation: Transcript) -> bool:
        """Store the result of the running call; return whether it was the running call."""
        if self.running is None or event.call != self._number:
            return False
        self._end_call(conversation, self._cut(event.text), failed=event.is_error, seconds=event.seconds)
        return True

    def _cut(self, text: str) -> str:
        room, n_left = self._room, len(self._calls)
        kept = max(_MIN_CHARACTERS, room // n_left)
        self._room = max(0, room - min(kept, len(text)))
        if len(text) <= kept:
            return text
        return f"{text[:kept]}\n[Cut: these are the first {kept:,} of {len(text):,} characters.]"

    def _end_call(
        self,
        conversation: Transcript,
        text: str,
        *,
        failed: bool,
        seconds: float = 0.0,
        state: State = State.COMPLETE,
    ) -> None:
        call = self._calls.pop(0)
        if not self._past.has(call):
            tool = self._tools.get(call.name) if self.running is not None else None
            is_new = self._past.add(call, tool, text, failed=failed)
            self._has_news = self._has_news or is_new
        self.running = None
        conversation.add_result(ResultOf(call.id, call.name, failed, seconds), printable(text), state)

    def stop(self, conversation: Conversation) -> Outcome | None:
        """End a call, a question or a start; return the outcome of the turn, if there was one."""
        if self._awaited:
            self._awaited = set()
            return conversation.stop()
        if not self.stop_calls(conversation):
            return None
        return Outcome(Ending(FinishReason.CANCELLED), "", counts=True)

    def stop_calls(self, transcript: Transcript) -> bool:
        """End a call or a question, and skip the other calls; return whether there was one."""
        if self.running is None and self.question is None:
            return False
        self._host.cancel(self._number)
        self.question = None
        if self._calls:
            self._end_call(transcript, _STOPPED_RESULT, failed=True, state=State.STOPPED)
        self._calls = []
        return True
