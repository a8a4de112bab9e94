"""`tandem pairs`: what is known, what is here, what could ride together."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext

from app.cli import INTERRUPTED
from app.cli.interrupt import cancel_on_interrupt
from app.cli.known_pairs import named_pair, registry
from app.cli.output import StatusLine
from app.cli.pairs_checked import check_models, find_models
from app.cli.pairs_removed import remove_pair
from app.cli.pairs_shown import list_pairs, show_pair
from app.errors import Interrupted, UsageError

_STOPPABLE = ("check", "find")
"""Actions that look at whether they are to stop; the others are Python's to interrupt, or see to it themselves."""


def pairs(args: argparse.Namespace) -> int:
    """Run one action; see the module."""
    stop = threading.Event()
    actions: dict[str, Callable[[], int]] = {
        "list": lambda: list_pairs(args),
        "show": lambda: show_pair(args),
        "check": lambda: check_models(args, stop),
        "find": lambda: find_models(args, stop),
        "add": lambda: _add(args),
        "remove": lambda: remove_pair(args),
        "default": lambda: _default(args),
    }
    try:
        with cancel_on_interrupt(stop.set) if args.action in _STOPPABLE else nullcontext():
            code = actions[args.action]()
    except Interrupted:
        return INTERRUPTED
    return INTERRUPTED if stop.is_set() else code


def _add(args: argparse.Namespace) -> int:
    from app.cli.setup import setup

    given = argparse.Namespace(target=args.target, name=args.name, yes=True, no_trial=True, no_default=True)
    if getattr(args, "draft", None) is not None:
        given.draft = args.draft
    if hasattr(args, "json"):
        given.json = True
    return setup(given)


def _default(args: argparse.Namespace) -> int:
    here = registry().read()
    if args.pair not in here.pairs:
        pair, _files = named_pair(args.pair)
        raise UsageError(f"{pair.name} is not set up yet.", f"Bring it with: tandem setup {pair.name}")
    registry().set_default(args.pair)
    StatusLine(sys.stderr).say(f"{args.pair} is taken when no pair is named.")
    return 0
