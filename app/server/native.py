"""llama-server's own API: `/completion`, and `/infill`, which editors call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from app.engine.text.prompts import Infill, TextPrompt
from app.engine.types import FinishReason
from app.server.answer import Answer, CallPart, Delta, End, Part, PrefillProgress
from app.server.chat import CompletionFormat, as_logprob, as_progress, as_timings, repeated
from app.server.completions import plain_request, read_prompts
from app.server.errors import RequestError
from app.server.fields import MOST_TOP, Fields, read_n_choices, refuse
from app.server.format import Names, sse
from app.session.chat_settings import ChatSettings
from app.worker.events import Finished
from app.worker.request import AnswerRequest

_LENGTH_FIELDS = ("n_predict", "max_tokens")


def read_native(fields: Fields, settings: ChatSettings) -> list[AnswerRequest]:
    """Return the requests of `/completion`."""
    requests = [plain_request(prompt, fields, settings, *_LENGTH_FIELDS) for prompt in read_prompts(fields)]
    return _with_choices(requests, fields)


def read_infill(fields: Fields, settings: ChatSettings) -> list[AnswerRequest]:
    """Return the requests of `/infill`."""
    for name in ("input_prefix", "input_suffix"):
        if name not in fields:
            refuse(name, None, "a string")
    files = []
    for one in fields.objects("input_extra"):
        if "text" not in one:
            refuse(one.at("text"), None, "a string")
        files.append((one.text("filename", "tmp"), one.text("text")))
    gap = Infill(fields.text("input_prefix"), fields.text("input_suffix"), fields.text("prompt"), tuple(files))
    return _with_choices([plain_request(gap, fields, settings, *_LENGTH_FIELDS)], fields)


def _with_choices(requests: list[AnswerRequest], fields: Fields) -> list[AnswerRequest]:
    n_top = fields.whole("n_probs", 0, MOST_TOP)
    if n_top and fields.flag("post_sampling_probs"):
        raise RequestError("Only probabilities before sampling are available.", param="post_sampling_probs")
    with_top = [replace(request, n_top=n_top or None) for request in requests]
    n = read_n_choices(fields, "n_cmpl")
    return [one for request in with_top for one in repeated(request, n)]


class NativeFormat(CompletionFormat):
    """Write an answer as llama-server's `/completion` does."""

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        super().__init__(names, fields, index, asked)
        self._selected = fields.texts("response_fields")
        self._returns_tokens = fields.flag("return_tokens")
        self._n_prompt = 0

    def progress(self, prompt: PrefillProgress) -> list[str]:
        self._n_prompt = prompt.total
        shows = self._fields.flag("return_progress")
        return [self._chunk("", (), 0, prompt_progress=as_progress(prompt))] if shows else []

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, _, probabilities, tokens, stats):
                more = self._of_step(part)
                if probabilities:
                    more["completion_probabilities"] = [as_logprob(one) for one in probabilities]
                return [self._chunk(text, tokens, stats.predicted_n if stats else 0, **more)]
            case End():
                return [sse(self._final(part, "", ()))]
            case CallPart():
                return []

    def whole(self, answer: Answer) -> dict[str, Any]:
        value = self._final(answer.end, answer.text, answer.tokens if self._returns_tokens else ())
        if answer.probabilities:
            value["completion_probabilities"] = [as_logprob(one) for one in answer.probabilities]
        return {name: found[-1] for name in self._selected if (found := _at(value, name))} if self._selected else value

    def joined(self, values: list[dict[str, Any]], ends: Sequence[End]) -> object:
        return values if len(values) > 1 else values[0]

    def closing(self, ends: Sequence[End]) -> list[str]:
        return []

    def _chunk(self, text: str, tokens: tuple[int, ...], n_predicted: int, **more: Any) -> str:
        counts = {"tokens_predicted": n_predicted, "tokens_evaluated": self._n_prompt, "id_slot": 0}
        return sse({"index": self._index, "content": text, "tokens": list(tokens), "stop": False, **counts, **more})

    def _final(self, end: End, text: str, tokens: Any) -> dict[str, Any]:
        asked, finished = self._asked, end.finished
        drafting = asdict(asked.drafting) if asked.drafting is not None else {"n_max": 0}
        settings = {
            **asdict(asked.sampling),
            "n_predict": -1 if asked.max_tokens is None else asked.max_tokens,
            "stop": list(asked.stops),
            "ignore_eos": asked.guidance.ignores_end,
            **{f"speculative.{name}": value for name, value in drafting.items()},
        }
        prompt = asked.text
        shown = [part for part in prompt.parts if isinstance(part, str)] if isinstance(prompt, TextPrompt) else []
        return {
            "index": self._index,
            "content": text,
            "tokens": list(tokens),
            "id_slot": 0,
            "stop": True,
            "model": self._names.model,
            "tokens_predicted": end.stats.predicted_n,
            "tokens_evaluated": end.prompt_tokens,
            "generation_settings": settings,
            "prompt": "".join(shown),
            "has_new_line": "\n" in finished.text,
            "truncated": finished.reason is FinishReason.CONTEXT,
            "stop_type": _stop_type(finished),
            "stopping_word": finished.stop,
            "tokens_cached": end.prompt_tokens + end.stats.predicted_n,
            "timings": as_timings(end.stats),
        }


def _stop_type(finished: Finished) -> str:
    if finished.reason in (FinishReason.LENGTH, FinishReason.CONTEXT):
        return "limit"
    return "word" if finished.stop else "eos"


def _at(value: Any, path: str) -> list[Any]:
    """Return the value at a path such as "timings/prompt_n" in a list; an empty one if it is missing."""
    for name in path.split("/"):
        if not isinstance(value, dict) or name not in value:
            return []
        value = value[name]
    return [value]
