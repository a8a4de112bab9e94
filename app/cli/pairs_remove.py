"""`tandem pairs remove`: a pair is forgotten, and what was downloaded or made for it deleted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from app.cli.known_pairs import DEFAULT_PAIR, catalog, named_pair, registry, used_demo
from app.cli.output import StatusLine
from app.core.errors import PairError, UsageError
from app.core.regular_file import is_file
from app.core.units import gigabytes
from app.models.hub.cache import is_downloading, unfinished
from app.models.recommend import every_pair
from app.models.registry import Registered, SetUp
from app.models.remove import Origin, Removal, plan_begun, plan_removal, plan_unused, remove_files

_NOTES: dict[Origin, str] = {
    "made": "  (Tandem made it, and makes it again when it is needed)",
    "begun": "  (what has come of a file whose download was stopped)",
}


def remove_pair(args: argparse.Namespace) -> int:
    """Forget a pair; its files are named, and asked for, before they go."""
    keep, everything = hasattr(args, "keep_files"), hasattr(args, "all_files")
    if keep and everything:
        raise UsageError("--keep-files and --all-files exclude each other.")
    status = StatusLine(sys.stderr)
    if hasattr(args, "unused"):
        return _remove_unused(args, status)
    if "pair" not in args:
        raise UsageError("No pair given.", "To list them: tandem pairs list")
    here = registry().read()
    one = here.pairs.get(args.pair)
    if args.pair in here.problems:
        registry().remove(args.pair)
        status.say(f"{args.pair} is forgotten. Its files stay, for its entry did not tell them.")
        return 0
    pair = one.pair if one is not None else named_pair(args.pair)[0]
    known = every_pair(catalog().pairs, here)
    coming = [other for name, other in known.items() if name != args.pair and here.usable(other) is None]
    begun = plan_begun(pair, coming) if not keep else []
    if one is None and not keep:
        one = used_demo(pair)
    if one is None and not begun:
        raise UsageError(
            f"{pair.name} is not set up here, so there is nothing to remove.",
            "Catalog pairs cannot be removed; delete your own from models.toml.",
        )
    plan = [*_of_pair(args.pair, one, here), *begun]
    doomed = [] if keep else [r for r in plan if r.deletable and (r.ours or everything)]
    _announce(doomed, status)
    for removal in plan:
        if removal not in doomed and not keep and is_file(removal.path):
            status.say(f"keep    {gigabytes(removal.size):>8}  {removal.path}  ({_why(removal)})")
    if doomed and not hasattr(args, "yes") and not _sure(status):
        status.say("Nothing was removed.")
        return 0
    # First: while a file is in use Windows deletes none, and the same command can be given again.
    freed = remove_files(doomed)
    for removal in doomed:
        if removal.origin == "begun" and is_file(removal.path):
            status.say(f"keep    {gigabytes(removal.size):>8}  {removal.path}  (it is being downloaded again)")
    registry().remove(args.pair)
    registry().release([removal.path for removal in doomed])
    said = f"{args.pair} is forgotten." if one is not None else f"{args.pair} was not set up yet."
    status.say(said + (f" {gigabytes(freed)} freed." if freed else ""))
    if here.default == args.pair:
        status.say(
            f"It was the default; commands use {DEFAULT_PAIR} until you choose another: tandem pairs default NAME"
        )
    return 0


def _remove_unused(args: argparse.Namespace, status: StatusLine) -> int:
    """Delete what no pair has; it is named, and asked for, before it goes."""
    if "pair" in args or hasattr(args, "keep_files") or hasattr(args, "all_files"):
        raise UsageError("--unused goes with no pair and no other choice of files.", "Leave one or the other out.")
    doomed = plan_unused(registry().read().unused)
    if not doomed:
        status.say("Every downloaded file belongs to a pair.")
        return 0
    _refuse_while_one_comes()
    _announce(doomed, status)
    if not hasattr(args, "yes") and not _sure(status):
        status.say("Nothing was removed.")
        return 0
    freed = remove_files(doomed)
    registry().release([removal.path for removal in doomed])
    status.say(f"{gigabytes(freed)} freed.")
    return 0


def _refuse_while_one_comes() -> None:
    """Raise PairError while a download runs: its files are not known yet."""
    if any(map(is_downloading, unfinished())):
        raise PairError(
            "A download is running and may need these files.", "Run the command again when it has finished."
        )


def _of_pair(name: str, files: SetUp | None, here: Registered) -> list[Removal]:
    """Return every file of a pair and whether other pairs need it."""
    others = [other for key, other in here.pairs.items() if key != name]
    return plan_removal(files, others, here.downloaded, here.held) if files is not None else []


def _announce(doomed: Sequence[Removal], status: StatusLine) -> None:
    for removal in doomed:
        status.say(f"delete  {gigabytes(removal.size):>8}  {removal.path}{_NOTES.get(removal.origin, '')}")


def _why(removal: Removal) -> str:
    if removal.shared and removal.origin == "begun":
        return "it may be of another pair; delete the file itself if it is not"
    if removal.shared:
        return "another pair uses it"
    if removal.origin == "package":
        return "it belongs to the demo's Python package"
    if not removal.deletable:
        return "it is your own file"
    return "Tandem did not download it; --all-files deletes it too"


def _sure(status: StatusLine) -> bool:
    if not status.can_ask:
        raise UsageError("No terminal to ask on.", "Add --yes; --keep-files only forgets a pair.")
    return status.ask("Delete these files? [y/N] ") in ("y", "yes")
