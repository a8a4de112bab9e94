"""`tandem pairs`: what is known, what is here, what could ride together."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from pkgutil import resolve_name

from app.cli.interrupt import cancel_on_interrupt, imported_whole
from app.cli.known_pairs import left_out, named_pair, registry
from app.cli.output import StatusLine, clear_status
from app.core.errors import INTERRUPTED, Interrupted, UsageError
from app.core.shell import quoted

_STOPPABLE = ("check", "find")
"""Actions that look at whether they are to stop; the others are Python's to interrupt, or see to it themselves."""
_TELLS = ("list",)
"""Those that say themselves what is wrong with the catalogue."""
_ACTIONS: Mapping[str, str] = {
    "list": "app.cli.pairs.shown:list_pairs",
    "show": "app.cli.pairs.shown:show_pair",
    "check": "app.cli.pairs.checked:check_models",
    "find": "app.cli.pairs.checked:find_models",
    "add": "app.cli.pairs.command:add_pair",
    "remove": "app.cli.pairs.removed:remove_pair",
    "default": "app.cli.pairs.command:make_default",
}
"""What each action runs; a name, as in `app.cli.COMMANDS`: the hub's client alone takes longer than some of them."""


def pairs(args: argparse.Namespace) -> int:
    """Run one action; see the module."""
    stop = threading.Event()
    is_stoppable = args.action in _STOPPABLE
    try:
        with cancel_on_interrupt(stop.set) if is_stoppable else nullcontext():
            with imported_whole():
                action = resolve_name(_ACTIONS[args.action])
            code: int = action(args, stop) if is_stoppable else action(args)
            if args.action not in _TELLS:
                for notice in left_out():
                    StatusLine(sys.stderr).say(notice)
    except Interrupted:
        clear_status()
        return INTERRUPTED
    return INTERRUPTED if stop.is_set() else code


def add_pair(args: argparse.Namespace) -> int:
    """Remember two models as a pair; what of them is on the hub comes first."""
    from app.cli.setup.command import setup

    given = argparse.Namespace(target=args.target, name=args.name, yes=True, no_trial=True, no_default=True, first=True)
    if getattr(args, "draft", None) is not None:
        given.draft = args.draft
    if hasattr(args, "json"):
        given.json = True
    return setup(given)


def make_default(args: argparse.Namespace) -> int:
    """Let a pair be taken when none is named."""
    here = registry().read()
    if args.pair not in here.pairs:
        pair, _files = named_pair(args.pair)
        raise UsageError(f"{pair.name} is not set up yet.", f"Bring it with: tandem setup {quoted(pair.name)}")
    registry().set_default(args.pair)
    StatusLine(sys.stderr).say(f"{args.pair} is taken when no pair is named.")
    return 0
