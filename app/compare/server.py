"""A running server as a side: llama-server, or one that speaks OpenAI's chat interface with its `timings`.

The server measures its own time, so the network does not count, and it is asked not to reuse a cached prompt. It
applies its own chat template; the user vouches for it running the same model.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from typing import Any

from app.compare.race import Contender, Run, cancelled_run
from app.conversations.message import Message
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.engine.interfaces import Cancelled
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from app.worker.events import Event
from app.worker.request import AnswerRequest

_TIMEOUT_S = 900.0
"""Longest wait for one answer."""
_INFO_S = 10.0
_MAX_BYTES = 16 << 20
_SHOWN = 200
_CHAT = "v1/chat/completions"
_HINT = "The server must have llama-server's API."
_KEY_HINT = "--api-key-env names the environment variable that holds the server's key."
_LOCAL = ("localhost", "127.0.0.1", "::1")


class Server:
    """A server to send prompts to.

    Args:
        url: Its address, with or without "/v1".
        timeout_s: Longest wait for one answer.
        key: Bearer token; "" for none.

    Raises:
        UsageError: The address or the key is invalid.
    """

    def __init__(self, url: str, timeout_s: float = _TIMEOUT_S, key: str = "") -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
            raise UsageError(f"{printable(url)} is not a server URL.", "For example: http://127.0.0.1:8080")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UsageError("The API key has characters that a header cannot contain.", "Remove quotes and spaces.")
        self.url = url.rstrip("/").removesuffix("/v1")
        self._timeout_s = timeout_s
        self._key = key
        # A proxy of the environment cannot reach this machine's own servers.
        handlers = [urllib.request.ProxyHandler({})] if parts.hostname in _LOCAL else []
        self._opener = urllib.request.build_opener(*handlers)

    def introduce(self) -> dict[str, str]:
        """Check that the server answers with timings; return its model and build as far as it tells them.

        Of the model's path only the file name is returned, since results are shared.

        Raises:
            AppError: It cannot take part.
        """
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "stream": False}
        read_reply("", self.url, self._fetch(_CHAT, body, self._timeout_s))
        try:
            props = self._fetch("props", None, _INFO_S)
        except AppError:
            return {}
        names = ("model_path", "build_info")
        return {name: _file_name(props[name])[:_SHOWN] for name in names if isinstance(props.get(name), str)}

    def chat(self, request: AnswerRequest) -> dict[str, Any]:
        """Return one answer as the server gives it. Raises AppError."""
        return self._fetch(_CHAT, body_of(request), self._timeout_s)

    def _fetch(self, path: str, body: dict[str, Any] | None, timeout_s: float) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}/{path}", data, {"Content-Type": "application/json"})
        if self._key:
            # Redirects to other servers go without the key.
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        try:
            with self._opener.open(request, timeout=timeout_s) as reply:
                raw = reply.read(_MAX_BYTES)
            found = json.loads(raw)
        except urllib.error.HTTPError as error:
            with error:
                text = printable(error.read(_SHOWN).decode("utf-8", errors="replace")).strip() or error.reason
            hint = _KEY_HINT if error.code in (401, 403) else _HINT
            raise AppError(f"{self.url}/{path} answers {error.code}: {text}.", hint) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                text = f"{self.url} did not answer within {timeout_s:g} seconds."
                raise AppError(text, "Use a lower --max-tokens.") from error
            reason = getattr(reason, "strerror", None) or reason
            raise AppError(f"{self.url} cannot be reached: {reason}.", "Is the server running?") from error
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise AppError(f"{self.url}/{path} does not answer with a JSON object.", _HINT)
        return found


def contender(server: Server, name: str = "server") -> Contender:
    """Return the server as a side of a race."""

    def run(request: AnswerRequest, cancelled: Cancelled) -> Generator[Event, None, Run]:
        yield from ()
        reply = server.chat(request)
        return cancelled_run(name) if cancelled() else read_reply(name, server.url, reply)

    return Contender(name, run)


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def body_of(request: AnswerRequest) -> dict[str, Any]:
    """Return the request in OpenAI's terms, and llama-server's for the rest."""
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
    }
    # Only what was asked for: a server without templates may refuse the field.
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
    fields = {"role": message.role.value, "content": message.content}
    return {**fields, "reasoning_content": message.reasoning} if message.reasoning else fields


def read_reply(name: str, url: str, reply: dict[str, Any]) -> Run:
    """Return a run from a chat completion with `timings`. Raises AppError for anything else."""
    try:
        choice, timings = reply["choices"][0], reply["timings"]
        text, reasoning = ((choice["message"].get(key) or "").strip() for key in ("content", "reasoning_content"))
        prompt_ns = _ns(timings["prompt_ms"])
        stats = GenerationStats(
            cache_n=_count(timings.get("cache_n", 0)),
            prompt_n=_count(timings["prompt_n"]),
            predicted_n=_count(timings["predicted_n"]),
            draft_n=_count(timings.get("draft_n", 0)),
            draft_n_accepted=_count(timings.get("draft_n_accepted", 0)),
            prompt_ns=prompt_ns,
            # As here, the first token belongs to the prompt.
            first_token_ns=prompt_ns,
            predicted_ns=_ns(timings["predicted_ms"]),
        )
        reason = FinishReason.LENGTH if choice.get("finish_reason") == "length" else FinishReason.STOP
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise AppError(f"{url} sends no timings.", "llama-server does; others may not.") from error
    notices = ("the server reused a cached prompt",) if stats.cache_n > 1 else ()
    drafter = "its own" if stats.draft_n else "none"
    return Run(name, (), (), text, reason, stats, notices=notices, drafter=drafter, reasoning=reasoning)


def _ns(milliseconds: Any) -> int:
    found = float(milliseconds)
    if not math.isfinite(found) or found < 0:
        raise ValueError
    return round(found * 1e6)


def _count(number: Any) -> int:
    found = int(number)
    if found < 0:
        raise ValueError
    return found
