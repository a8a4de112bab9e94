"""Pairs by name: the catalog that ships with Tandem, and the user's entries over it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from app.core import regular_file
from app.core.errors import CatalogError, UsageError
from app.core.units import MAX_SIZE
from app.engine.types import DraftParams, SamplingParams
from app.models.memory_estimate import PairOverhead
from app.models.source import (
    DEFAULT_REVISION,
    DEMO_PREFIX,
    DemoModel,
    HubModel,
    LocalModel,
    ModelSource,
    home_expanded,
    is_repository,
)

_SAMPLING_KEYS = tuple(SamplingParams.__dataclass_fields__)
_DRAFTING_KEYS = tuple(DraftParams.__dataclass_fields__)
_PAIR_KEYS = (
    "title",
    "family",
    "good_at",
    "memory_gb",
    "bytes_per_token",
    "working",
    "context",
    "licence",
    "tested_with",
    "target",
    "draft",
    "sampling",
    "drafting",
)
_DEFAULT = SamplingParams()
_WORKING_KEYS = tuple(PairOverhead.__dataclass_fields__)
_MODEL_KEYS = ("repo", "file", "quant", "size", "sha256", "revision")
_SHA256_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """One entry of a catalog; models.toml describes the keys.

    Attributes:
        name: Argument of `--pair`.
        title: One line for people.
        target: Source of the target.
        draft: Source of the draft, or None.
        sampling: The authors' sampling parameters.
        kept: Sampling parameters that the entry sets to their default, over the target's file.
        drafting: Fixed drafting parameters; None for automatic drafting.
        bytes_per_token: Bytes that the target reads for one token; 0 for all of its weights.
        working: Memory besides the weights; None if unknown.
        shipped: The entry comes with Tandem.
    """

    name: str
    title: str
    target: ModelSource
    draft: ModelSource | None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    drafting: DraftParams | None = None
    family: str = ""
    good_at: str = ""
    memory_gb: int = 0
    context: int = 0
    licence: str = ""
    tested_with: str = ""
    bytes_per_token: int = 0
    working: PairOverhead | None = None
    kept: tuple[str, ...] = ()
    shipped: bool = field(default=False, compare=False, repr=False)

    @property
    def is_demo(self) -> bool:
        """It is the tiny pair for trying Tandem; it never replaces another default pair by itself."""
        return isinstance(self.target, DemoModel)

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """Target and, if there is one, draft."""
        return (self.target,) if self.draft is None else (self.target, self.draft)


class Catalog:
    """The known pairs, later files over earlier ones.

    Args:
        files: models.toml files; only the first must exist.

    Raises:
        CatalogError: The first file cannot be read.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.pairs: dict[str, Pair] = {}
        self.problems: dict[str, CatalogError] = {}
        """Invalid entries by name; an earlier file's entry of that name is not used instead."""
        self.unread: CatalogError | None = None
        """Why another file cannot be read completely."""
        for index, file in enumerate(files):
            if index == 0:
                self._take(file, shipped=True)
            elif not regular_file.is_gone(file):
                try:
                    self._take(file)
                except CatalogError as error:
                    self.unread = error

    def _take(self, file: Path, *, shipped: bool = False) -> None:
        table = _table(file)
        for name, entry in _entries(table, file).items():
            try:
                self.pairs[name] = replace(read_pair(name, entry, file), shipped=shipped)
                self.problems.pop(name, None)
            except CatalogError as error:
                self.problems[name] = error
                self.pairs.pop(name, None)
        # A misspelled table may hold pairs, too.
        refuse_unknown(table, ("pairs",), f"{file}")

    @property
    def trouble(self) -> CatalogError | None:
        """The first problem and the number of others; None without any."""
        return self.unread if self.unread is not None else first_of(self.problems)

    def get(self, name: str, set_up: Iterable[str] = ()) -> Pair:
        """Return a pair by name.

        Args:
            name: Its name.
            set_up: Other known names, for the suggestion.

        Raises:
            UsageError: There is none; it suggests the nearest.
            CatalogError: Its entry is invalid, or its file cannot be read.
        """
        if name in self.pairs:
            return self.pairs[name]
        if name in self.problems:
            raise self.problems[name]
        if self.unread is not None:
            raise self.unread
        known = dict.fromkeys([*set_up, *self.pairs])
        raise UsageError(f'There is no pair "{name}".{nearest(name, known)}', "All there are: tandem pairs list")


