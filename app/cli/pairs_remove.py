"""`tandem pairs remove`: forget a pair, and delete what was downloaded or made for it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.output import status
from app.core.errors import PairError, UsageError
from app.core.regular_file import is_file
from app.core.units import gigabytes
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.registry import SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource
from app.worker.known_pairs import DEFAULT_PAIR, named_pair, registry


@dataclass(frozen=True, slots=True)
class Removal:
    """A file of a removed pair and its bytes.

    Attributes:
        note: The origin, unless it is a complete download.
        kept: Why the file is kept; None deletes it.
    """

    path: Path
    size: int
    note: str | None = None
    kept: str | None = None


def remove_pairs(
    pair: str | None = None,
    *,
    unused: bool = False,
    keep_files: bool = False,
    all_files: bool = False,
    yes: bool = False,
) -> int:
    """Forget a pair; list its files and ask before deleting them."""
    if keep_files and all_files:
        raise UsageError("--keep-files and --all-files exclude each other.")
    if unused:
        if pair is not None or keep_files or all_files:
            raise UsageError(
                "--unused cannot be combined with a pair or another choice of files.", "Leave one or the other out."
            )
        return _remove_unused(yes=yes)
    if pair is None:
        raise UsageError("No pair given.", "To list them: tandem pairs list")
    here = registry().read()
    set_up = here.pairs.get(pair)
    known = set_up.pair if set_up is not None else named_pair(pair).pair
    plan = plan_partial(known) if not keep_files else []
    if set_up is None and not plan:
        raise UsageError(
            f"{known.name} is not set up here, so there is nothing to remove.",
            "Catalog pairs cannot be removed; delete your own from models.toml.",
        )
    if set_up is not None and not keep_files:
        in_use = [other for name, other in here.pairs.items() if name != pair]
        plan = [*plan_removal(set_up, in_use, here.downloaded, everything=all_files), *plan]
    freed = _delete(plan, yes=yes)
    if freed is None:
        return 0
    registry().remove(pair)
    result = f"{pair} is forgotten." if set_up is not None else f"{pair} was not set up yet."
    status.say(result + (f" {gigabytes(freed)} freed." if freed else ""))
    if here.default == pair:
        status.say(
            f"It was the default; commands use {DEFAULT_PAIR} until you choose another: tandem pairs default NAME"
        )
    return 0


def _remove_unused(*, yes: bool) -> int:
    unused = [Removal(path, size) for path, size in registry().read().unused.items()]
    if not unused:
        status.say("Every downloaded file belongs to a pair.")
        return 0
    if cache.any_downloading():
        raise PairError("A download is running and may need these files.", "Run the command again after it.")
    freed = _delete(unused, yes=yes)
    if freed is not None:
        status.say(f"{gigabytes(freed)} freed.")
    return 0


def _delete(plan: Sequence[Removal], *, yes: bool) -> int | None:
    """List files and delete those that are not kept; return the bytes freed, or None if the user declines."""
    for removal in sorted(plan, key=lambda removal: bool(removal.kept)):
        what, why = "keep  " if removal.kept else "delete", removal.kept or removal.note
        status.say(f"{what}  {gigabytes(removal.size):>8}  {removal.path}{f'  ({why})' if why else ''}")
    deleted = [removal.path for removal in plan if not removal.kept]
    if deleted and not yes:
        if not status.can_ask:
            raise UsageError("No terminal to ask on.", "Add --yes; --keep-files only forgets a pair.")
        if status.ask("Delete these files? [y/N] ") not in ("y", "yes"):
            status.say("Nothing was removed.")
            return None
    # Windows does not delete a file that is in use; the pair stays registered, so the command can be repeated.
    freed = sum(map(cache.delete_file, deleted))
    registry().release(deleted)
    return freed


# Files


def plan_removal(
    pair: SetUp, others: Sequence[SetUp], downloaded: Collection[Path], *, everything: bool = False
) -> list[Removal]:
    """Return the files of a pair; `everything` also deletes what Tandem has not downloaded itself."""
    used = {path for other in others for path in other.parts}
    removals = []
    # The projector comes from the target's repository.
    files = [*zip(pair.pair.sources, pair.models, strict=False)]
    files += [(pair.pair.target, pair.projector)] if pair.projector is not None else []
    for source, model in files:
        for path in filter(is_file, model.parts):
            kept = "another pair uses it" if path in used else _why_kept(source, everything or path in downloaded)
            note = "Tandem created it, and creates it again when needed" if isinstance(source, DemoModel) else None
            removals.append(Removal(path, path.stat().st_size, note, kept))
    return removals


def _why_kept(source: ModelSource, is_ours: bool) -> str | None:
    match source:
        case DemoModel("target"):
            return "it belongs to the demo's Python package"
        case LocalModel():
            return "it is your own file"
        case HubModel() if not is_ours:
            return "Tandem did not download it; --all-files deletes it too"
    return None


def plan_partial(pair: Pair) -> list[Removal]:
    """Return the remains of interrupted downloads of a pair's models.

    A model without a known checksum may be any incomplete download of its repository.
    """
    begun = [
        Removal(path, size, "from an interrupted download")
        for source in pair.sources
        if isinstance(source, HubModel)
        for path, size in cache.unfinished(source.repo).items()
        if source.sha256 in (None, path.name.removesuffix(cache.PARTIAL))
    ]
    # Target and draft may share a repository.
    return list(dict.fromkeys(begun))
