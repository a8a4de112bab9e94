"""Tools in `tandem run`: run the allowed tool calls of an answer without asking."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.conversations.message import Message, ResultOf, Role
from app.conversations.tree import State, as_message
from app.core.errors import AppError, StoppedError, UsageError
from app.core.paths import mcp_file
from app.core.printable import printable
from app.engine.text.tool_calls import ToolCall, read_arguments, shown_call
from app.engine.types import FinishReason
from app.session.permissions import Permission, Permissions
from app.session.tool_use import ToolUse
from app.settings.mcp_file import read_servers
from app.settings.table import nearest
from app.worker.events import Event, Failed, Finished, Loaded, ToolReturned, ToolsListed
from app.worker.request import AnswerRequest
from app.worker.tool_servers import ToolServers


class RunTools:
    """Offers tools to the model, runs the allowed calls, and requests an answer to their results.

    Args:
        answer: Starts an answer of the engine.
        limit: Largest number of consecutive answers with calls.

    Attributes:
        calls: All calls, for JSON; the last call may have been refused.
        finished: The answer whose calls are running, if any.
    """

    number = None
    """`tandem run` stores no conversation."""

    def __init__(
        self,
        request: AnswerRequest,
        answer: Callable[[AnswerRequest], object],
        emit: Callable[[Event], object],
        allowed: Sequence[str],
        limit: int,
        say: Callable[[str], object],
    ) -> None:
        self._request, self._answer, self._allowed, self._limit, self._say = request, answer, allowed, limit, say
        self._emit, self._host = emit, ToolServers(emit)
        self._use = ToolUse(self._host, lambda: read_servers(mcp_file()), Permissions())
        self._n_ctx = 0
        self._is_answering = self._is_stopped = False
        self.calls: list[dict[str, Any]] = []
        self.finished: Finished | None = None
        self.close = self._host.close

    def start(self, names: Sequence[str] | None) -> None:
        """Start the servers; the answer begins when all servers have listed their tools."""
        if not self._use.connect(names):
            raise UsageError("mcp.json has no server to use.", "To see its servers: tandem tools")

    def take(self, event: Event) -> bool:
        """Handle an event; return whether no other handling is needed."""
        if isinstance(event, Finished):
            self._is_answering = False
        match event:
            case Loaded(pair):
                self._n_ctx = pair.n_ctx
                return False
            case ToolsListed():
                if self._use.take_list(event):
                    self._begin()
            case ToolReturned():
                if self._use.take_result(event, self):
                    self._go_on()
            case Finished(calls=calls, reason=FinishReason.STOP) if calls:
                self.finished = event
                named = tuple(replace(call, id=f"call{len(self.calls) + n}") for n, call in enumerate(calls))
                self._add(replace(as_message(Role.ASSISTANT, event.text, event.reasoning), tool_calls=named))
                self._use.begin(named, event.stats, self._n_ctx)
                self._go_on()
            case Finished() if self._use.asks_again(event):
                self._ask()
            case _:
                return False
        return True

    def stop(self) -> None:
        """Begin no more calls and answers, and stop the running call; a running answer reports its own end."""
        self._is_stopped = True
        if not self._is_answering:
            self._end()

    def _end(self) -> None:
        self._use.stop_calls(self)
        if self.finished is None:
            self._emit(Failed(None, StoppedError("The tool servers were stopped.")))
        else:
            self._emit(replace(self.finished, reason=FinishReason.CANCELLED))

    def _begin(self) -> None:
        listed = self._use.listed.values()
        errors = [one.error for one in listed if one.error is not None]
        if len(errors) == len(listed):
            raise errors[0]
        for error in errors:
            self._say(error.sentences)
        tools = [(tool, (tool.name, f"{tool.server}/{tool.name}")) for one in listed for tool in one.tools]
        for name in self._allowed:
            found = [tool for tool, names in tools if name in names]
            if not found:
                known = ", ".join(sorted(tool.name for tool, _ in tools)) or "none"
                near = nearest(name, [name for _, names in tools for name in names])
                raise UsageError(f'There is no tool "{printable(name)}".{near}', f"Known: {printable(known)}.")
            self._use.permissions.allow(Permission.CONVERSATION, found, self.number)
        self._ask()

    def _ask(self) -> None:
        if self._is_stopped:
            self._end()
        else:
            self._is_answering = True
            self._answer(self._use.completed(self._request))

    def _go_on(self) -> None:
        if self._is_stopped or self._use.next(self, self._limit):
            self._ask()
        elif (question := self._use.question) is not None:
            if question.call is None or question.tool is None:
                raise AppError(f"The model called tools {self._limit} times in a row.", "Raise ⟨answer.tool_rounds⟩.")
            what = f"The model calls {shown_call(question.call)}, which is not allowed."
            self._record(question.call, 0, what)
            raise AppError(what, f"To allow it: --allow {question.tool.name}")

    def add_result(self, result: ResultOf, text: str, state: State = State.COMPLETE) -> None:
        """Add the result of a call to the request."""
        call = next(one for message in self._request.messages for one in message.tool_calls if one.id == result.call)
        how = f"{': failed' if result.failed else ''}, {result.seconds:.1f} s"
        self._say(f"{shown_call(call)}{': stopped' if state is State.STOPPED else how}")
        self._record(call, len(text), text if result.failed else None)
        self._add(replace(as_message(Role.TOOL, text), tool_call_id=result.call))

    def _record(self, call: ToolCall, n_characters: int, error: str | None) -> None:
        read = read_arguments(call)
        arguments = call.arguments if read is None else read
        self.calls.append(
            {"name": call.name, "arguments": arguments, "result_characters": n_characters, "error": error}
        )

    def _add(self, message: Message) -> None:
        self._request = replace(self._request, messages=(*self._request.messages, message))
