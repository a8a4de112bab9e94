"""The pairs set up on this machine: their files, and the default pair.

The program writes this file; users write their own models.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from app.core import atomic, regular_file
from app.core.atomic import exclusive
from app.core.errors import CatalogError, PairError
from app.core.shell import quoted
from app.core.units import MAX_SIZE
from app.models.catalog import Pair, first_of, read_pair, write_pair
from app.models.model_names import plain, quantization
from app.models.source import HubModel, ModelSource

_LOCK_S = 10.0
_INVALID = (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Raised by reading a table that has another shape."""


@dataclass(frozen=True, slots=True)
class ModelOnDisk:
    """A model that can be loaded.

    Attributes:
        path: The file to load, of a split model the first part.
        size: Bytes of all parts.
        repo: Repository it came from; "" for a file of the user.
        commit: Its revision.
        files: Names in the repository, first part first.
        ours: Tandem downloaded it; other files are not deleted without asking.
    """

    path: Path
    size: int
    repo: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    ours: bool = False

    @property
    def parts(self) -> tuple[Path, ...]:
        """All of its files, first part first."""
        if len(self.files) < 2:
            return (self.path,)
        return tuple(self.path.parent / name.rsplit("/", 1)[-1] for name in self.files)


@dataclass(frozen=True, slots=True)
class SetUp:
    """A pair whose files are here.

    Attributes:
        pair: The pair.
        target: The target's file.
        draft: The draft's file, or None.
    """

    pair: Pair
    target: ModelOnDisk
    draft: ModelOnDisk | None = None

    @property
    def models(self) -> tuple[ModelOnDisk, ...]:
        return (self.target,) if self.draft is None else (self.target, self.draft)

    def is_of(self, pair: Pair) -> bool:
        """Return whether an entry means these files, however it is written."""
        mine = zip(pair.sources, self.pair.sources, self.models, strict=False)
        return len(pair.sources) == len(self.pair.sources) and all(_means(*one) for one in mine)

    @property
    def is_here(self) -> bool:
        """The files still exist."""
        return self._missing is None

    @property
    def _missing(self) -> Path | None:
        parts = (part for model in self.models for part in model.parts)
        return next((part for part in parts if not regular_file.is_file(part)), None)

    @property
    def gone(self) -> PairError:
        """The error for a file that is missing or not accessible."""
        missing = self._missing or self.target.path
        again = f"Bring it back: tandem setup {quoted(self.pair.name)}"
        other = "Put it back, or choose another pair: tandem pairs list"
        return PairError(
            f"{missing.name} of the pair {self.pair.name} is gone from {missing.parent}.",
            again if any(model.repo and missing in model.parts for model in self.models) else other,
        )


@dataclass(frozen=True, slots=True)
class Registered:
    """The content of the file.

    Attributes:
        pairs: By name, in the order they were set up.
        default: Name of the default pair, or None.
        downloaded: Files that Tandem has downloaded, also of unfinished setups.
        problems: Why an entry cannot be read, by its name; a newer Tandem may have written it, so it is kept.
    """

    pairs: Mapping[str, SetUp] = field(default_factory=dict)
    default: str | None = None
    downloaded: frozenset[Path] = frozenset()
    problems: Mapping[str, CatalogError] = field(default_factory=dict)

    @property
    def trouble(self) -> CatalogError | None:
        """The first problem and the number of others; None without any."""
        return first_of(self.problems)

    @property
    def unused(self) -> Mapping[Path, int]:
        """Downloaded files that no pair uses, in bytes; none while an entry cannot be read."""
        if self.problems:
            return {}
        # Two revisions of a repository may have a name each for the same file.
        parts = (part for one in self.pairs.values() for model in one.models for part in model.parts)
        used = set(map(regular_file.resolved, parts))
        left = sorted(path for path in self.downloaded if regular_file.resolved(path) not in used)
        return {path: path.stat().st_size for path in left if regular_file.is_file(path)}

    def usable(self, pair: Pair) -> SetUp | None:
        """Return the files of a pair if they are here; a changed entry means other files."""
        one = self.pairs.get(pair.name)
        return one if one is not None and one.is_here and one.is_of(pair) else None

    def in_place_of(self, pair: Pair) -> SetUp | None:
        """Return a pair that was set up under a shipped name before the catalog entry changed its files.

        It is used until the user sets the pair up again; an entry that the user changed asks for other files.
        """
        one = self.pairs.get(pair.name)
        return one if pair.shipped and one is not None and one.is_here and not one.is_of(pair) else None


