"""OpenAI's completions API: continue a text without a chat template."""

from __future__ import annotations

from typing import Any

from app.server.answer import Answer, Calls, Delta, End, Part
from app.server.chat import CompletionFormat, log_of, with_answer_fields
from app.server.fields import Fields, read_guidance, refuse
from app.server.format import sse
from app.session.chat_settings import ChatSettings
from app.worker.events import TokenProbability
from app.worker.request import AnswerRequest


def read_completion(fields: Fields, settings: ChatSettings) -> tuple[AnswerRequest, tuple[str, ...]]:
    """Return the request that continues a text, and no tools."""
    fields.whole("n", 1, 1)
    prompts = fields.texts("prompt")
    if len(prompts) != 1:
        refuse("prompt", fields.raw("prompt"), "one string")
    request = AnswerRequest(
        messages=(),
        text=prompts[0],
        drafting=settings.drafting,
        stop_on_repeat=settings.stop_on_repeat,
        guidance=read_guidance(fields, None),
    )
    return with_answer_fields(request, fields, settings, "max_tokens", "n_predict"), ()


class TextFormat(CompletionFormat):
    """Write an answer as a text completion."""

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, _, probabilities):
                return [sse(self._value(text, None, list(probabilities)))]
            case End():
                last = sse({**self._value("", part.reason, []), **self._numbers(part)})
                return self._ended(last, "text_completion", part)
            case Calls():
                return []

    def whole(self, answer: Answer) -> dict[str, Any]:
        value = self._value(answer.text, answer.end.reason, answer.probabilities)
        return {**value, "usage": answer.end.usage, **self._numbers(answer.end)}

    def _value(self, text: str, reason: str | None, probabilities: list[TokenProbability]) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": _logprobs(probabilities)}
        return {**self._head("text_completion"), "choices": [choice]}


def _logprobs(probabilities: list[TokenProbability]) -> dict[str, Any] | None:
    if not probabilities:
        return None
    return {
        "tokens": [one.piece.decode(errors="replace") for one in probabilities],
        "token_logprobs": [log_of(one.probability) for one in probabilities],
        "top_logprobs": [{piece.decode(errors="replace"): log_of(p) for piece, p in one.top} for one in probabilities],
    }
