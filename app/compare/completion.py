"""What is asked of a server and what it answers: OpenAI's chat completions with llama-server's `timings`."""

from __future__ import annotations

import math
from typing import Any

from app.compare.race import Run
from app.conversations.message import Message
from app.core.errors import AppError
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from app.worker.request import AnswerRequest


def body_of(request: AnswerRequest) -> dict[str, Any]:
    """The request in OpenAI's words and, beyond those, in llama-server's."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "messages": [_message(message) for message in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "stream": False,
        "cache_prompt": False,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "typical_p": sampling.typical_p,
        "repeat_penalty": sampling.repeat_penalty,
        "repeat_last_n": sampling.repeat_last_n,
        "timings_per_token": False,
    }
    # Only what was asked for: a server without templates of its own may refuse the word.
    thinking = request.thinking
    if thinking.wanted is not None:
        body["chat_template_kwargs"] = {"enable_thinking": thinking.wanted}
    if thinking.effort is not None and thinking.wanted is not False:
        body.setdefault("chat_template_kwargs", {})["reasoning_effort"] = thinking.effort
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    if request.stops:
        body["stop"] = list(request.stops)
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    return body


def _message(message: Message) -> dict[str, str]:
    told = {"role": message.role.value, "content": message.content}
    return {**told, "reasoning_content": message.reasoning} if message.reasoning else told


def read_reply(name: str, url: str, reply: dict[str, Any]) -> Run:
    """A run from a chat completion with `timings`.

    Raises:
        AppError: It is none, or has no timings.
    """
    try:
        choice = reply["choices"][0]
        text, reasoning = ((choice["message"].get(name) or "").strip() for name in ("content", "reasoning_content"))
        timings = reply["timings"]
        stats = _stats(timings)
        reason = FinishReason.LENGTH if choice.get("finish_reason") == "length" else FinishReason.STOP
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise AppError(
            f"{url} answers without the timings that are compared.", "llama-server gives them; others may not."
        ) from error
    notices = ("the server reused a cached prompt",) if stats.cache_n > 1 else ()
    return Run(name, (), (), text, reason, stats, notices=notices, drafter=_drafter(stats), reasoning=reasoning)


def _stats(timings: dict[str, Any]) -> GenerationStats:
    """llama-server's names; it counts the first token to the prompt, as we do."""
    prompt_ns, predicted_ns = _ns(timings["prompt_ms"]), _ns(timings["predicted_ms"])
    return GenerationStats(
        cache_n=_count(timings.get("cache_n", 0)),
        prompt_n=_count(timings["prompt_n"]),
        predicted_n=_count(timings["predicted_n"]),
        draft_n=_count(timings.get("draft_n", 0)),
        draft_n_accepted=_count(timings.get("draft_n_accepted", 0)),
        prompt_ns=prompt_ns,
        first_token_ns=prompt_ns,
        predicted_ns=predicted_ns,
    )


def _ns(value: Any) -> int:
    milliseconds = float(value)
    if not math.isfinite(milliseconds) or milliseconds < 0:
        raise ValueError("no time")
    return round(milliseconds * 1e6)


def _count(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError("no count")
    return number


def _drafter(stats: GenerationStats) -> str:
    return "its own" if stats.draft_n else "none"