class Registry:
    """The file with the pairs that were set up.

    Every change reads it again under a lock, so that two programs do not undo each other.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Registered:
        """Return the pairs that are set up.

        Raises:
            CatalogError: The file is damaged.
        """
        return self._read()[0]

    def _read(self) -> tuple[Registered, Mapping[str, Any]]:
        """Return the content, and the table that it was read from."""
        try:
            table = regular_file.read_toml(self._file)
            return self._registered(table), table
        except (FileNotFoundError, NotADirectoryError):
            return Registered(), {}
        except (OSError, *_INVALID) as error:
            raise CatalogError(
                f"{self._file} cannot be read: {_why(error)}.",
                "Move it away; tandem setup writes it again and downloads nothing that is here.",
            ) from error

    def _registered(self, table: Mapping[str, Any]) -> Registered:
        pairs: dict[str, SetUp] = {}
        problems: dict[str, CatalogError] = {}
        for name, entry in table.get("pairs", {}).items():
            hint = f"Set it up again, or forget it: tandem pairs remove {quoted(name)}"
            try:
                draft = _model(entry["draft"]) if "draft" in entry else None
                pairs[name] = SetUp(read_pair(name, entry["entry"], self._file), _model(entry["target"]), draft)
            except CatalogError as error:
                problems[name] = CatalogError(error.message, hint)
            except _INVALID as error:
                problems[name] = CatalogError(f"{self._file}: pairs.{name} cannot be read: {_why(error)}.", hint)
        default = table.get("default")
        downloaded = frozenset(Path(path) for path in table.get("downloaded", ()))
        return Registered(pairs, default if default in {*pairs, *problems} else None, downloaded, problems)

    def add(self, pair: SetUp, *, default: bool, first: bool = True) -> None:
        """Register a pair, in place of one of the same name.

        Args:
            pair: The pair.
            default: It becomes the default pair; the demo does not if another pair is set up.
            first: It becomes the default pair if no other pair but the demo is set up.
        """

        def change(now: Registered) -> Registered:
            name = pair.pair.name
            others = {key: one for key, one in now.pairs.items() if key != name}
            problems = {key: one for key, one in now.problems.items() if key != name}
            has_others = bool(problems) or any(not one.pair.is_demo for one in others.values())
            was = now.pairs.get(now.default or "")
            if pair.pair.is_demo:
                becomes = (default or first) and now.default is None and not has_others
            else:
                # The first real pair replaces a demo that is the default only because it came first.
                was_demo = was is not None and was.pair.is_demo and not has_others
                becomes = default or (first and (now.default is None or was_demo))
            pairs = {**now.pairs, name: pair}
            return replace(now, pairs=pairs, problems=problems, default=name if becomes else now.default)

        self._change(change)

    def set_default(self, name: str) -> None:
        """Make a pair the default."""
        self._change(lambda now: replace(now, default=name))

    def remove(self, name: str) -> None:
        """Forget a pair; its files stay."""

        def change(now: Registered) -> Registered:
            pairs = {key: one for key, one in now.pairs.items() if key != name}
            problems = {key: one for key, one in now.problems.items() if key != name}
            return replace(now, pairs=pairs, problems=problems, default=now.default if now.default != name else None)

        self._change(change)

    def claim(self, path: Path) -> None:
        """Remember that Tandem has downloaded a file."""
        self._change(lambda now: replace(now, downloaded=now.downloaded | {path}))

    def release(self, paths: Sequence[Path]) -> None:
        """Forget files that are deleted."""
        self._change(lambda now: replace(now, downloaded=now.downloaded - set(paths)))

    def _change(self, change: Callable[[Registered], Registered]) -> None:
        """Change the file; values and entries that this version does not know stay."""
        with exclusive(self._file, CatalogError, timeout_s=_LOCK_S):
            before, table = self._read()
            now = change(before)
            old = table.get("pairs", {})
            pairs = {name: entry for name, entry in old.items() if name in now.pairs or name in now.problems}
            pairs |= {name: _entry(pair) for name, pair in now.pairs.items() if pair != before.pairs.get(name)}
            known: dict[str, Any] = {"default": now.default} if now.default else {}
            if now.downloaded:
                known["downloaded"] = sorted(map(str, now.downloaded))
            more = {key: value for key, value in table.items() if key not in ("default", "downloaded", "pairs")}
            atomic.write(self._file, tomli_w.dumps({**known, **more, "pairs": pairs}).encode())


def _means(source: ModelSource, was: ModelSource, model: ModelOnDisk) -> bool:
    """Return whether a source means the model that was set up for another source."""
    if not (isinstance(source, HubModel) and isinstance(was, HubModel)):
        return source == was
    if source.sha256 is not None and was.sha256 is not None:
        return source.sha256 == was.sha256
    if source.repo != was.repo or source.revision not in (was.revision, model.commit):
        return False
    if source.file is not None:
        return source.file in model.files
    if source.quant is None:
        # The choice is Tandem's, which it made only if nothing was named before either.
        return was.file is None and was.quant is None
    told = was.quant or "", quantization(model.files[0] if model.files else model.path.name)
    return plain(source.quant) in map(plain, told)


def _why(error: Exception) -> str:
    is_malformed = isinstance(error, KeyError | TypeError | AttributeError)
    return "its structure is wrong" if is_malformed else regular_file.reason(error)


def _entry(pair: SetUp) -> dict[str, Any]:
    draft = {"draft": _model_entry(pair.draft)} if pair.draft is not None else {}
    return {"entry": write_pair(pair.pair), "target": _model_entry(pair.target), **draft}


def _model_entry(model: ModelOnDisk) -> dict[str, Any]:
    return {**asdict(model), "path": str(model.path), "files": list(model.files)}


def _model(entry: Mapping[str, Any]) -> ModelOnDisk:
    size = int(entry["size"])
    if not 0 <= size <= MAX_SIZE:
        raise ValueError("a size that no file has")
    return ModelOnDisk(
        path=Path(entry["path"]),
        size=size,
        repo=str(entry.get("repo", "")),
        commit=str(entry.get("commit", "")),
        files=tuple(map(str, entry.get("files", ()))),
        ours=entry.get("ours") is True,
    )
