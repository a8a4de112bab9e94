"""`tandem` without a command: the full-screen chat."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from app.cli.options import choose_pair, is_chosen, read_process
from app.cli.setting_flags import Given, read_flags
from app.core.errors import AppError, PairError, UsageError
from app.core.log import guarded_stderr
from app.core.paths import allowed_tools_file, conversations_file, log_file, mcp_file
from app.core.printable import printable
from app.models.catalog import Pair
from app.session.permissions import Permissions
from app.session.tool_use import ToolUse
from app.settings.layers import Resolved
from app.settings.mcp_file import read_servers
from app.ui.models.opener import Opener
from app.worker.engine_worker import Engine
from app.worker.events import Event, Loaded
from app.worker.known_pairs import KnownPair, known_pairs, pair_by_name, registry
from app.worker.pair_loader import make_engine
from app.worker.tool_servers import ToolServers

if TYPE_CHECKING:
    from app.conversations.store import Store
    from app.models.pair_info import PairInfo
    from app.server.app import HttpServer

_CLOSE_S = 5.0
"""Limit for storing the conversation and freeing the models; a native call may never return."""


def chat(*, continues: bool = False, **given: Any) -> int:
    """Open the full-screen chat."""
    known, first_run = first_pair(given)
    settings = known.live_settings(read_flags(given))
    process = read_process(given)
    # A pair that the command line names stays open.
    opener = Opener(settings, known, process, is_asked_for=not first_run, is_fixed=is_chosen(given))
    first = opener.again()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The chat needs a terminal, and this is not one.",
            'For one answer in a pipe: tandem run "Why is the sky blue?"',
        )
    # The app enables it again after the first frame.
    gc.disable()
    from app.session.session import Session
    from app.ui.app import TandemApp
    from app.ui.event_queue import EventQueue
    from app.ui.models.service import PairService
    from app.ui.terminal.driver import install_driver

    def store() -> Store:
        from app.conversations.store import Store

        return Store(conversations_file())

    events = EventQueue()
    server = SharedServer(lambda: engine, lambda: opener.current)
    engine = make_engine(process, events, server)
    host = ToolServers(events)
    tools = ToolUse(host, lambda: read_servers(mcp_file()), Permissions(allowed_tools_file()))
    session = Session(engine, first.title, opener.live, tools, store, None if first_run else first.loader)
    pairs = PairService(opener, session)
    app = TandemApp(session, events, opener, pairs, serve=server.toggle, continues=continues)
    install_driver()
    try:
        with guarded_stderr(log_file(), 2 if os.isatty(2) else 1):
            app.run()
    finally:
        code = app.return_code or 0
        problems = []
        if app.failure is not None:
            code = code or AppError.exit_code
            what, _, saved = app.failure.partition("\n")
            problems = [what, f"{saved} The log has the details: {log_file()}".strip()]
        if (unwritten := session.library.unwritten) is not None:
            code = code or unwritten.exit_code
            problems.append(unwritten.sentences)
        # The terminal may be gone.
        with suppress(OSError):
            for problem in problems:
                print(f"tandem: {' '.join(printable(problem).split())}", file=sys.stderr)
        server.close()
        host.close()
        ended = [engine.close(_CLOSE_S), pairs.close(_CLOSE_S)]
        if not all(ended):
            # Interpreter shutdown would free the models under a running call, and wait for a stalled download.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return code


def first_pair(given: Given) -> tuple[KnownPair, bool]:
    """Return the pair to open, and whether the user chooses one first."""
    if is_chosen(given):
        return choose_pair(given), False
    here = registry().read()
    # The list of pairs reports missing files.
    with suppress(PairError):
        if here.default is not None:
            return pair_by_name(), False
    return KnownPair(known_pairs()[0], None), True


class SharedServer:
    """Serves the pair of a running chat; HTTP requests and chat prompts share the engine's queue.

    Args:
        pair: Returns the open pair, so that `tandem run` finds the server.
    """

    def __init__(self, engine: Callable[[], Engine], pair: Callable[[], Pair | None]) -> None:
        self._engine = engine
        self._pair = pair
        self._url = ""
        self._announced = ExitStack()
        self._lock = threading.Lock()
        """Guards the announcement, which the engine's thread renews."""
        self._receive: Callable[[Event], None] | None = None
        self._server: HttpServer | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Loaded):
            self._announce()
        if (receive := self._receive) is not None:
            receive(event)

    def toggle(self, pair: PairInfo, settings: Resolved) -> tuple[str, str | None]:
        """Start or stop the server; return a sentence about it, and its address if it serves.

        Raises:
            UsageError: Its port cannot be used.
        """
        if self._server is not None:
            self.close()
            return "The server has stopped.", None
        from app.cli.running_server import report_for_run
        from app.server.app import DEFAULT_HOST, DEFAULT_PORT, HttpServer, address_of, bound_socket
        from app.server.engine_queue import EngineQueue
        from app.server.service import Access, Service

        listener = bound_socket(DEFAULT_HOST, DEFAULT_PORT)
        listener.listen()
        requests = EngineQueue(self._attach)
        requests.metrics.pair = pair
        access = Access(DEFAULT_HOST, os.environ.get("TANDEM_API_KEY", ""))
        report = partial(report_for_run, requests.metrics)
        self._server = HttpServer(Service(requests, settings, pair.target.name, access, report=report), listener)
        self._thread = threading.Thread(target=asyncio.run, args=[self._server.answer()], name="server", daemon=True)
        self._thread.start()
        address = address_of(DEFAULT_HOST, listener)
        self._url = f"{address}/v1/chat/completions"
        self._announce()
        return f"Serving at {address}/v1; /serve stops it.", address

    def _attach(self, receive: Callable[[Event], None]) -> Engine:
        self._receive = receive
        return self._engine()

    def _announce(self) -> None:
        """Announce the server under the open pair, so that `tandem run` finds it."""
        from app.cli.running_server import RunningServer, announced, models_of

        with self._lock:
            self._announced.close()
            if self._server is not None and (pair := self._pair()) is not None:
                server = RunningServer(self._url, *models_of(pair), os.environ.get("TANDEM_API_KEY", ""))
                self._announced.enter_context(announced(server))

    def close(self) -> None:
        """Stop the server and its requests."""
        with self._lock:
            self._announced.close()
            server, thread, self._server = self._server, self._thread, None
        if server is not None and thread is not None:
            server.stop()
            thread.join()
