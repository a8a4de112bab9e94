"""`tandem serve`: the pair behind the APIs of OpenAI and Anthropic."""

import asyncio
import os
import queue
import shutil
import sys
import textwrap
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from app.cli.options import read_pair
from app.cli.output import LOADING, status
from app.cli.running_server import RunningServer, announced, models_of, report_for_run
from app.cli.setting_flags import in_flags
from app.cli.streams import cancel_on_interrupt
from app.core.errors import StoppedError
from app.core.log import guarded_stderr
from app.core.paths import log_file
from app.core.printable import printable
from app.engine.drafting_report import acceptance, rate
from app.models.pair_info import PairInfo
from app.server.app import DEFAULT_HOST, DEFAULT_PORT, HttpServer, address_of, bound_socket
from app.server.engine_queue import EngineQueue, Metrics
from app.server.service import Access, Service
from app.settings.layers import drafting
from app.worker.events import Event, Failed, Loaded, LoadProgress, Notice
from app.worker.jobs import MeasureJob
from app.worker.known_pairs import FILES
from app.worker.pair_loader import PairLoader, make_engine, received

_PREFERRED_CTX = 32_768
"""Context in tokens; agents send long prompts."""
_REDRAW_S = 0.5
_MAX_LISTED = 8
_INDENT_SPACES = " " * 10
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def serve(
    host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, api_key: str = "", cors: Sequence[str] = (), **given: Any
) -> int:
    """Load a pair and answer requests until Ctrl+C."""
    loader = replace(read_pair(given), preferred_ctx=_PREFERRED_CTX)
    access = Access(host, api_key or os.environ.get("TANDEM_API_KEY", ""), tuple(cors))
    listener = bound_socket(host, port)
    with listener, guarded_stderr(log_file()):
        idle = MeasureJob(drafting(loader.settings))
        requests = EngineQueue(lambda emit: make_engine(loader.process, emit), idle)
        try:
            pair = _load(requests, loader)
            # A client may connect as soon as the address is shown.
            listener.listen()
            address = address_of(host, listener)
            view = LiveView(requests.metrics, f"{address}/v1")
            if host not in _LOOPBACK_HOSTS and not access.key:
                view.say("Anyone on this network can use the server. Set a key: --api-key KEY, or TANDEM_API_KEY.")
            report = partial(report_for_run, requests.metrics)
            name = loader.pair.name if loader.pair.name != FILES else pair.target.name
            requests.listen(view.receive)
            service = Service(requests, loader.settings, name, access, view.on_end, report)
            running = RunningServer(f"{address}/v1/chat/completions", *models_of(loader.pair), access.key)
            with announced(running):
                asyncio.run(view.show(HttpServer(service, listener)))
        finally:
            status.clear()
            requests.engine.close()
    return 0


def _load(requests: EngineQueue, loader: PairLoader) -> PairInfo:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    requests.listen(events.put)
    status.show(LOADING)
    with cancel_on_interrupt(requests.engine.cancel):
        requests.engine.load(loader)
        while True:
            match received(events):
                case LoadProgress(share=share):
                    status.show(f"{LOADING} {share:4.0%}")
                case Notice(text):
                    status.say(text)
                case Loaded(pair):
                    status.clear()
                    return pair
                case Failed(error=error):
                    status.clear()
                    raise error


class LiveView:
    """Shows the server's state on a terminal, or logs a line per request elsewhere."""

    def __init__(self, metrics: Metrics, address: str) -> None:
        self._metrics = metrics
        self._is_live = status.is_live
        self._recent: deque[str] = deque(maxlen=_MAX_LISTED)
        self._address = address
        self._drawn: list[str] = []
        if not self._is_live:
            for line in self._head():
                self.say(line)

    def say(self, text: str) -> None:
        """Print a line above the view."""
        _write(f"{self._erase()}{printable(text)}\n")

    def receive(self, event: Event) -> None:
        """Write what happened to the models; the view has a line for the last error, and a log has none."""
        match event:
            case Notice(text):
                self.say(in_flags(text))
            case Failed(error=error) if not (self._is_live or isinstance(error, StoppedError)):
                self.say(in_flags(error.sentences))

    def on_end(self, method: str, path: str, code: int) -> None:
        """Record a request whose response was sent or whose stream began."""
        line = f"{time.strftime('%H:%M:%S')} {method} {path} {code}"
        if self._is_live:
            self._recent.append(line)
        else:
            self.say(line)

    async def show(self, server: HttpServer) -> None:
        """Serve until Ctrl+C, and redraw the view when it changes."""
        drawing = asyncio.create_task(self._keep_drawn())
        try:
            with cancel_on_interrupt(server.stop):
                await server.answer()
        finally:
            drawing.cancel()
            self._draw()

    async def _keep_drawn(self) -> None:
        while self._is_live:
            self._draw()
            await asyncio.sleep(_REDRAW_S)

    def _head(self) -> list[str]:
        pair = self._metrics.pair
        return [
            f"Serving {self._address}",
            f"target    {pair.target.name}, context {pair.n_ctx:,}",
            f"draft     {pair.draft.name if pair.draft is not None else 'none'}",
        ]

    def lines(self) -> list[str]:
        """Return the view."""
        m, total = self._metrics, self._metrics.total
        speed = [rate(m.tokens_per_second)] if m.tokens_per_second is not None else []
        gain = m.current.speedup if m.current is not None else None
        speed += [str(gain)] if gain is not None else []
        speed += [f"acceptance {acceptance(total.draft_n_accepted, total.draft_n)}"] if total.draft_n else []
        state = f"{m.n_running} running, {m.n_waiting} waiting, {m.n_answered} answered"
        n_prompt = total.prompt_n + total.cache_n
        tokens = f"{n_prompt:,} prompt ({total.cache_n:,} cached), {total.predicted_n:,} generated"
        return [
            *self._head(),
            f"requests  {state}{f', {m.n_failed} failed' if m.n_failed else ''}",
            f"speed     {' · '.join(speed) or 'no answer yet'}",
            f"tokens    {tokens}",
            *([f"error     {in_flags(m.last_error)}"] if m.last_error else []),
            *self._recent,
            "ctrl+c stops the server",
        ]

    def _draw(self) -> None:
        width, height = shutil.get_terminal_size()
        wrapped = [textwrap.wrap(printable(line), width - 1, subsequent_indent=_INDENT_SPACES) for line in self.lines()]
        lines = [line for part in wrapped for line in part][: height - 1]
        if self._is_live and lines != self._drawn:
            _write(self._erase() + "".join(f"{line}\n" for line in lines))
            self._drawn = lines

    def _erase(self) -> str:
        """Return the codes that erase the view."""
        n_drawn, self._drawn = len(self._drawn), []
        return f"\x1b[{n_drawn}A\r\x1b[J" if n_drawn else ""


def _write(text: str) -> None:
    # The server outlives the reader of its log, and its terminal.
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
