"""Pairs by name: Tandem's catalog, and the user's entries, which take precedence."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from app.core import regular_file
from app.core.errors import CatalogError, UsageError
from app.core.regular_file import home_expanded
from app.core.units import MAX_SIZE
from app.engine.types import DraftParams, SamplingParams
from app.models.source import (
    DEFAULT_REVISION,
    DEMO_PREFIX,
    DemoModel,
    HubModel,
    LocalModel,
    ModelSource,
    is_repository,
)
from app.settings.table import nearest

_TEXT_KEYS = ("title", "family", "good_at", "license", "tested_with")
_FORMER_KEYS = {"licence": "license"}
"""Earlier spellings of keys, still read."""
_NUMBER_KEYS = ("memory_gb", "bytes_per_token", "expert_bytes", "expert_layers", "context")
_PAIR_KEYS = (*_TEXT_KEYS, *_NUMBER_KEYS, "working", "published", "target", "draft", "sampling", "drafting")
_CATALOG_FIX = "Fix it, or move it away; no pair in it is known until then."
_SPEED_KEYS = ("gpu", "without", "with", "source")
_MODEL_KEYS = ("repo", "file", "quant", "size", "sha256", "revision")
_PAYING_SPEEDUP = 1.1
"""Smallest published speedup at which drafting is known to pay."""


@dataclass(frozen=True, slots=True)
class PublishedSpeed:
    """Tokens per second that others measured on `gpu`, without and with drafts; `source` is where they published it."""

    gpu: str
    without_drafts: float
    with_drafts: float
    source: str

    @property
    def speedup(self) -> float:
        return self.with_drafts / self.without_drafts

    def __str__(self) -> str:
        speeds = f"{self.without_drafts:g} to {self.with_drafts:g} tok/s, {self.speedup:.2f}×"
        return f"{self.gpu}: {speeds} ({self.source})"


class WorkingMemory(NamedTuple):
    """Memory of a pair besides its weights, in bytes.

    Attributes:
        per_token: Bytes for each token of context: KV caches at 16 bits, and growth of buffers.
        fixed: Bytes of buffers and recurrent states at any context.
        main: Bytes that are always in RAM: logits, tokenizers, saved states.
    """

    per_token: int
    fixed: int
    main: int


@dataclass(frozen=True, slots=True)
class Pair:
    """An entry of a catalog; models.toml describes the keys.

    Attributes:
        name: Argument of `--pair`.
        title: One line for people.
        drafting: Fixed drafting parameters; None for automatic drafting.
        bytes_per_token: Bytes that the target reads for one token; 0 for all of its weights.
        expert_bytes: Size of the target's experts; 0 if unknown.
        working: Memory besides the weights, if known.
    """

    name: str
    title: str
    target: ModelSource
    draft: ModelSource | None
    sampling: Mapping[str, float] = field(default_factory=dict)
    drafting: DraftParams | None = None
    family: str = ""
    good_at: str = ""
    memory_gb: int = 0
    context: int = 0
    license: str = ""
    tested_with: str = ""
    bytes_per_token: int = 0
    expert_bytes: int = 0
    expert_layers: int = 0
    working: WorkingMemory | None = None
    published: tuple[PublishedSpeed, ...] = ()
    shipped: bool = field(default=False, compare=False, repr=False)

    @property
    def is_demo(self) -> bool:
        """Whether it is the tiny pair for trying Tandem; it never replaces another default pair automatically."""
        return isinstance(self.target, DemoModel)

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """Target and draft, if there is one."""
        return (self.target,) if self.draft is None else (self.target, self.draft)

    @property
    def is_known_to_pay(self) -> bool:
        """Return whether the best published speed shows that drafting pays."""
        return any(speed.speedup >= _PAYING_SPEEDUP for speed in self.published)


class Catalog:
    """The known pairs: Tandem's, and the user's, which take precedence.

    Args:
        own: The user's models.toml, which may not exist.

    Raises:
        CatalogError: Tandem's file cannot be read.
    """

    def __init__(self, file: Path, own: Path | None = None) -> None:
        self.pairs = dict(_shipped(file))
        self.unread: CatalogError | None = None
        """Why the user's file cannot be read; then none of its pairs is known."""
        if own is not None and not regular_file.is_gone(own):
            try:
                self.pairs |= _read(own)
            except CatalogError as error:
                self.unread = error


def shipped_file() -> Path:
    """Return Tandem's catalog: inside an installed package, beside it in a checkout."""
    here = Path(__file__).parents[1]
    inside = here / "models.toml"
    return inside if inside.exists() else here.parent / "models.toml"


@cache
def _shipped(file: Path) -> dict[str, Pair]:
    return _read(file, shipped=True)


def _read(file: Path, *, shipped: bool = False) -> dict[str, Pair]:
    table = regular_file.read_toml(file, CatalogError, _CATALOG_FIX)
    check_table(table, ("pairs",), f"{file}", "")
    pairs = table.get("pairs", {})
    if not isinstance(pairs, dict):
        raise CatalogError(f"{file}: pairs must be a table.", "Write [pairs.NAME].")
    return {name: replace(read_pair(name, entry, file), shipped=shipped) for name, entry in pairs.items()}


