"""OpenAI's chat completions API, with the fields that llama-server adds."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app import __version__
from app.engine.events import TokenProbability
from app.engine.stats import GenerationStats
from app.engine.text.tool_calls import CallPart, ToolCall
from app.engine.types import SAMPLING_BOUNDS
from app.server.answer import Answer, Delta, End, Format, Names, Part, PrefillProgress, sse
from app.server.conversation import request_for
from app.server.errors import RequestError
from app.server.fields import MOST_TOP, FieldNames, Fields, refuse
from app.server.tools import read_tools
from app.settings.layers import Resolved
from app.worker.request import AnswerRequest

DONE = "data: [DONE]\n\n"
_FIELD_NAMES = FieldNames(("max_completion_tokens", "max_tokens", "n_predict"))
_MOST_CHOICES = 64
_MIN_PROBABILITY = 1e-30
_N_SEEDS = int(SAMPLING_BOUNDS["seed"][1]) + 1


def read_chat(fields: Fields, settings: Resolved) -> AnswerRequest:
    """Return the request of the engine."""
    if fields.flag("add_generation_prompt") and fields.flag("continue_final_message"):
        raise RequestError("Send add_generation_prompt or continue_final_message, not both.")
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if old in fields:
            raise RequestError(f"{old} is not supported.", f"Send {new} instead.", param=old)
    request = request_for(fields, settings, _FIELD_NAMES, fields.objects("messages"), read_tools(fields, _FIELD_NAMES))
    return replace(request, n_top=read_n_top(fields))


def repeated(request: AnswerRequest, n: int) -> list[AnswerRequest]:
    """Return a request for each of `n` answers, with different seeds if it has a seed."""
    sampling = request.sampling
    seeds = [None if sampling.seed is None else (sampling.seed + number) % _N_SEEDS for number in range(n)]
    return [replace(request, sampling=replace(sampling, seed=seed)) for seed in seeds]


def read_choices(fields: Fields, settings: Resolved) -> list[AnswerRequest]:
    """Return the requests for all answers."""
    return repeated(read_chat(fields, settings), read_n_choices(fields))


def read_n_choices(given: Fields, *names: str) -> int:
    """Return the number of requested answers, from the first given field, or `n`."""
    return next((n for name in (*names, "n") if (n := given.whole(name, 1, _MOST_CHOICES))), 1)


def read_n_top(given: Fields) -> int | None:
    """Return how many top tokens to report per position; None reports no probabilities."""
    n = given.whole("top_logprobs", 0, MOST_TOP)
    if n and not given.raw("logprobs"):
        raise RequestError("top_logprobs needs logprobs: true.", param="top_logprobs")
    value = given.raw("logprobs")
    if isinstance(value, bool):
        return (n or 0) if value else None
    if not isinstance(value, int | float | None):
        refuse("logprobs", value, f"true, false or a whole number from 0 to {MOST_TOP}")
    return given.whole("logprobs", 0, MOST_TOP)


class CompletionFormat(Format):
    """Writes an answer as a completion of any kind."""

    kind = ""

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        super().__init__(names, fields, index, asked)
        self._include_usage = (fields.object("stream_options") or Fields({})).flag("include_usage")
        self._n = read_n_choices(fields)

    def progress(self, prompt: PrefillProgress) -> list[str]:
        # llama-server writes it like this.
        value = {"total": prompt.total, "cache": prompt.cached, "processed": prompt.done, "time_ms": prompt.ms}
        shows = self._fields.flag("return_progress")
        return [self._chunk(Delta(""), prompt_progress=value)] if shows else []

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, _, probabilities) if text or probabilities:
                return [self._chunk(part, **self._of_step(part))]
            case End(reason):
                return [self._chunk(Delta(""), reason, **self._numbers(part))]
        return []

    @abstractmethod
    def _chunk(self, delta: Delta, reason: str | None = None, **more: Any) -> str:
        """Return the event of new text, or of the end of the answer."""

    def _head(self, kind: str) -> dict[str, Any]:
        head = {"id": self._names.id, "object": kind, "created": self._names.created, "model": self._names.model}
        return {**head, "system_fingerprint": f"tandem-{__version__}"}

    def _numbers(self, end: End) -> dict[str, Any]:
        report = self._names.report if self._fields.flag("tandem") else None
        more = {"tandem": report(end.finished)} if report is not None else {}
        return {"timings": as_timings(end.stats), **more}

    def _of_step(self, part: Delta) -> dict[str, Any]:
        shows = part.stats is not None and self._fields.flag("timings_per_token")
        return {"timings": as_timings(part.stats)} if shows and part.stats is not None else {}

    def closing(self, ends: Sequence[End]) -> list[str]:
        # Clients look for timings on the last event, as in llama-server.
        usage, timings = usage_of(ends, self._n), as_timings(ends[-1].stats)
        last = {**self._head(self.kind), "choices": [], "usage": usage, "timings": timings}
        return [*([sse(last)] if self._include_usage else []), DONE]

    def joined(self, values: list[dict[str, Any]], ends: Sequence[End]) -> object:
        choices = [choice for value in values for choice in value["choices"]]
        return {**values[0], "choices": choices, "usage": usage_of(ends, self._n)}


class ChatFormat(CompletionFormat):
    """Writes an answer as a chat completion."""

    kind = "chat.completion.chunk"

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        return [self._event({"delta": {"role": "assistant", "content": ""}})]

    def part(self, part: Part) -> list[str]:
        if not isinstance(part, CallPart):
            return super().part(part)
        value = self._as_call(part.call) if part.begins else self._as_text(part.call)
        delta = {"tool_calls": [{"index": part.index, **value}]}
        return [self._event({"delta": delta})] if part.begins or part.call.arguments else []

    def whole(self, answer: Answer) -> dict[str, Any]:
        content = answer.text or (None if answer.calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning.strip()
        if answer.calls:
            message["tool_calls"] = [self._as_call(part.call) for part in answer.calls]
        choice = {"index": self._index, "message": message, "finish_reason": answer.end.reason, "logprobs": None}
        if answer.probabilities:
            choice["logprobs"] = {"content": [as_logprob(one) for one in answer.probabilities]}
        end = answer.end
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_of([end]), **self._numbers(end)}

    def _as_call(self, call: ToolCall) -> dict[str, Any]:
        ((kind, text),) = self._as_text(call).items()
        return {"id": call.id, "type": kind, kind: {"name": call.name, **text}}

    def _as_text(self, call: ToolCall) -> dict[str, dict[str, str]]:
        is_custom = "custom" in self._tools[call.name]
        return {"custom": {"input": call.arguments}} if is_custom else {"function": {"arguments": call.arguments}}

    def _chunk(self, delta: Delta, reason: str | None = None, **more: Any) -> str:
        has_text = bool(delta.text or delta.probabilities)
        text = {"reasoning_content" if delta.reasoning else "content": delta.text} if has_text else {}
        logprobs = {"logprobs": {"content": [as_logprob(one) for one in delta.probabilities]}}
        return self._event({"delta": text, **(logprobs if delta.probabilities else {})}, reason, **more)

    def _event(self, choice: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        choices = [{"index": self._index, **choice, "finish_reason": reason}]
        return sse({**self._head(self.kind), "choices": choices, **more})


def as_logprob(one: TokenProbability) -> dict[str, Any]:
    """Return the probability of a token in the format of the chat API."""
    return {**_logprob(one), "top_logprobs": [_logprob(other) for other in one.top]}


def _logprob(one: TokenProbability) -> dict[str, Any]:
    text = one.piece.decode(errors="replace")
    return {"id": one.token, "token": text, "logprob": log_of(one.probability), "bytes": list(one.piece)}


def usage_of(ends: Sequence[End], n: int = 1) -> dict[str, Any]:
    """Return the tokens of answers as OpenAI's chat API reports them; a prompt with `n` answers counts once."""
    n_prompt, n_cached = sum(end.prompt_tokens for end in ends[::n]), sum(end.stats.cache_n for end in ends[::n])
    n_completion = sum(end.stats.predicted_n for end in ends)
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_completion,
        "total_tokens": n_prompt + n_completion,
        "prompt_tokens_details": {"cached_tokens": n_cached},
    }


def as_timings(stats: GenerationStats) -> dict[str, float]:
    """Return the timings in llama-server's format, in which missing rates are 0."""
    return {name: 0.0 if value is None else value for name, value in stats.timings.items()}


def log_of(probability: float) -> float:
    """Return the logarithm of a probability; JSON has no infinity, which is the logarithm of 0."""
    return math.log(max(probability, _MIN_PROBABILITY))
