"""The pairs that were set up on this machine: their files, and which one is taken by default.

The program writes this file; what a person writes stands in their own models.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from app.core import atomic, regular_file
from app.core.errors import CatalogError, PairError
from app.core.file_lock import exclusive
from app.core.shell import quoted
from app.core.toml import read_toml, reason
from app.core.units import MAX_SIZE
from app.models.catalog import Pair, first_of, read_pair, write_pair
from app.models.model_names import plain, quantization
from app.models.source import HubModel, ModelSource

_LOCK_S = 10.0
_NOT_MEANT = (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What making values of a table may raise, anyone who wrote it."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ModelOnDisk:
    """A model that can be loaded.

    Attributes:
        path: The file to load, of a split model the first part.
        size: Bytes of all parts.
        repo: Repository it came from; "" for a file of the user's own.
        commit: Its revision.
        files: Names in the repository, first part first.
        ours: Whether this program downloaded it; only then may it be deleted without asking.
    """

    path: Path
    size: int
    repo: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    ours: bool = False

    @property
    def parts(self) -> tuple[Path, ...]:
        """Return where all of its files lie, first part first."""
        if len(self.files) < 2:
            return (self.path,)
        return tuple(self.path.parent / name.rsplit("/", 1)[-1] for name in self.files)


@dataclass(frozen=True, slots=True)
class SetUp:
    """A pair whose files are here.

    Attributes:
        pair: What it is.
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
        mine = zip(pair.sources, self.pair.sources, (self.target, self.draft), strict=False)
        return len(pair.sources) == len(self.pair.sources) and all(_means(*one) for one in mine)

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
        """Return what to say where a file does not exist any more, or may not be looked at."""
        missing = self._missing or self.target.path
        if regular_file.is_closed(missing):
            return PairError(
                f"{missing.name} of the pair {self.pair.name} cannot be looked at in {missing.parent}.",
                "Check who may open that folder, and what lies there.",
            )
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
        default: Name of the pair that is taken when none is named, or None.
        downloaded: Files that this program has brought, whether or not their pair was finished.
        problems: Why an entry cannot be read, by its name: a hand or a newer Tandem may have written it. It stays as it
            is, and the other pairs go on.
        held: The models that such entries name, as far as can be told.
    """

    pairs: Mapping[str, SetUp] = field(default_factory=dict)
    default: str | None = None
    downloaded: frozenset[Path] = frozenset()
    problems: Mapping[str, CatalogError] = field(default_factory=dict)
    held: tuple[ModelOnDisk, ...] = ()

    @property
    def trouble(self) -> CatalogError | None:
        """The first problem, and how many more there are; None without any."""
        return first_of(self.problems)

    @property
    def unused(self) -> Mapping[Path, int]:
        """Return what this program has brought and no pair has, in bytes.

        Its pair was set up again with other files, forgotten without them, or never finished.
        """
        models = [*(model for one in self.pairs.values() for model in one.models), *self.held]
        # Two revisions of a repository may have the same file, under a name each.
        used = {regular_file.resolved(part) for model in models for part in model.parts}
        left = sorted(path for path in self.downloaded if regular_file.resolved(path) not in used)
        return {path: path.stat().st_size for path in left if regular_file.is_file(path)}

    def usable(self, pair: Pair) -> SetUp | None:
        """What was set up for a pair, if that is still here; an entry that was changed since then means other files."""
        one = self.pairs.get(pair.name)
        return one if one is not None and one.is_here and one.is_of(pair) else None

    def in_place_of(self, pair: Pair) -> SetUp | None:
        """Return what was set up under the name of a pair that another release of Tandem makes of other files.

        It goes on being that pair: no one has asked for the other files, and those that are here work. An entry that
        the user changes asks for them.
        """
        one = self.pairs.get(pair.name)
        return one if pair.shipped and one is not None and one.is_here and not one.is_of(pair) else None


class Registry:
    """The file with the pairs that were set up.

    Every change reads it again, so that two programs do not undo each other.

    Args:
        file: Where it is, or will be.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Registered:
        """Return what is set up.

        Raises:
            CatalogError: The file is damaged.
        """
        known, _ = self._read()
        return known

    def _read(self) -> tuple[Registered, Mapping[str, Any]]:
        """Return what is set up, and the table that says so."""
        try:
            table = read_toml(regular_file.read_text(self._file))
            return self._registered(table), table
        except (FileNotFoundError, NotADirectoryError):
            return Registered(), {}
        except (OSError, *_NOT_MEANT) as error:
            raise CatalogError(
                f"{self._file} cannot be read: {_why(error)}.",
                "Move it away; tandem setup writes it again and downloads nothing that is here.",
            ) from error

    def _registered(self, table: Mapping[str, Any]) -> Registered:
        pairs: dict[str, SetUp] = {}
        problems: dict[str, CatalogError] = {}
        held: list[ModelOnDisk] = []
        for name, entry in table.get("pairs", {}).items():
            try:
                pairs[name] = self._set_up(name, entry)
            except (CatalogError, *_NOT_MEANT) as error:
                said = error.message if isinstance(error, CatalogError) else self._unlike_a_pair(name, error)
                problems[name] = CatalogError(
                    said, f"Set it up again, or forget it: tandem pairs remove {quoted(name)}"
                )
                held += _named_in(entry)
        default = table.get("default")
        downloaded = frozenset(Path(path) for path in table.get("downloaded", ()))
        known = default if default in pairs or default in problems else None
        return Registered(pairs, known, downloaded, problems, tuple(held))

    def _unlike_a_pair(self, name: str, error: Exception) -> str:
        return f"{self._file}: pairs.{name} cannot be read: {_why(error)}."

    def add(self, pair: SetUp, *, default: bool, first: bool = True) -> None:
        """Remember a pair, in place of one of the same name.

        Args:
            pair: The pair.
            default: Whether it becomes the default pair; the demo does not if another pair is set up.
            first: Whether it becomes the default pair if no other pair but the demo is set up.
        """

        def change(now: Registered) -> Registered:
            name = pair.pair.name
            pairs, problems = {**now.pairs, name: pair}, _without(now.problems, name)
            has_others = bool(problems) or any(not one.pair.is_demo for key, one in now.pairs.items() if key != name)
            was = now.pairs.get(now.default or "")
            if pair.pair.is_demo:
                becomes = (default or first) and now.default is None and not has_others
            else:
                # The first real pair replaces a demo that is the default only because it came first.
                was_trial = was is not None and was.pair.is_demo and not has_others
                becomes = default or (first and (now.default is None or was_trial))
            return replace(now, pairs=pairs, problems=problems, default=name if becomes else now.default)

        self._change(change)

    def set_default(self, name: str) -> None:
        """Take this pair when none is named."""
        self._change(lambda now: replace(now, default=name))

    def remove(self, name: str) -> None:
        """Forget a pair; its files stay."""

        def change(now: Registered) -> Registered:
            left, problems = _without(now.pairs, name), _without(now.problems, name)
            return replace(now, pairs=left, problems=problems, default=now.default if now.default != name else None)

        self._change(change)

    def claim(self, path: Path) -> None:
        """Remember that this program has downloaded a file."""
        self._change(lambda now: replace(now, downloaded=now.downloaded | {path}))

    def release(self, paths: Sequence[Path]) -> None:
        """Forget files that are deleted."""
        self._change(lambda now: replace(now, downloaded=now.downloaded - set(paths)))

    def _change(self, change: Callable[[Registered], Registered]) -> None:
        with exclusive(self._file, CatalogError, timeout_s=_LOCK_S):
            before, table = self._read()
            self._write(change(before), before, table)

    def _write(self, content: Registered, before: Registered, table: Mapping[str, Any]) -> None:
        """Write what has changed into the table that said what was before; what is not known of it stays."""
        default = {"default": content.default} if content.default else {}
        downloaded = {"downloaded": sorted(map(str, content.downloaded))} if content.downloaded else {}
        more = {key: value for key, value in table.items() if key not in ("default", "downloaded", "pairs")}
        old = table.get("pairs", {})
        pairs = {name: entry for name, entry in old.items() if name in content.pairs or name in content.problems}
        pairs |= {name: _entry(pair) for name, pair in content.pairs.items() if pair != before.pairs.get(name)}
        atomic.write(self._file, tomli_w.dumps({**default, **downloaded, **more, "pairs": pairs}).encode())

    def _set_up(self, name: str, entry: Mapping[str, Any]) -> SetUp:
        return SetUp(
            read_pair(name, entry["entry"], self._file),
            _model(entry["target"]),
            _model(entry["draft"]) if "draft" in entry else None,
        )


