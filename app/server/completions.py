"""OpenAI's completions API: continue texts without a chat template."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.engine.events import TokenProbability
from app.engine.text.prompts import Infill, PlainPrompt, TextPrompt
from app.server.answer import Answer, CallPart, Delta, End, Part, PrefillProgress
from app.server.chat import CompletionFormat, as_progress, log_of, repeated, usage_of, with_answer_fields
from app.server.errors import RequestError
from app.server.fields import Fields, is_token, read_guidance, read_n_choices, read_n_top, refuse
from app.server.format import Names, sse
from app.session.chat_settings import ChatSettings
from app.worker.request import AnswerRequest

_PROMPT_FORMS = "a string, an array of token ids, or an array of strings and such arrays"
_MOST_PROMPTS = 256


def read_completions(fields: Fields, settings: ChatSettings) -> list[AnswerRequest]:
    """Return the requests that continue each prompt `n` times."""
    n, prompts = read_n_choices(fields), read_prompts(fields)
    fields.whole("best_of", 1, n)
    if suffix := fields.text("suffix"):
        prompts = [Infill(text_of(prompt), suffix) for prompt in prompts]
    if fields.flag("echo") and fields.raw("logprobs") not in (None, False):
        raise RequestError("The probabilities of a prompt are not available.", "Leave out echo or logprobs.")
    asked = [plain_request(prompt, fields, settings, "max_tokens", "n_predict") for prompt in prompts]
    n_top = read_n_top(fields)
    return [one for request in asked for one in repeated(replace(request, n_top=n_top), n)]


def plain_request(prompt: PlainPrompt, fields: Fields, settings: ChatSettings, *lengths: str) -> AnswerRequest:
    """Return the request that continues a prompt."""
    request = AnswerRequest(messages=(), text=prompt, guidance=read_guidance(fields, None))
    return with_answer_fields(request, fields, settings, *lengths)


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
    if isinstance(value, dict):
        value = value.get("prompt_string")
    parts = value if isinstance(value, list) else [value]
    if is_token(value) or not all(isinstance(part, str) or is_token(part) for part in parts):
        refuse("prompt", value, _PROMPT_FORMS)
    return TextPrompt(tuple(parts))


def text_of(prompt: PlainPrompt | None) -> str:
    """Return the text of a prompt. Raises RequestError for token ids, whose text the server does not know."""
    parts = prompt.parts if isinstance(prompt, TextPrompt) else (prompt.prefix if prompt is not None else "",)
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        refuse("prompt", list(parts), "text here")
    return "".join(texts)


class TextFormat(CompletionFormat):
    """Write an answer as a text completion."""

    kind = "text_completion"

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        super().__init__(names, fields, index, asked)
        self._echo = text_of(asked.text) if fields.flag("echo") else ""
        self._at = len(self._echo)

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        return [sse(self._value(self._echo, None, []))] if self._echo else []

    def progress(self, prompt: PrefillProgress) -> list[str]:
        value = {**self._value("", None, []), "prompt_progress": as_progress(prompt)}
        return [sse(value)] if self._fields.flag("return_progress") else []

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, _, probabilities):
                if not (text or probabilities):
                    return []
                return [sse({**self._value(text, None, list(probabilities)), **self._of_step(part)})]
            case End():
                return [sse({**self._value("", part.reason, []), **self._numbers(part)})]
            case CallPart():
                return []

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
