"""The pair that the chat has: which of the list it is, whatever way it was opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from app.core.regular_file import resolved
from app.models.catalog import Pair
from app.models.pair_names import free_name, pair_name
from app.models.pair_size import model_bytes
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import LocalModel, ModelSource

Current = Callable[[], "tuple[Pair, SetUp | None] | None"]
"""The pair that the chat was asked for last, and what was set up for it; None while there is none."""


class Opened:
    """Finds the open pair in the list. One that no list knows, opened by its files, stands in it from then on.

    One that could not be loaded does, too: there may be room for it by now.

    Args:
        current: Tells the pair.
        is_unloaded: Tells whether it is neither there nor on its way.
    """

    def __init__(self, current: Current, is_unloaded: Callable[[], bool] = lambda: False) -> None:
        self._current = current
        self._is_unloaded = is_unloaded
        self._is_open = False
        self._pair: Pair | None = None
        self._files: SetUp | None = None
        self._others: dict[str, tuple[Pair, SetUp | None]] = {}
        self.name = ""
        """Of the open pair, as the list has it; "" while there is none."""

    def look(self) -> bool:
        """Look which pair is open; returns whether that is another one than at the last look."""
        pair, files = self._current() or (None, None)
        is_open = pair is not None and not self._is_unloaded()
        changed = pair is not self._pair or is_open is not self._is_open
        self._pair, self._files, self._is_open = pair, files, is_open
        return changed

    def join(self, known: Mapping[str, Pair]) -> dict[str, Pair]:
        """These pairs, and in front of them those that were opened and that nobody knows otherwise."""
        self._others = {
            name: other for name, other in self._others.items() if name not in known and not _named(other[0], known)
        }
        pairs = {name: pair for name, (pair, _) in self._others.items()} | dict(known)
        name = _named(self._pair, pairs) if self._pair is not None else ""
        if self._pair is not None and not name:
            pair = self._pair if self._files is not None else replace(self._pair, name=pair_name(self._pair.target))
            name = free_name(pair, pairs)
            pair = replace(pair, name=name)
            files = replace(self._files, pair=pair) if self._files is not None else _as_set_up(pair)
            self._others[name] = pair, files
            pairs = {name: pair} | pairs
        self.name = name if self._is_open else ""
        return pairs

    def files(self, name: str) -> SetUp | None:
        """The files of a pair that nobody knows otherwise."""
        return self._others[name][1] if name in self._others else None


def _named(pair: Pair, known: Mapping[str, Pair]) -> str:
    """What a pair is called among these, which may know its models by another name; "" if they do not."""
    models = _models(pair)
    alike = [name for name, other in known.items() if _models(other) == models]
    return pair.name if pair.name in alike else next(iter(alike), "")


def _models(pair: Pair) -> tuple[ModelSource, ...]:
    """Both models, a file by the one way to write its path."""
    return tuple(LocalModel(resolved(one.path)) if isinstance(one, LocalModel) else one for one in pair.sources)


def _as_set_up(pair: Pair) -> SetUp | None:
    """What setting up two files of this machine would remember; None for others."""
    models = [
        ModelOnDisk(source.path, model_bytes(source) or 0) for source in pair.sources if isinstance(source, LocalModel)
    ]
    return SetUp(pair, *models) if len(models) == len(pair.sources) else None
