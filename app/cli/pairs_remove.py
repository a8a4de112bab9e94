"""`tandem pairs remove`: forget a pair, and delete what was downloaded or made for it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from app.cli.known_pairs import DEFAULT_PAIR, named_pair, registry
from app.cli.output import StatusLine
from app.core.errors import PairError, UsageError
from app.core.regular_file import is_file
from app.core.units import gigabytes
from app.models.hub.cache import any_downloading
from app.models.remove import Origin, Removal, plan_partial, plan_removal, plan_unused, remove_files

_NOTES: dict[Origin, str] = {
    "made": "  (Tandem made it, and makes it again when needed)",
    "begun": "  (from a download that was stopped)",
}


def remove_pair(args: argparse.Namespace) -> int:
    """Forget a pair; list its files and ask before deleting them."""
    keep, everything = "keep_files" in args, "all_files" in args
    if keep and everything:
        raise UsageError("--keep-files and --all-files exclude each other.")
    status = StatusLine(sys.stderr)
    if "unused" in args:
        return _remove_unused(args, status)
    if "pair" not in args:
        raise UsageError("No pair given.", "To list them: tandem pairs list")
    here = registry().read()
    if args.pair in here.problems:
        registry().remove(args.pair)
        status.say(f"{args.pair} is forgotten. Its files stay, because its entry cannot be read.")
        return 0
    set_up = here.pairs.get(args.pair)
    pair = set_up.pair if set_up is not None else named_pair(args.pair)[0]
    plan = plan_partial(pair) if not keep else []
    if set_up is None and not plan:
        raise UsageError(
            f"{pair.name} is not set up here, so there is nothing to remove.",
            "Catalog pairs cannot be removed; delete your own from models.toml.",
        )
    if set_up is not None and not keep:
        in_use = [other for name, other in here.pairs.items() if name != args.pair]
        plan = [*plan_removal(set_up, in_use, here.downloaded), *plan]
    deleted = [removal for removal in plan if removal.deletable and (removal.ours or everything)]
    _list(deleted, status)
    for removal in plan:
        if removal not in deleted and is_file(removal.path):
            status.say(f"keep    {gigabytes(removal.size):>8}  {removal.path}  ({_why_kept(removal)})")
    if deleted and not _agrees(args, status):
        return 0
    # First: Windows deletes no file that is in use, and the same command can be given again.
    freed = remove_files(deleted)
    registry().remove(args.pair)
    registry().release([removal.path for removal in deleted])
    result = f"{args.pair} is forgotten." if set_up is not None else f"{args.pair} was not set up yet."
    status.say(result + (f" {gigabytes(freed)} freed." if freed else ""))
    if here.default == args.pair:
        status.say(
            f"It was the default; commands use {DEFAULT_PAIR} until you choose another: tandem pairs default NAME"
        )
    return 0


def _remove_unused(args: argparse.Namespace, status: StatusLine) -> int:
    """Delete downloaded files that no pair uses, after asking."""
    if "pair" in args or "keep_files" in args or "all_files" in args:
        raise UsageError("--unused goes with no pair and no other choice of files.", "Leave one or the other out.")
    deleted = plan_unused(registry().read().unused)
    if not deleted:
        status.say("Every downloaded file belongs to a pair.")
        return 0
    if any_downloading():
        raise PairError("A download is running and may need these files.", "Run the command again after it.")
    _list(deleted, status)
    if not _agrees(args, status):
        return 0
    freed = remove_files(deleted)
    registry().release([removal.path for removal in deleted])
    status.say(f"{gigabytes(freed)} freed.")
    return 0


def _list(deleted: Sequence[Removal], status: StatusLine) -> None:
    for removal in deleted:
        status.say(f"delete  {gigabytes(removal.size):>8}  {removal.path}{_NOTES.get(removal.origin, '')}")


def _why_kept(removal: Removal) -> str:
    if removal.shared:
        return "another pair uses it"
    if removal.origin == "package":
        return "it belongs to the demo's Python package"
    if not removal.deletable:
        return "it is your own file"
    return "Tandem did not download it; --all-files deletes it too"


def _agrees(args: argparse.Namespace, status: StatusLine) -> bool:
    if "yes" in args:
        return True
    if not status.can_ask:
        raise UsageError("No terminal to ask on.", "Add --yes; --keep-files only forgets a pair.")
    if status.ask("Delete these files? [y/N] ") in ("y", "yes"):
        return True
    status.say("Nothing was removed.")
    return False
