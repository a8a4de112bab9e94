"""`tandem` without a command: the full-screen chat."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.cli.options import choose_pair, is_chosen, read_process
from app.cli.setting_flags import Given, in_flags, read_flags
from app.cli.shared_server import SharedServer
from app.core.errors import AppError, PairError, UsageError
from app.core.log import guarded_stderr
from app.core.paths import allowed_tools_file, conversations_file, log_file, mcp_file
from app.core.printable import printable
from app.hardware.recommend import Capacity
from app.models.catalog import Pair
from app.models.model_names import known_as, quantization
from app.models.pair_summary import setup_command
from app.models.registry import ModelOnDisk, SetUp
from app.session.answering import Engine
from app.session.permissions import Permissions
from app.session.tool_use import ToolUse
from app.settings.live import LiveSettings
from app.settings.mcp_file import read_servers
from app.ui.models.state import FitOption, LoadRequest, Tuning
from app.worker.events import Event
from app.worker.known_pairs import (
    ProcessOptions,
    catalog,
    context_of,
    demo_file,
    is_here,
    known_pairs,
    of_entry,
    of_file,
    pair_by_name,
    pairs_here,
    registry,
    settings_of,
)
from app.worker.pair_loader import PairLoader, make_engine, pair_loader
from app.worker.tool_servers import ToolServers

if TYPE_CHECKING:
    from app.conversations.store import Store
    from app.hardware.offers import Offer
    from app.session.session import Session
    from app.ui.models.service import PairService

_CLOSE_S = 5.0
"""Limit for storing the conversation and freeing the models; a native call may never return."""


def chat(*, continues: bool = False, **given: Any) -> int:
    """Open the full-screen chat."""
    pair, files, first_run = first_pair(given)
    settings = settings_of(pair, files, read_flags(given))
    opener = Opener(settings, pair, files, read_process(given), is_asked_for=not first_run)
    first = opener.again()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The chat needs a terminal, and this is not one.",
            'For one answer in a pipe: tandem run "Why is the sky blue?"',
        )
    # The app enables it again after the first frame.
    gc.disable()
    from app.ui.app import TandemApp
    from app.ui.terminal.driver import install_driver

    def store() -> Store:
        from app.conversations.store import Store

        return Store(conversations_file())

    pairs = _pairs(opener, lambda: app.session)
    server = SharedServer(lambda: app.engine, lambda: opener.current)

    def engine(emit: Callable[[Event], None]) -> Engine:
        return make_engine(opener.process, emit, server)

    hosts: list[ToolServers] = []

    def tools(emit: Callable[[Event], None]) -> ToolUse:
        hosts.append(ToolServers(emit))
        return ToolUse(hosts[0], lambda: read_servers(mcp_file()), Permissions(allowed_tools_file()))

    tuning = Tuning(opener.live, opener.again, opener.option)
    # A pair named on the command line stays open; on a first run, the user chooses a pair.
    if not (first_run or is_chosen(given)):
        tuning = replace(tuning, written_by=opener.written_by)
    app = TandemApp(
        engine,
        first.loader,
        first.title,
        tuning,
        pairs,
        first_run=first_run,
        store=store,
        serve=server.toggle,
        continues=continues,
        tools=tools,
    )
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
        if (unwritten := app.session.library.unwritten) is not None:
            code = code or unwritten.exit_code
            problems.append(unwritten.sentences)
        # The terminal may be gone.
        with suppress(OSError):
            for problem in problems:
                print(f"tandem: {' '.join(printable(problem).split())}", file=sys.stderr)
        server.close()
        for host in hosts:
            host.close()
        ended = [app.engine.close(_CLOSE_S), pairs.close(_CLOSE_S)]
        if not all(ended):
            # Interpreter shutdown would free the models under a running call, and wait for a stalled download.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return code


def first_pair(given: Given) -> tuple[Pair, SetUp | None, bool]:
    """Return the pair to open, and whether the user chooses one first."""
    if is_chosen(given):
        return *choose_pair(given), False
    here = registry().read()
    # The list of pairs reports missing files.
    with suppress(PairError):
        if here.default is not None:
            return *pair_by_name(), False
    return known_pairs()[0], None, True


def _pairs(opener: Opener, session: Callable[[], Session]) -> PairService:
    """Return the pair service; its functions import when they are called, for a quick first frame."""
    from app.ui.models.service import PairService
    from app.ui.models.state import PairEnvironment

    def machine() -> tuple[str, Capacity]:
        from app.compare.measured_pairs import measured_capacity
        from app.llama.fitting.machine_room import loaded_bytes

        return measured_capacity(context_of(opener.live), loaded_bytes(session().pair))

    return PairService(
        PairEnvironment(
            catalog=catalog,
            registry=registry(),
            machine=machine,
            pairs_here=lambda: pairs_here(opener.live),
            demo_file=demo_file,
            is_here=is_here,
            open_pair=opener.open,
            current=lambda: opener.current,
            phase=lambda: session().phase,
        )
    )


def _model_name(model: ModelOnDisk) -> str:
    """Return the name of a model in stored answers, unless its header names it differently."""
    return f"{known_as(model.path.name, '')} {quantization(model.path.name)}"


class Opener:
    """Opens pairs with the current settings; the first pair is a placeholder until the user asks for a pair."""

    def __init__(
        self, live: LiveSettings, pair: Pair, files: SetUp | None, process: ProcessOptions, *, is_asked_for: bool = True
    ) -> None:
        self.live = live
        self.process = process
        self._pair = pair
        self._files = files
        self._is_asked_for = is_asked_for

    @property
    def current(self) -> Pair | None:
        """Return the requested pair, if any."""
        return self._pair if self._is_asked_for else None

    def open(self, pair: Pair, files: SetUp | None) -> LoadRequest:
        """Switch to another pair; keep the current pair if the settings contradict the new one."""
        before = self._pair, self._files, self.live.pair, self.live.model
        self._pair, self._files = pair, files
        try:
            self.live.switch_pair(of_entry(pair), of_file(pair, files))
            request = self.again()
        except UsageError:
            self._pair, self._files = before[:2]
            self.live.switch_pair(*before[2:])
            raise
        self._is_asked_for = True
        return request

    def again(self) -> LoadRequest:
        """Load the same pair again with the current settings. Raises UsageError."""
        loader = pair_loader(self.live.resolved(), self._pair, self._files, self.process)
        self.live.loading()
        return LoadRequest(loader, loader.pair.title)

    def written_by(self, models: Mapping[str, object]) -> LoadRequest | None:
        """Open the pair whose models have these names, by role; None if its target is open or no pair matches."""
        if self._files is not None and _model_name(self._files.target) == models.get("target"):
            return None
        known = [each for each in registry().read().pairs.values() if each.is_here]
        named = [each for each in known if _model_name(each.target) == models.get("target")]
        drafted = [each for each in named if each.draft and _model_name(each.draft) == models.get("draft")]
        with suppress(UsageError):
            for found in (drafted or named)[:1]:
                return self.open(found.pair, found)
        return None

    def with_offer(self, offer: Offer) -> PairLoader:
        """Return a loader for the pair of an offer with its settings."""
        pair, files = self._pair_of(offer)
        model = self.live.model if pair is self._pair else of_file(pair, files)
        settings = self.live.given(offer.settings, of_entry(pair), model)
        return pair_loader(settings, pair, files, self.process)

    def take(self, offer: Offer) -> LoadRequest:
        """Apply the settings of an offer to every later pair, and open its pair."""
        self.with_offer(offer)
        pair, files = self._pair_of(offer)
        self.live.give(offer.settings)
        return self.open(pair, files)

    def _pair_of(self, offer: Offer) -> tuple[Pair, SetUp | None]:
        return pair_by_name(offer.pair) if offer.pair is not None else (self._pair, self._files)

    def option(self, offer: Offer) -> FitOption:
        """Return an offer as an option of the chat."""
        try:
            loader = self.with_offer(offer) if offer.settings or offer.pair is not None else None
        except AppError:
            # The files of the pair may be gone.
            loader = None
        if loader is None:
            return FitOption(offer)
        if loader.files is None and not all(map(is_here, loader.pair.sources)):
            download = setup_command(loader.pair, by_name=offer.pair is not None)
            return FitOption(offer, command=in_flags(download))
        return FitOption(offer, lambda: self.take(offer))
