"""`tandem` without a command: the full-screen chat."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from app.cli.engine import make_engine
from app.cli.known_pairs import (
    catalog,
    choose_pair,
    demo_file,
    demo_is_installed,
    is_chosen,
    known_pairs,
    of_file,
    registry,
)
from app.cli.opener import Opener
from app.cli.options import open_settings, read_process
from app.cli.setting_flags import read_flags
from app.core.errors import AppError, PairError, UsageError
from app.core.paths import conversations_file, log_file
from app.core.printable import printable
from app.models.catalog import Pair
from app.models.recommend import USUAL_CONTEXT, Room
from app.models.registry import SetUp
from app.ui.models.state import Tuning

if TYPE_CHECKING:
    from app.conversations.store import Store
    from app.session.session import Session
    from app.ui.models.service import PairService

_CLOSE_S = 5.0
"""Time to store the state of the conversation and to free the models; a native call may never return."""


def chat(args: argparse.Namespace) -> int:
    """Open the chat; see the module."""
    pair, files, first_run = first_pair(args)
    settings = open_settings(read_flags(args), pair, of_file(pair, files))
    opener = Opener(settings, pair, files, read_process(args), is_asked_for=not first_run)
    first = opener.again()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The chat needs a terminal, and this is not one.",
            'For one answer in a pipe: tandem run "Why is the sky blue?"',
        )
    # Modules are not garbage; to look through them takes time before the first frame.
    gc.disable()
    from app.ui.app import TandemApp
    from app.ui.terminal.input_parser import install_parser
    from app.ui.terminal.stderr_guard import guarded_stderr

    gc.freeze()
    gc.enable()

    def store() -> Store:
        from app.conversations.store import Store

        return Store.open(conversations_file())

    pairs = _pairs(opener, lambda: app.session)
    app = TandemApp(
        lambda emit: make_engine(opener.process, lambda event: emit(opener.with_fixes(event))),
        first.loader,
        first.settings,
        pairs=pairs,
        first_run=first_run,
        store=store,
        tuning=Tuning(opener.live, opener.again),
    )
    install_parser()
    try:
        with guarded_stderr(log_file()):
            app.run()
    finally:
        code = app.return_code or 0
        if app.unwritten is not None:
            code = code or app.unwritten.exit_code
            # The terminal may be gone.
            with suppress(OSError):
                print(f"tandem: {printable(app.unwritten.sentences)}", file=sys.stderr)
        ended = [app.engine.close(_CLOSE_S), pairs.close(_CLOSE_S)]
        if not all(ended):
            # Interpreter shutdown would free the models under a running call, and wait for a stalled download.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return code


def first_pair(args: argparse.Namespace) -> tuple[Pair, SetUp | None, bool]:
    """Return the pair to open, and whether the user chooses one first."""
    if is_chosen(vars(args)):
        return *choose_pair(vars(args)), False
    here = registry().read()
    # The list of pairs reports missing files.
    with suppress(PairError):
        return *choose_pair({}), here.default is None
    return known_pairs()[0], None, True


def _pairs(opener: Opener, session: Callable[[], Session]) -> PairService:
    """Return the pair service; its functions import when they are called, for a quick first frame."""
    from app.ui.models.service import PairService
    from app.ui.models.tasks import PairEnvironment

    def machine() -> tuple[str, Room]:
        from app.cli.measured_pairs import seen_here
        from app.llama.fitting.machine_room import loaded_bytes, machine_room

        line, room = machine_room(loaded_bytes(session().pair))
        n_ctx = opener.live.resolved()["model.ctx"]
        return line, replace(room, n_ctx=n_ctx if isinstance(n_ctx, int) else USUAL_CONTEXT, measured=seen_here())

    def known() -> tuple[Sequence[Pair], AppError | None]:
        found = catalog()
        return list(found.pairs.values()), found.unread

    return PairService(
        PairEnvironment(
            catalog=known,
            registry=registry(),
            machine=machine,
            demo_file=demo_file,
            demo_is_installed=demo_is_installed,
            open_pair=opener.open,
            current=lambda: opener.current,
            phase=lambda: session().phase,
        )
    )