def first_of(problems: Mapping[str, CatalogError]) -> CatalogError | None:
    """Return the first problem and the number of others; None without any."""
    first, n_more = next(iter(problems.values()), None), len(problems) - 1
    if first is None or not n_more:
        return first
    return CatalogError(f"{first.message} {n_more} more: tandem doctor.", first.hint)


def shipped_file() -> Path:
    """Return the catalog that comes with Tandem: inside an installed package, beside it in a checkout."""
    here = Path(__file__).parents[1]
    inside = here / "models.toml"
    return inside if inside.exists() else here.parent / "models.toml"


def _table(file: Path) -> dict[str, Any]:
    try:
        # Windows editors write a byte order mark.
        return regular_file.read_toml(file)
    except (OSError, ValueError, RecursionError) as error:
        raise CatalogError(
            f"{file} cannot be read: {regular_file.reason(error)}.",
            "Fix it, or move it away; no pair in it is known until then.",
        ) from error


def _entries(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    pairs = table.get("pairs", {})
    if not isinstance(pairs, dict):
        raise CatalogError(f"{file}: pairs must be a table.", "Write [pairs.NAME].")
    return pairs


def read_pair(name: str, entry: Any, file: Path) -> Pair:
    """Read one entry of a catalog file.

    Raises:
        CatalogError: It is invalid; the message names file, entry and key.
    """
    where = f"{file}: pairs.{name}"
    if not isinstance(entry, dict):
        raise CatalogError(f"{where} must be a table.", "Write [pairs.NAME].")
    refuse_unknown(entry, _PAIR_KEYS, where)
    if "target" not in entry:
        raise CatalogError(
            f"{where} has no target.",
            'Add target = "/path/to/model.gguf" or { repo = "owner/name", quant = "Q4_K_M" }.',
        )
    sampling = params(SamplingParams(), entry.get("sampling", {}), _SAMPLING_KEYS, f"{where}.sampling")
    return Pair(
        name=name,
        title=text(entry, "title", where) or name,
        target=_source(entry["target"], f"{where}.target", file),
        draft=_source(entry["draft"], f"{where}.draft", file) if "draft" in entry else None,
        family=text(entry, "family", where) or "",
        good_at=text(entry, "good_at", where) or "",
        memory_gb=whole(entry, "memory_gb", where) or 0,
        context=whole(entry, "context", where) or 0,
        bytes_per_token=whole(entry, "bytes_per_token", where) or 0,
        working=_working(entry["working"], f"{where}.working") if "working" in entry else None,
        licence=text(entry, "licence", where) or "",
        tested_with=text(entry, "tested_with", where) or "",
        sampling=sampling,
        kept=tuple(key for key in entry.get("sampling", {}) if getattr(sampling, key) == getattr(_DEFAULT, key)),
        drafting=(
            params(DraftParams(), entry["drafting"], _DRAFTING_KEYS, f"{where}.drafting")
            if "drafting" in entry
            else None
        ),
    )


def write_pair(pair: Pair) -> dict[str, Any]:
    """Return the entry that `read_pair` reads as this pair; paths are absolute."""
    entry: dict[str, Any] = {
        key: value
        for key in ("title", "family", "good_at", "memory_gb", "bytes_per_token", "context", "licence", "tested_with")
        if (value := getattr(pair, key))
    }
    if pair.working is not None:
        entry["working"] = {key: value for key, value in asdict(pair.working).items() if value}
    entry["target"] = _write_source(pair.target)
    if pair.draft is not None:
        entry["draft"] = _write_source(pair.draft)
    chain = {k: v for k, v in asdict(pair.sampling).items() if k in pair.kept or v != getattr(_DEFAULT, k)}
    if chain:
        entry["sampling"] = chain
    if pair.drafting is not None:
        entry["drafting"] = asdict(pair.drafting)
    return entry


def _write_source(source: ModelSource) -> Any:
    if not isinstance(source, HubModel):
        return str(source)
    return {key: value for key, value in asdict(source).items() if value is not None}


def _source(entry: Any, where: str, file: Path) -> ModelSource:
    """Read a model: a path, a `demo:` name, or a table that names a repository."""
    if isinstance(entry, str):
        if entry.startswith(DEMO_PREFIX):
            return DemoModel(entry.removeprefix(DEMO_PREFIX))
        # `~` is the home folder, a relative path starts at the file.
        return LocalModel(file.parent / home_expanded(entry))
    if not isinstance(entry, dict):
        raise CatalogError(
            f"{where} must be a path in quotes or a table.", 'Write { repo = "owner/name", quant = "Q8_0" }.'
        )
    refuse_unknown(entry, _MODEL_KEYS, where)
    repo, sha256 = text(entry, "repo", where), text(entry, "sha256", where)
    if not repo or not is_repository(repo):
        raise CatalogError(f"{where}.repo must name a repository.", 'Write it as repo = "owner/name".')
    if sha256 is not None and not (len(sha256) == _SHA256_DIGITS and set(sha256.lower()) <= set("0123456789abcdef")):
        raise CatalogError(f"{where}.sha256 must be {_SHA256_DIGITS} hexadecimal digits.", "Leave it out if unknown.")
    return HubModel(
        repo,
        quant=text(entry, "quant", where),
        file=text(entry, "file", where),
        revision=text(entry, "revision", where) or DEFAULT_REVISION,
        size=whole(entry, "size", where),
        sha256=sha256.lower() if sha256 else None,
    )


def _working(table: Any, where: str) -> PairOverhead:
    if not isinstance(table, dict):
        raise CatalogError(f"{where} must be a table.", "Write { per_token = bytes, fixed = bytes, main = bytes }.")
    refuse_unknown(table, _WORKING_KEYS, where)
    return PairOverhead(**{key: whole(table, key, where) or 0 for key in _WORKING_KEYS})


T = TypeVar("T", SamplingParams, DraftParams)


def whole(entry: Mapping[str, Any], key: str, where: str) -> int | None:
    """Return a whole number above 0, or None."""
    value = entry.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise CatalogError(f"{where}.{key} must be a whole number above 0.")
    if value is not None and value > MAX_SIZE:
        raise CatalogError(f"{where}.{key} is larger than can be meant.")
    return value


def text(entry: Mapping[str, Any], key: str, where: str) -> str | None:
    """Return a text, or None."""
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise CatalogError(f"{where}.{key} must be a text in quotes.")
    return value


def params(default: T, table: Any, keys: Sequence[str], where: str) -> T:
    """Return the default with the numbers of a table."""
    if not isinstance(table, dict):
        raise CatalogError(f"{where} must be a table.", "Write it as { name = value, ... }.")
    refuse_unknown(table, keys, where)
    for key, value in table.items():
        expected = type(getattr(default, key)) if getattr(default, key) is not None else int
        broken = expected is int and isinstance(value, float) and not value.is_integer()
        if isinstance(value, bool) or not isinstance(value, int | float) or broken:
            raise CatalogError(f"{where}.{key} must be {'a whole' if expected is int else 'a'} number.")
    try:
        return replace(default, **table)
    except UsageError as error:
        raise CatalogError(f"{where}: {error.message}") from error


def refuse_unknown(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    """Raise CatalogError for an unknown key; it suggests the nearest."""
    for key in table:
        if key not in keys:
            meant = nearest(key, keys)
            hint = "Fix that line, or take it out." if meant else f"Known: {', '.join(keys)}."
            raise CatalogError(f'{where} has the unknown key "{key}".{meant}', hint)


def nearest(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """Return a question that suggests the nearest word; "" without one."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
