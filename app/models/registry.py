"""The pairs set up on this machine: their files, and the default pair.

The program writes this file; users write their own models.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from app.core import atomic, regular_file
from app.core.atomic import exclusive
from app.core.errors import STRUCTURE_ERRORS, CatalogError, PairError
from app.core.fixes import fix
from app.core.units import MAX_SIZE
from app.models.catalog import Pair, read_pair, write_pair
from app.models.model_names import part_names
from app.models.source import HubModel, LocalModel, ModelSource

_LOCK_S = 10.0
_MOVE_AWAY = "Move it away; ⟨setup⟩ writes it again and downloads nothing that is here."


@dataclass(frozen=True, slots=True)
class ModelOnDisk:
    """A model to load: its file, or the first part of a split model, and the bytes of all parts."""

    path: Path
    size: int

    @property
    def parts(self) -> tuple[Path, ...]:
        """All of its files, first part first."""
        return tuple(self.path.with_name(name) for name in part_names(self.path.name))


@dataclass(frozen=True, slots=True)
class SetUp:
    """A pair whose files are here."""

    pair: Pair
    target: ModelOnDisk
    draft: ModelOnDisk | None = None
    projector: ModelOnDisk | None = None

    @property
    def models(self) -> tuple[ModelOnDisk, ...]:
        return (self.target,) if self.draft is None else (self.target, self.draft)

    @property
    def parts(self) -> Iterator[Path]:
        """Return all files, including the projector."""
        for model in (*self.models, *((self.projector,) if self.projector is not None else ())):
            yield from model.parts

    def is_of(self, pair: Pair) -> bool:
        """Return whether an entry means these files, however it is written."""
        mine = self.pair.sources
        return len(pair.sources) == len(mine) and all(map(_is_same, pair.sources, mine))

    @property
    def is_here(self) -> bool:
        """Return whether the files still exist."""
        return self._missing is None

    @property
    def _missing(self) -> Path | None:
        parts = (part for model in self.models for part in model.parts)
        return next((part for part in parts if not regular_file.is_file(part)), None)

    @property
    def gone(self) -> PairError:
        """Return the error for a file that is missing or not accessible."""
        missing, name = self._missing or self.target.path, self.pair.name
        lost = (source for source, model in zip(self.pair.sources, self.models, strict=False) if not _is_here(model))
        hint = f"Put it back, or set the pair up again: {fix('setup', name)}"
        # Setup downloads files, but it cannot bring back the user's own.
        if any(isinstance(source, LocalModel) for source in lost):
            hint = f"Put it back, choose another pair (⟨pairs.choose⟩), or remove this one: {fix('pairs.remove', name)}"
        return PairError(f"{missing.name} of the pair {name} is gone from {missing.parent}.", hint)


@dataclass(frozen=True, slots=True)
class Registered:
    """The content of the file.

    Attributes:
        downloaded: Files that Tandem has downloaded, even for unfinished setups.
    """

    pairs: Mapping[str, SetUp] = field(default_factory=dict)
    default: str | None = None
    downloaded: frozenset[Path] = frozenset()

    @property
    def unused(self) -> Mapping[Path, int]:
        """Return downloaded files that no pair uses, with their bytes."""
        # Two revisions of a repository may have a name each for the same file.
        parts = (part for one in self.pairs.values() for part in one.parts)
        used = set(map(regular_file.resolved, parts))
        left = sorted(path for path in self.downloaded if regular_file.resolved(path) not in used)
        return {path: path.stat().st_size for path in left if regular_file.is_file(path)}

    def usable(self, pair: Pair) -> SetUp | None:
        """Return the files of a pair if they are here; a changed entry means other files."""
        one = self.pairs.get(pair.name)
        return one if one is not None and one.is_here and one.is_of(pair) else None

    def in_place_of(self, pair: Pair) -> SetUp | None:
        """Return a pair that was set up under a shipped name before the catalog changed its files.

        It is used until the user sets the pair up again; an entry that the user changed means other files.
        """
        one = self.pairs.get(pair.name)
        return one if pair.shipped and one is not None and one.is_here and not one.is_of(pair) else None


class Registry:
    """The file with the registered pairs.

    Every change reads it again under a lock, so that two programs do not undo each other's changes.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Registered:
        """Return the registered pairs. Raises CatalogError for a damaged file."""
        table = regular_file.read_toml(self._file, CatalogError, _MOVE_AWAY, missing_ok=True)
        try:
            return _registered(table, self._file)
        except CatalogError as error:
            raise CatalogError(error.message, _MOVE_AWAY) from error
        except STRUCTURE_ERRORS as error:
            raise CatalogError(f"{self._file} cannot be read: its structure is wrong.", _MOVE_AWAY) from error

    def add(self, pair: SetUp, *, default: bool | None = None) -> None:
        """Register a pair, replacing any pair of the same name.

        Args:
            default: Whether it becomes the default pair; the demo never replaces another pair. With None, it becomes
                the default if there is no default pair, or only the demo.
        """

        def change(now: Registered) -> Registered:
            name, was = pair.pair.name, now.pairs.get(now.default or "")
            wanted = default if default is not None else was is None or was.pair.is_demo
            becomes = wanted and (was is None or not pair.pair.is_demo)
            return replace(now, pairs={**now.pairs, name: pair}, default=name if becomes else now.default)

        self._change(change)

    def set_default(self, name: str) -> None:
        """Make a pair the default."""
        self._change(lambda now: replace(now, default=name))

    def remove(self, name: str) -> None:
        """Forget a pair; its files stay."""

        def change(now: Registered) -> Registered:
            pairs = {key: one for key, one in now.pairs.items() if key != name}
            return replace(now, pairs=pairs, default=now.default if now.default != name else None)

        self._change(change)

    def claim(self, path: Path) -> None:
        """Record that Tandem has downloaded a file."""
        self._change(lambda now: replace(now, downloaded=now.downloaded | {path}))

    def release(self, paths: Sequence[Path]) -> None:
        """Forget deleted files."""
        self._change(lambda now: replace(now, downloaded=now.downloaded - set(paths)))

    def _change(self, change: Callable[[Registered], Registered]) -> None:
        with exclusive(self._file, CatalogError, timeout_s=_LOCK_S):
            now = change(self.read())
            table: dict[str, Any] = {"default": now.default} if now.default else {}
            if now.downloaded:
                table["downloaded"] = sorted(map(str, now.downloaded))
            table["pairs"] = {name: _entry(pair) for name, pair in now.pairs.items()}
            atomic.write(self._file, tomli_w.dumps(table).encode())


