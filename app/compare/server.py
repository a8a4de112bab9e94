"""A running server as a contender: llama-server, or anyone who speaks OpenAI's chat interface with its `timings`.

The server counts its own time, so nothing of the network is in the figures, and it is asked not to reuse a cached
prompt, as our own side does not either. It applies its own chat template and knows its own files: that both sides run
the same model is the user's word. A server that keeps n-grams finds its own answer in later rounds.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import math
import queue
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from contextlib import suppress
from typing import Any

from app.compare.race import Contender, Run
from app.conversations.message import Message
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.engine.interfaces import Cancelled
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from app.worker.events import Event
from app.worker.request import AnswerRequest

TIMEOUT_S = 900.0
"""Longest wait for one answer."""
_ASK_S = 10.0
_POLL_S = 0.1
_MOST_BYTES = 16 << 20
_SHOWN = 200
_CHAT = "v1/chat/completions"
_IN_PATHS = "/%:@!$&'()*+,;=~"
"""What stands in the path of an address as it is, besides letters and digits."""


class Server:
    """A server's address, and how it is asked.

    Args:
        url: Where it is, with or without "/v1".
        timeout_s: Longest wait for one answer.
        key: Sent as a bearer token where the server wants one; "" sends none.

    Raises:
        UsageError: This is no address of a server, or the key cannot stand in a header.
    """

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S, key: str = "") -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            host, _ = parts.hostname, parts.port
            # As it would be looked up: a name with a dot too many has a part of nothing.
            (host or "").encode("idna")
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https") or any(c.isspace() or c < " " for c in url):
            raise UsageError(f"{printable(url)} is not a server URL.", "For example: http://127.0.0.1:8080")
        path = urllib.parse.quote(parts.path.rstrip("/"), safe=_IN_PATHS)
        base = urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self.url = base.removesuffix("/v1")
        self._timeout_s = timeout_s
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UsageError("The API key has characters that a header cannot contain.", "Remove quotes and spaces.")
        self._key = key
        # A proxy of the environment knows nothing of a server on this machine.
        handlers = [urllib.request.ProxyHandler({})] if _is_local(host) else []
        self._opener = urllib.request.build_opener(*handlers)

    def describe(self) -> dict[str, Any]:
        """Return what it says about itself: model and build; empty where it does not.

        Of the model's path only the file's name, once: what is measured here is made to be shared, folders are not.

        Raises:
            AppError: No one answers there.
        """
        try:
            told = self._fetch("props", None, _ASK_S)
        except _RefusedError:
            return {}
        names = ("model_alias", "model_path", "build_info")
        found = {name: _file_name(told[name])[:_SHOWN] for name in names if isinstance(told.get(name), str)}
        if found.get("model_alias") == found.get("model_path"):
            found.pop("model_alias", None)
        return found

    def introduce(self) -> dict[str, Any]:
        """The same, once it has been asked for a token and has told its timings.

        Raises:
            AppError: It cannot take part.
        """
        told = self.describe()
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "stream": False}
        read_reply("", self.url, self._fetch(_CHAT, body, self._timeout_s))
        return told

    def chat(self, request: AnswerRequest, cancelled: Cancelled) -> dict[str, Any] | None:
        """One answer as the server gives it; None after a stop.

        Raises:
            AppError: It cannot be reached, refuses, is too slow, or answers something else.
        """
        replies: queue.SimpleQueue[dict[str, Any] | AppError] = queue.SimpleQueue()

        def fetch() -> None:
            try:
                replies.put(self._fetch(_CHAT, body_of(request), self._timeout_s))
            except AppError as error:
                replies.put(error)

        # Waiting in a thread of its own lets Ctrl+C through and costs the server nothing, unlike reading a stream.
        threading.Thread(target=fetch, daemon=True, name="tandem-server").start()
        while not cancelled():
            try:
                reply = replies.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if isinstance(reply, AppError):
                raise reply
            return reply
        return None

    def _fetch(self, path: str, body: dict[str, Any] | None, timeout_s: float) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}/{path}", data, {"Content-Type": "application/json"})
        if self._key:
            # Where the server sends us on to, the key is not for.
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        try:
            with self._opener.open(request, timeout=timeout_s) as reply:
                raw = reply.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            said = _said(error)
            text = f"{self.url}/{path} answers {error.code}: {said or error.reason}."
            if error.code in _KEY_WANTED:
                raise AppError(text, _KEY_HINT) from error
            raise _RefusedError(text, _HINT) from error
        except TimeoutError as error:
            raise self._too_slow(timeout_s) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self._too_slow(timeout_s) from error
            reason = getattr(error.reason, "strerror", None) or error.reason
            raise AppError(f"{self.url} cannot be reached: {reason}.", "Is the server running?") from error
        except UnicodeError as error:
            raise _RefusedError(f"{self.url}/{path} sends us on to what is no address.", _HINT) from error
        except (OSError, http.client.HTTPException) as error:
            raise AppError(f"{self.url} ended its answer early: {error!r}.", "See the server's log.") from error
        try:
            told = json.loads(raw) if len(raw) <= _MOST_BYTES else None
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise _RefusedError(f"{self.url}/{path} does not answer with a JSON object.", _HINT)
        return told

    def _too_slow(self, timeout_s: float) -> AppError:
        return AppError(f"{self.url} did not answer within {timeout_s:g} seconds.", "Use a lower --max-tokens.")


def _said(error: urllib.error.HTTPError) -> str:
    """The beginning of what came with an error of HTTP."""
    with error, suppress(OSError, http.client.HTTPException):
        return printable(error.read(_SHOWN).decode("utf-8", errors="replace")).strip()
    return ""


class _RefusedError(AppError):
    """The server answered with an error of HTTP, or with no JSON."""


_HINT = "The server must have llama-server's API."
_KEY_WANTED = (401, 403)
_KEY_HINT = "--api-key-env names the environment variable that holds the server's key."


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def contender(server: Server, name: str = "server") -> Contender:
    """The server as somebody who takes part in a race."""

    def run(request: AnswerRequest, cancelled: Cancelled) -> Generator[Event, None, Run]:
        yield from ()
        reply = server.chat(request, cancelled)
        if reply is None:
            return Run(name, (), (), "", FinishReason.CANCELLED, GenerationStats())
        return read_reply(name, server.url, reply)

    return Contender(name, run)


def _file_name(text: str) -> str:
    """The last part of a path, of whichever system."""
    return re.split(r"[/\\]", text.rstrip("/\\"))[-1]


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
        raise AppError(f"{url} sends no timings.", "llama-server does; others may not.") from error
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