def read_pair(name: str, entry: Any, file: Path) -> Pair:
    """Read an entry of a catalog file. Raises CatalogError that names file, entry and key."""
    where = f"{file}: pairs.{name}"
    if isinstance(entry, dict):
        entry = {_FORMER_KEYS.get(key, key): value for key, value in entry.items()}
    check_table(entry, _PAIR_KEYS, where, "Write [pairs.NAME].")
    if "target" not in entry:
        raise CatalogError(
            f"{where} has no target.",
            'Add target = "/path/to/model.gguf" or { repo = "owner/name", quant = "Q4_K_M" }.',
        )
    fields: dict[str, Any] = {key: text(entry, key, where) or "" for key in _TEXT_KEYS}
    fields |= {key: whole(entry, key, where) or 0 for key in _NUMBER_KEYS}
    fields["title"] = fields["title"] or name
    sampling, drafting = entry.get("sampling", {}), entry.get("drafting")
    params(SamplingParams(), sampling, f"{where}.sampling")
    return Pair(
        **fields,
        name=name,
        target=_source(entry["target"], f"{where}.target", file),
        draft=_source(entry["draft"], f"{where}.draft", file) if "draft" in entry else None,
        working=_working(entry["working"], f"{where}.working") if "working" in entry else None,
        published=_published(entry.get("published", []), f"{where}.published"),
        sampling=dict(sampling),
        drafting=params(DraftParams(), drafting, f"{where}.drafting") if drafting is not None else None,
    )


def write_pair(pair: Pair) -> dict[str, Any]:
    """Return the entry from which `read_pair` restores this pair; paths are absolute."""
    entry: dict[str, Any] = {key: value for key in (*_TEXT_KEYS, *_NUMBER_KEYS) if (value := getattr(pair, key))}
    if pair.working is not None:
        entry["working"] = {key: value for key, value in pair.working._asdict().items() if value}
    if pair.published:
        entry["published"] = [dict(zip(_SPEED_KEYS, astuple(speed), strict=True)) for speed in pair.published]
    entry["target"] = _write_source(pair.target)
    if pair.draft is not None:
        entry["draft"] = _write_source(pair.draft)
    if pair.sampling:
        entry["sampling"] = dict(pair.sampling)
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
        # `~` is the home folder; a relative path starts at the file.
        return LocalModel(file.parent / home_expanded(entry))
    check_table(entry, _MODEL_KEYS, where, 'Write a path in quotes, or { repo = "owner/name", quant = "Q8_0" }.')
    repo, sha256 = text(entry, "repo", where), text(entry, "sha256", where)
    if not repo or not is_repository(repo):
        raise CatalogError(f"{where}.repo must name a repository.", 'Write it as repo = "owner/name".')
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        told = f"it has {len(sha256)} characters" if len(sha256) != 64 else "it has other characters"
        fix = "Copy it from the file's page on Hugging Face, or leave it out."
        raise CatalogError(f"{where}.sha256 must be 64 hexadecimal digits; {told}.", fix)
    return HubModel(
        repo,
        quant=text(entry, "quant", where),
        file=text(entry, "file", where),
        revision=text(entry, "revision", where) or DEFAULT_REVISION,
        size=whole(entry, "size", where),
        sha256=sha256.lower() if sha256 else None,
    )


def _working(table: Any, where: str) -> WorkingMemory:
    check_table(table, WorkingMemory._fields, where, "Write { per_token = bytes, fixed = bytes, main = bytes }.")
    return WorkingMemory(*(whole(table, key, where) or 0 for key in WorkingMemory._fields))


def _published(entries: Any, where: str) -> tuple[PublishedSpeed, ...]:
    how = 'Write [{ gpu = "RTX 4090", without = 44.7, with = 84.9, source = "where it was published" }].'
    if not isinstance(entries, list):
        raise CatalogError(f"{where} must be a list of tables.", how)
    found = []
    for entry in entries:
        check_table(entry, _SPEED_KEYS, where, how)
        gpu, source = text(entry, "gpu", where), text(entry, "source", where)
        without, with_drafts = entry.get("without"), entry.get("with")
        is_valid = all(type(n) in (int, float) and 0 < n < math.inf for n in (without, with_drafts))
        if not (gpu and source and is_valid):
            raise CatalogError(f"{where} needs gpu, without, with and source; speeds are above 0.", how)
        found.append(PublishedSpeed(gpu, without, with_drafts, source))
    return tuple(found)


T = TypeVar("T", SamplingParams, DraftParams)


def whole(entry: Mapping[str, Any], key: str, where: str) -> int | None:
    """Return a whole number above 0, if it is given."""
    value = entry.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise CatalogError(f"{where}.{key} must be a whole number above 0.")
    if value is not None and value > MAX_SIZE:
        raise CatalogError(f"{where}.{key} is too large.")
    return value


def text(entry: Mapping[str, Any], key: str, where: str) -> str | None:
    """Return a text, if it is given."""
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise CatalogError(f"{where}.{key} must be a text in quotes.")
    return value


def params(default: T, table: Any, where: str) -> T:
    """Return the default updated with the numbers of a table."""
    check_table(table, list(default.__dataclass_fields__), where, "Write it as { name = value, ... }.")
    for key, value in table.items():
        expected = type(getattr(default, key)) if getattr(default, key) is not None else int
        broken = expected is int and isinstance(value, float) and not value.is_integer()
        if isinstance(value, bool) or not isinstance(value, int | float) or broken:
            raise CatalogError(f"{where}.{key} must be {'a whole' if expected is int else 'a'} number.")
    try:
        return replace(default, **table)
    except UsageError as error:
        raise CatalogError(f"{where}: {error.message}") from error


def check_table(table: Any, keys: Sequence[str], where: str, how: str) -> None:
    """Raise CatalogError with the fix `how` for anything but a table, and for an unknown key with the nearest key."""
    if not isinstance(table, dict):
        raise CatalogError(f"{where} must be a table.", how)
    for key in table:
        if key not in keys:
            meant = nearest(key, keys)
            hint = "Fix that line, or take it out." if meant else f"Known: {', '.join(keys)}."
            raise CatalogError(f'{where} has the unknown key "{key}".{meant}', hint)