def _is_here(model: ModelOnDisk) -> bool:
    return all(map(regular_file.is_file, model.parts))


def _is_same(source: ModelSource, other: ModelSource) -> bool:
    """Return whether two sources mean the same file: by their checksums if both are known."""
    if isinstance(source, HubModel) and isinstance(other, HubModel) and source.sha256 and other.sha256:
        return source.sha256 == other.sha256
    return source == other


def _registered(table: Mapping[str, Any], file: Path) -> Registered:
    pairs = {
        name: SetUp(
            read_pair(name, entry["entry"], file),
            _model(entry["target"]),
            *(_model(entry[role]) if role in entry else None for role in ("draft", "projector")),
        )
        for name, entry in table.get("pairs", {}).items()
    }
    default = table.get("default")
    downloaded = frozenset(Path(path) for path in table.get("downloaded", ()))
    return Registered(pairs, default if default in set(pairs) else None, downloaded)


def _entry(pair: SetUp) -> dict[str, Any]:
    models = {"target": pair.target, "draft": pair.draft, "projector": pair.projector}
    return {"entry": write_pair(pair.pair)} | {
        role: {"path": str(model.path), "size": model.size} for role, model in models.items() if model is not None
    }


def _model(entry: Mapping[str, Any]) -> ModelOnDisk:
    path, size = Path(entry["path"]), int(entry["size"])
    if not path.name or not 0 <= size <= MAX_SIZE:
        raise ValueError("a name or a size that no file has")
    return ModelOnDisk(path, size)
