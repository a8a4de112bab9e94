"""Find a running `tandem serve` of the same pair, and let it answer, so that nothing is loaded twice."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from app.cli.output import AnswerPrinter, status
from app.cli.report import as_json, ignored_flags, summary
from app.cli.setting_flags import PAIR_TABLES, Given, read_flags
from app.cli.streams import cancel_on_interrupt
from app.conversations.message import Message, pictures_in
from app.core import atomic
from app.core.errors import INTERRUPTED, AppError, UsageError
from app.core.paths import server_file
from app.core.pictures import MARK
from app.core.units import counted
from app.engine.text.segments import Segment
from app.models.catalog import Pair
from app.settings.checking import document
from app.settings.layers import Resolved, ThinkingSupport
from app.settings.table import BY_NAME, SETTINGS
from app.worker.events import Finished
from app.worker.known_pairs import ProcessOptions
from app.worker.pair_loader import PairLoader
from app.worker.request import AnswerRequest

if TYPE_CHECKING:
    from app.server.engine_queue import Metrics

_STATE_FORMAT = 2
_CONNECT_S = 1.0
_OF_ANSWERS = tuple(setting.name for setting in SETTINGS if setting.table in ("sampling", "answer"))


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server: its chat completions URL, its models as returned by `models_of`, and its API key, if any."""

    url: str
    target: str
    draft: str
    key: str = ""


def models_of(pair: Pair) -> tuple[str, str]:
    """Return names that identify the models of a pair."""
    return str(pair.target), str(pair.draft or "")


@contextmanager
def announced(server: RunningServer) -> Iterator[None]:
    """Let other commands of this user find the server until the block ends."""
    file = server_file()
    # A full disk costs only this convenience.
    with suppress(OSError):
        atomic.write_json(file, {"format": _STATE_FORMAT, "process": os.getpid(), **asdict(server)})
    try:
        yield
    finally:
        if _read() == server:
            # Windows refuses while another command reads it.
            with suppress(OSError):
                file.unlink(missing_ok=True)


def _read() -> RunningServer | None:
    return atomic.read_json(
        server_file(),
        _STATE_FORMAT,
        lambda raw: RunningServer(*(str(raw[name]) for name in RunningServer.__dataclass_fields__)),
    )


def port_announced_by(process: int) -> int | None:
    """Return the port of the server that was announced last, if this process announced it."""
    return atomic.read_json(
        server_file(), _STATE_FORMAT, lambda raw: urlsplit(raw["url"]).port if raw.get("process") == process else None
    )


def server_for(loader: PairLoader, given: Given) -> RunningServer | None:
    """Return a running server that would answer like this command, if any; it has loaded its own pair."""
    loads_otherwise = any(BY_NAME[name].table in PAIR_TABLES for name in read_flags(given))
    if loads_otherwise or loader.process != ProcessOptions():
        return None
    server = _read()
    return server if server is not None and (server.target, server.draft) == models_of(loader.pair) else None


class ServerAnswer:
    """Prints an answer of a running server as `tandem run` prints its own answers."""

    def __init__(self, server: RunningServer, settings: Resolved, prefill: str = "", *, as_json: bool) -> None:
        self._server = server
        self._settings = settings
        self._printer = AnswerPrinter(sys.stdout, sys.stderr, prefill, as_json=as_json)
        self._n_tokens = 0

    def print(self, request: AnswerRequest) -> int | None:
        """Return the exit code; None if the server is gone.

        Raises:
            AppError: The server refuses the request, or ended before the answer did.
        """
        url = urlsplit(self._server.url)
        connection = HTTPConnection(url.hostname or "", url.port, timeout=_CONNECT_S)
        try:
            connection.connect()
        except OSError:
            return None
        # The connection drops its socket when the response closes it.
        sock, stopped = connection.sock, False

        def stop() -> None:
            nonlocal stopped
            stopped = True
            # The interrupted read still uses the connection, so it must stay open.
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

        with cancel_on_interrupt(stop):
            try:
                # A long prompt takes minutes; meanwhile the server sends comments.
                sock.settimeout(None)
                status.show("Waiting for the server")
                headers = {"Authorization": f"Bearer {self._server.key}"} if self._server.key else {}
                connection.request("POST", url.path, json.dumps(self._body(request)), headers)
                return self._follow(connection.getresponse())
            except (OSError, HTTPException, ValueError) as error:
                status.clear()
                if stopped:
                    self._printer.end()
                    status.say(f"{counted(self._n_tokens, 'token')}; stopped")
                    return INTERRUPTED
                raise AppError(
                    f"The server ended before the answer did: {error}.", "Start it again: tandem serve"
                ) from error
            finally:
                connection.close()

    def _body(self, request: AnswerRequest) -> dict[str, Any]:
        messages = [{"role": each.role.value, "content": _content(each)} for each in request.messages]
        if request.prefill is not None:
            messages.append({"role": "assistant", "content": request.prefill.text})
        guidance = {"grammar": request.guidance.grammar, "json_schema": request.guidance.schema}
        shown = dict.fromkeys(("stream", "return_progress", "timings_per_token", "tandem"), True)
        settings = document({name: self._settings[name] for name in _OF_ANSWERS})
        return {"messages": messages, "settings": settings, **guidance, **shown}

    def _follow(self, response: HTTPResponse) -> int:
        if response.status != 200:
            raise _error(json.loads(response.read())["error"])
        waits = True
        for line in response:
            name, _, data = line.decode().strip().partition(": ")
            if waits and data == "keep-alive":
                waits = False
                status.say("Waiting for the server's current answer.")
            if name != "data":
                continue
            if data == "[DONE]":
                return 0
            chunk = json.loads(data)
            if "error" in chunk:
                self._printer.break_line()
                raise _error(chunk["error"])
            waits = waits and "prompt_progress" not in chunk
            self._show(chunk)
        raise HTTPException("no end of the stream")

    def _show(self, chunk: dict[str, Any]) -> None:
        self._n_tokens = chunk.get("timings", {}).get("predicted_n", self._n_tokens)
        for choice in chunk["choices"]:
            for key in ("reasoning_content", "content"):
                text = choice["delta"].get(key)
                if text:
                    self._printer.print([Segment(text, reasoning=key == "reasoning_content")])
        if (report := chunk.get("tandem")) is not None:
            notices = ignored_flags(ThinkingSupport(**report["thinking_support"]), self._settings)
            self._printer.finish({**report["answer"], "notices": notices}, str(report["summary"]))
            for text in notices:
                status.say(text)


def report_for_run(metrics: Metrics, event: Finished) -> dict[str, Any]:
    """Return what `tandem run` prints about an answer, as the server sends it."""
    pair = metrics.pair
    report = {"summary": summary(event, pair), "answer": as_json(event, pair, [])}
    return {**report, "thinking_support": asdict(pair.thinking_support)}


def _error(error: dict[str, Any]) -> AppError:
    is_usage = error["type"] == "invalid_request_error" and error["code"] is None
    return (UsageError if is_usage else AppError)(str(error["message"]))


def _content(message: Message) -> str | list[dict[str, Any]]:
    first, *rest = message.content.split(MARK)
    if not rest:
        return first
    parts: list[dict[str, Any]] = [{"type": "text", "text": first}] if first else []
    for picture, part in zip(pictures_in([message]), rest, strict=False):
        parts.append({"type": "image_url", "image_url": {"url": picture.data_url}})
        parts += [{"type": "text", "text": part}] if part else []
    return parts
