"""Pairs by name: the catalogue that ships with Tandem, and the user's own over it."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from app.engine.types import DraftParams, SamplingParams
from app.errors import CatalogError, UsageError

DEMO_PREFIX = "demo:"
_SAMPLING_KEYS = tuple(SamplingParams.__dataclass_fields__)
_DRAFTING_KEYS = tuple(DraftParams.__dataclass_fields__)
_PAIR_KEYS = ("title", "target", "draft", "sampling", "drafting")

T = TypeVar("T", SamplingParams, DraftParams)


@dataclass(frozen=True, slots=True)
class Pair:
    """One entry of a catalogue.

    Attributes:
        name: What `--pair` takes.
        title: One line for people.
        target: Path of the target's file, or a `demo:` name.
        draft: The same for the draft; None for plain decoding.
        sampling: The authors' sampling parameters.
        drafting: Fixed drafting parameters; None for automatic drafting.
    """

    name: str
    title: str
    target: str
    draft: str | None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    drafting: DraftParams | None = None


class Catalog:
    """The known pairs, later files over earlier ones.

    Args:
        files: models.toml files; the first must exist, the others may.

    Raises:
        CatalogError: A file is not TOML, or an entry is wrong; it names file, entry and the nearest known key.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.pairs: dict[str, Pair] = {}
        for index, file in enumerate(files):
            if index == 0 or file.exists():
                self.pairs.update(_read(file))

    def get(self, name: str) -> Pair:
        """The pair of that name.

        Raises:
            CatalogError: There is none; it names the nearest.
        """
        if name in self.pairs:
            return self.pairs[name]
        raise CatalogError(
            f'There is no pair "{name}".{_nearest(name, self.pairs)}', f"Known: {', '.join(self.pairs)}."
        )


def shipped_file() -> Path:
    """The catalogue that comes with Tandem: inside an installed package, beside it in a checkout."""
    here = Path(__file__).parent
    inside = here / "models.toml"
    return inside if inside.exists() else here.parent / "models.toml"


def _read(file: Path) -> dict[str, Pair]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CatalogError(f"{file} cannot be read: {error}.", "Mend it, or move it away.") from error
    _known(table, ("pairs",), f"{file}")
    pairs = table.get("pairs", {})
    if not isinstance(pairs, dict):
        raise CatalogError(f"{file}: pairs must be a table.", "Write [pairs.NAME].")
    return {name: _pair(name, entry, file) for name, entry in pairs.items()}


def _pair(name: str, entry: Any, file: Path) -> Pair:
    where = f"{file}: pairs.{name}"
    if not isinstance(entry, dict):
        raise CatalogError(f"{where} must be a table.", "Write [pairs.NAME].")
    _known(entry, _PAIR_KEYS, where)
    target = _text(entry, "target", where)
    if target is None:
        raise CatalogError(f"{where} has no target.", 'Add target = "/path/to/model.gguf".')
    return Pair(
        name=name,
        title=_text(entry, "title", where) or name,
        target=_beside(target, file),
        draft=_beside(draft, file) if (draft := _text(entry, "draft", where)) else None,
        sampling=_params(SamplingParams(), entry.get("sampling", {}), _SAMPLING_KEYS, f"{where}.sampling"),
        drafting=(
            _params(DraftParams(), entry["drafting"], _DRAFTING_KEYS, f"{where}.drafting")
            if "drafting" in entry
            else None
        ),
    )


def _beside(path: str, file: Path) -> str:
    """A path as written in a file: `~` is the home folder, a relative one starts at the file."""
    return path if path.startswith(DEMO_PREFIX) else str(file.parent / Path(path).expanduser())


def _text(entry: Mapping[str, Any], key: str, where: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise CatalogError(f"{where}.{key} must be a text in quotes.")
    return value


def _params(default: T, table: Any, keys: Sequence[str], where: str) -> T:
    if not isinstance(table, dict):
        raise CatalogError(f"{where} must be a table.", "Write it as { name = value, ... }.")
    _known(table, keys, where)
    for key, value in table.items():
        wanted = type(getattr(default, key)) if getattr(default, key) is not None else int
        if isinstance(value, bool) or not isinstance(value, int | float) or (wanted is int and value != int(value)):
            raise CatalogError(f"{where}.{key} must be {'a whole' if wanted is int else 'a'} number.")
    try:
        return replace(default, **table)
    except UsageError as error:
        raise CatalogError(f"{where}: {error.message}") from error


def _known(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise CatalogError(
                f'{where} has the unknown key "{key}".{_nearest(key, keys)}', f"Known: {', '.join(keys)}."
            )


def _nearest(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