def _means(source: ModelSource, was: ModelSource, model: ModelOnDisk | None) -> bool:
    """Whether a source means the model that was set up for another one, or for the same one written otherwise."""
    if not (isinstance(source, HubModel) and isinstance(was, HubModel)) or model is None:
        return source == was
    if source.sha256 is not None and was.sha256 is not None:
        return source.sha256 == was.sha256
    if source.repo != was.repo or source.revision not in (was.revision, model.commit):
        return False
    if source.file is not None:
        return source.file in model.files
    if source.quant is None:
        # Then the choice is the program's; it has made it only where nothing was named before either.
        return was.file is None and was.quant is None
    told = (was.quant or "", quantization(model.files[0] if model.files else model.path.name))
    return plain(source.quant) in map(plain, told)


def _why(error: Exception) -> str:
    is_malformed = isinstance(error, KeyError | TypeError | AttributeError)
    return "its structure is wrong" if is_malformed else reason(error)


def _without(table: Mapping[str, _T], name: str) -> dict[str, _T]:
    return {key: value for key, value in table.items() if key != name}


def _named_in(entry: Any) -> list[ModelOnDisk]:
    """The models that an entry names which is not one, for they may be needed."""
    models = [part for part in entry.values() if isinstance(part, dict)] if isinstance(entry, dict) else []
    named = [model for model in models if isinstance(model.get("path"), str)]
    lists = [files if isinstance(files := model.get("files"), list) else [] for model in named]
    return [
        ModelOnDisk(Path(model["path"]), 0, files=tuple(map(str, files)))
        for model, files in zip(named, lists, strict=True)
    ]


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
