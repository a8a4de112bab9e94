"""Continue texts without a chat template: OpenAI's completions API, and llama-server's `/completion` and `/infill`."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from app.engine.events import TokenProbability
from app.engine.types import FinishReason, Infill, PlainPrompt, TextPrompt
from app.server.answer import Answer, Delta, End, Names, Part, PrefillProgress, sse
from app.server.chat import (
    CompletionFormat,
    as_logprob,
    as_timings,
    log_of,
    read_n_choices,
    read_n_top,
    repeated,
    usage_of,
)
from app.server.errors import RequestError
from app.server.fields import MOST_TOP, FieldNames, Fields, is_token, read_answer, refuse
from app.settings.layers import Resolved
from app.worker.events import Finished
from app.worker.request import AnswerRequest

_PROMPT_FORMS = "a string, an array of token ids, or an array of strings and such arrays"
_MOST_PROMPTS = 256


def read_completions(fields: Fields, settings: Resolved) -> list[AnswerRequest]:
    """Return the requests that continue each prompt `n` times."""
    n, prompts = read_n_choices(fields), read_prompts(fields)
    fields.whole("best_of", 1, n)
    if suffix := fields.text("suffix"):
        prompts = [Infill(text_of(prompt), suffix) for prompt in prompts]
    if fields.flag("echo") and fields.raw("logprobs") not in (None, False):
        raise RequestError("The probabilities of a prompt are not available.", "Leave out echo or logprobs.")
    return _requests(prompts, fields, settings, ("max_tokens", "n_predict"), n, read_n_top(fields))


def _requests(
    prompts: Sequence[PlainPrompt],
    fields: Fields,
    settings: Resolved,
    lengths: tuple[str, ...],
    n: int,
    n_top: int | None,
) -> list[AnswerRequest]:
    """Return the requests that continue each prompt `n` times; `lengths` are the fields with the token limit."""
    request = replace(read_answer(fields, AnswerRequest.of(settings), FieldNames(lengths)), n_top=n_top)
    return [one for prompt in prompts for one in repeated(replace(request, text=prompt), n)]


def read_prompts(fields: Fields) -> list[PlainPrompt]:
    """Return the prompts in any form of OpenAI or llama-server: texts, token ids, both mixed, or several of them."""
    value = fields.raw("prompt")
    several = isinstance(value, list) and not any(map(is_token, value))
    prompts = value if several else [value]
    if not 0 < len(prompts) <= _MOST_PROMPTS:
        refuse("prompt", value, f"1 to {_MOST_PROMPTS} prompts")
    multimodal = any(isinstance(one, dict) and one.get("multimodal_data") for one in prompts)
    if multimodal or fields.raw("image_data"):
        raise RequestError(
            "Pictures are read in messages only, not in a plain prompt.",
            "Send them as image_url to /v1/chat/completions.",
            param="prompt.multimodal_data" if multimodal else "image_data",
        )
    return [_prompt(one) for one in prompts]


def _prompt(value: Any) -> TextPrompt:
    path = "prompt"
    if isinstance(value, dict):
        path, value = "prompt.prompt_string", value.get("prompt_string")
    parts = value if isinstance(value, list) else [value]
    if is_token(value) or not all(isinstance(part, str) or is_token(part) for part in parts):
        refuse(path, value, _PROMPT_FORMS)
    return TextPrompt(tuple(parts))


def text_of(prompt: PlainPrompt | None) -> str:
    """Return the text of a prompt. Raises RequestError for token ids, whose text the server does not know."""
    parts = prompt.parts if isinstance(prompt, TextPrompt) else (prompt.prefix if prompt is not None else "",)
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        refuse("prompt", list(parts), "text here")
    return "".join(texts)


class TextFormat(CompletionFormat):
    """Writes an answer as a text completion."""

    kind = "text_completion"

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        super().__init__(names, fields, index, asked)
        self._echo = text_of(asked.text) if fields.flag("echo") else ""
        self._at = len(self._echo)

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        return [sse(self._value(self._echo, None, []))] if self._echo else []

    def _chunk(self, delta: Delta, reason: str | None = None, **more: Any) -> str:
        return sse({**self._value(delta.text, reason, list(delta.probabilities)), **more})

    def whole(self, answer: Answer) -> dict[str, Any]:
        value = self._value(self._echo + answer.text, answer.end.reason, answer.probabilities)
        return {**value, "usage": usage_of([answer.end]), **self._numbers(answer.end)}

    def _value(self, text: str, reason: str | None, probabilities: list[TokenProbability]) -> dict[str, Any]:
        logprobs = self._logprobs(probabilities) if probabilities else None
        choice = {"index": self._index, "text": text, "finish_reason": reason, "logprobs": logprobs}
        return {**self._head(self.kind), "choices": [choice]}

    def _logprobs(self, probabilities: list[TokenProbability]) -> dict[str, Any]:
        tokens, offsets = [one.piece.decode(errors="replace") for one in probabilities], []
        for token in tokens:
            offsets.append(self._at)
            self._at += len(token)
        tops = [{one.piece.decode(errors="replace"): log_of(one.probability) for one in p.top} for p in probabilities]
        log_probabilities = [log_of(one.probability) for one in probabilities]
        return {"tokens": tokens, "token_logprobs": log_probabilities, "top_logprobs": tops, "text_offset": offsets}


# llama-server's own API, which editors call


def read_native(fields: Fields, settings: Resolved) -> list[AnswerRequest]:
    """Return the requests of `/completion`."""
    return _native_requests(read_prompts(fields), fields, settings)


def read_infill(fields: Fields, settings: Resolved) -> list[AnswerRequest]:
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
    return _native_requests([gap], fields, settings)


def _native_requests(prompts: Sequence[PlainPrompt], fields: Fields, settings: Resolved) -> list[AnswerRequest]:
    n_top = fields.whole("n_probs", 0, MOST_TOP)
    if n_top and fields.flag("post_sampling_probs"):
        raise RequestError("Only probabilities before sampling are available.", param="post_sampling_probs")
    n = read_n_choices(fields, "n_cmpl")
    return _requests(prompts, fields, settings, ("n_predict", "max_tokens"), n, n_top or None)


class NativeFormat(CompletionFormat):
    """Writes an answer in the format of llama-server's `/completion`."""

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        super().__init__(names, fields, index, asked)
        self._selected = fields.texts("response_fields")
        self._returns_tokens = fields.flag("return_tokens")
        self._n_prompt = 0

    def progress(self, prompt: PrefillProgress) -> list[str]:
        self._n_prompt = prompt.total
        return super().progress(prompt)

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(probabilities=probabilities):
                more: dict[str, Any] = {"completion_probabilities": [as_logprob(one) for one in probabilities]}
                return [self._chunk(part, **self._of_step(part), **(more if probabilities else {}))]
            case End():
                return [sse(self._final(part, "", ()))]
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

    def _chunk(self, delta: Delta, reason: str | None = None, **more: Any) -> str:
        n_predicted = delta.stats.predicted_n if delta.stats is not None else 0
        counts = {"tokens_predicted": n_predicted, "tokens_evaluated": self._n_prompt, "id_slot": 0}
        shown = {"index": self._index, "content": delta.text, "tokens": list(delta.tokens), "stop": False}
        return sse({**shown, **counts, **more})

    def _final(self, end: End, text: str, tokens: Any) -> dict[str, Any]:
        asked, finished = self.asked, end.finished
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
            "stopping_word": finished.stop or "",
            "tokens_cached": end.prompt_tokens + end.stats.predicted_n,
            "timings": as_timings(end.stats),
        }


def _stop_type(finished: Finished) -> str:
    if finished.reason in (FinishReason.LENGTH, FinishReason.CONTEXT):
        return "limit"
    return "word" if finished.stop else "eos"


def _at(value: Any, path: str) -> list[Any]:
    for name in path.split("/"):
        if not isinstance(value, dict) or name not in value:
            return []
        value = value[name]
    return [value]
