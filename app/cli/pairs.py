"""`tandem pairs`: list and show pairs, add one, choose the default."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

from app.cli.interrupt import cancel_on_interrupt, imported_whole
from app.cli.known_pairs import DEFAULT_PAIR, catalog, demo_is_installed, left_out, named_pair, registry
from app.cli.measured_pairs import seen_here
from app.cli.options import context_for_all
from app.cli.output import LOOKING, StatusLine, clear_status, columns_of, for_reading, json_for
from app.conversations.titles import fit, in_brief, width
from app.core.errors import INTERRUPTED, Interrupted, UsageError
from app.core.printable import printable
from app.core.regular_file import is_file
from app.core.shell import quoted
from app.core.units import gigabytes
from app.llama.fitting.place import place
from app.models.catalog import Pair
from app.models.expected_speedup import Seen, expected_gain, speeds
from app.models.hub.cache import folder, may_hold
from app.models.pair_size import OVER, UNKNOWN, pair_bytes, size_text, with_files
from app.models.recommend import Room, Standing, every_pair, in_order, propose, weigh
from app.models.registry import Registered
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource

_WIDEST_NAME = 24
"""Columns of a name; a longer one gets a line of its own."""
_LABEL = 12
"""Columns of a fact's label."""


def list_pairs(args: argparse.Namespace) -> int:
    """Print every pair."""
    status = StatusLine(sys.stderr)
    status.show(LOOKING)
    known, here, seen = catalog(), registry().read(), seen_here()
    pairs, space = every_pair(known.pairs, here), _room(seen)
    rows: list[dict[str, Any]] = []
    shown: list[str] = []
    standings = [_standing(pair, here, space) for pair in pairs.values()]
    for one in in_order(standings, propose([with_files(pair, here.usable(pair)) for pair in pairs.values()], space)):
        pair, files, proposal = one.pair, here.usable(one.pair), one.proposal
        assert proposal is not None
        rows.append(
            {
                "name": pair.name,
                "title": pair.title,
                "here": one.here,
                "default": pair.name == (here.default or DEFAULT_PAIR),
                "disk": sum(m.size for m in files.models) if files is not None else 0,
                "download": proposal.download_bytes,
                "size": pair_bytes(pair, files),
                "fit": proposal.word,
                "reason": proposal.reason,
                "expected_tokens_per_second": round(proposal.speed, 1) if proposal.speed is not None else None,
                "drafting": expected_gain(pair, space, seen),
            }
        )
        shown.append(size_text(pair, files))
    status.clear()
    if hasattr(args, "json"):
        print(json_for(sys.stdout, rows))
        return 0
    names = [printable(str(row["name"])) for row in rows]
    room = min(_WIDEST_NAME, max(map(width, names)))
    words = max(len(str(row["fit"])) for row in rows)
    columns = columns_of(sys.stdout)
    for name, row, size_shown in zip(names, rows, shown, strict=True):
        mark = "*" if row["default"] else "+" if row["here"] else " "
        head = f"{mark} {name}{' ' * (room - width(name))}"
        if width(name) > room:
            print(head)
            head = " " * (2 + room)
        head = f"{head}  {size_shown:>8}  {row['fit']:{words}}  "
        title = printable(str(row["title"]))
        if columns is not None:
            title = fit(in_brief(title, columns - width(head)), columns - width(head))
        print(head + title)
    legend = [f"* default  + on this machine  in {printable(str(folder()))}"]
    if any(text.startswith((UNKNOWN, OVER)) for text in shown):
        legend.append(f"{UNKNOWN} {OVER} size unknown or a lower bound; to look it up: tandem pairs check NAME")
    if space.doubt:
        legend.append(space.doubt)
    print(for_reading("\n".join(["", *legend]), sys.stdout))
    for trouble in filter(None, (known.trouble, here.trouble)):
        status.say(f"\n{trouble.sentences}")
    return 0


def show_pair(args: argparse.Namespace) -> int:
    """Print one pair."""
    StatusLine(sys.stderr).show(LOOKING)
    pair, here = named_pair(args.pair)
    seen = seen_here()
    space = _room(seen)
    proposal = weigh(with_files(pair, registry().read().usable(pair)), space)
    facts: dict[str, Any] = {
        "name": pair.name,
        "title": pair.title,
        "target": str(pair.target),
        "draft": str(pair.draft) if pair.draft is not None else None,
        "family": pair.family,
        "good_at": pair.good_at,
        "licence": pair.licence,
        "context": pair.context,
        "tested_with": pair.tested_with,
        "fit": f"{proposal.word}: {proposal.reason}",
        "drafting": expected_gain(pair, space, seen),
        "download": gigabytes(proposal.download_bytes) if proposal.download_bytes else "",
        "files": [str(model.path) for model in here.models] if here is not None else [],
        "on_disk": gigabytes(sum(m.size for m in here.models)) if here is not None and here.is_here else "",
    }
    clear_status()
    if hasattr(args, "json"):
        print(json_for(sys.stdout, facts))
        return 0
    for key, value in facts.items():
        if value:
            lines = value if isinstance(value, list) else [str(value)]
            text = f"{key.replace('_', ' '):{_LABEL}}" + f"\n{'':{_LABEL}}".join(map(printable, lines))
            print(for_reading(text, sys.stdout, 0 if len(lines) > 1 else _LABEL))
    return 0


def _room(seen: Mapping[str, Seen]) -> Room:
    return replace(place().room, n_ctx=context_for_all(), measured=speeds(seen))


def _standing(pair: Pair, here: Registered, space: Room) -> Standing:
    files = here.usable(pair)
    return Standing(
        pair,
        weigh(with_files(pair, files), space),
        set_up=files is not None,
        here=files is not None or all(map(_exists, pair.sources)),
        is_default=pair.name == here.default,
    )


def _exists(source: ModelSource) -> bool:
    match source:
        case LocalModel(path):
            return is_file(path)
        case DemoModel():
            return demo_is_installed()
        case HubModel(repo):
            if not may_hold(repo):
                return False
            from app.models.resolve import cached_file

            return cached_file(source) is not None


_STOPPABLE = ("check", "find")
"""Actions that poll for a cancel; KeyboardInterrupt ends the others."""
_TELLS = ("list",)
"""Actions that report catalog errors themselves."""
_ACTIONS: Mapping[str, str] = {
    "list": "app.cli.pairs:list_pairs",
    "show": "app.cli.pairs:show_pair",
    "check": "app.cli.pairs_check:check_models",
    "find": "app.cli.pairs_check:find_models",
    "add": "app.cli.pairs:add_pair",
    "remove": "app.cli.pairs_remove:remove_pair",
    "default": "app.cli.pairs:make_default",
}
"""Function of each action, by name, so that the Hugging Face client is imported only if needed."""


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
    """Add two models as a pair; download them if needed."""
    from app.cli.setup import setup

    given = argparse.Namespace(target=args.target, name=args.name, yes=True, no_trial=True, no_default=True, first=True)
    if getattr(args, "draft", None) is not None:
        given.draft = args.draft
    if hasattr(args, "json"):
        given.json = True
    return setup(given)


def make_default(args: argparse.Namespace) -> int:
    """Make a pair the default."""
    here = registry().read()
    if args.pair not in here.pairs:
        pair, _files = named_pair(args.pair)
        raise UsageError(f"{pair.name} is not set up yet.", f"Set it up: tandem setup {quoted(pair.name)}")
    registry().set_default(args.pair)
    StatusLine(sys.stderr).say(f"{args.pair} is the default pair now.")
    return 0
