"""`tandem` without a command: the full-screen chat."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.cli.engine import make_engine
from app.cli.flags import read_flags
from app.cli.known_pairs import catalog, demo_file, demo_is_installed, registry
from app.cli.opener import Opener
from app.cli.options import open_settings
from app.cli.pair_choice import choose_pair
from app.cli.pair_layers import of_file
from app.cli.process import read_process
from app.errors import UsageError
from app.pairing.gain import Seen
from app.pairing.propose import Room
from app.paths import conversations_file, log_file
from app.source import HubModel
from app.ui.pairs.setups import PairService
from app.ui.pairs.tuning import Tuning

if TYPE_CHECKING:
    from app.chat.store import Store

_CLOSE_S = 1.0
"""Freeing the models takes a moment; a native call that does not return would take for ever."""
_CHOOSING = ("pair", "target", "draft")


def chat(args: argparse.Namespace) -> int:
    """Open the chat; see the module."""
    pair, files = choose_pair(vars(args))
    opener = Opener(open_settings(read_flags(args), pair, of_file(pair, files)), pair, files, read_process(args))
    first = opener.again()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The chat needs a terminal, and this is not one.",
            'For one answer in a pipe: tandem run "Why is the sky blue?"',
        )
    from app.ui.sweeping import left_alone

    with left_alone():
        from app.ui.app import TandemApp
        from app.ui.terminal.paste_parser import take_pastes_whole
        from app.ui.terminal.stderr_guard import guarded_stderr

    def store() -> Store:
        from app.chat.store import Store

        return Store.open_anyway(conversations_file())

    pairs = _pairs(opener)
    first_run = registry().read().default is None and not any(flag in args for flag in _CHOOSING)
    app = TandemApp(
        lambda emit: make_engine(opener.process, lambda event: emit(opener.with_ways(event))),
        first.loader,
        first.settings,
        pairs=pairs,
        first_run=first_run,
        store=store,
        tuning=Tuning(opener.live, opener.again),
    )
    take_pastes_whole()
    try:
        with guarded_stderr(log_file()):
            app.run()
    finally:
        code = app.return_code or 0
        ended = [app.engine.close(_CLOSE_S), pairs.close(_CLOSE_S)]
        if not all(ended):
            # Interpreter shutdown would free the models under the call that is still using them, and wait for a
            # download that the network holds.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return code


def _pairs(opener: Opener) -> PairService:
    """The pairs to choose from."""
    from app.ui.pairs.lookout import Surroundings
    from app.ui.pairs.service import Pairs

    def machine() -> tuple[str, Room]:
        from app.fitting.place import place

        here = place()
        return here.line, here.room

    def is_cached(source: HubModel) -> bool:
        from app.pairing.resolve import cached_file

        return cached_file(source) is not None

    def seen() -> Mapping[str, Seen]:
        from app.cli.measured_pairs import seen_here

        return seen_here()

    return Pairs(
        Surroundings(
            catalog=lambda: list(catalog().pairs.values()),
            registry=registry(),
            machine=machine,
            demo_file=demo_file,
            demo_is_installed=demo_is_installed,
            open_pair=opener.open,
            is_cached=is_cached,
            seen=seen,
        )
    )
