"""The pair that is loaded or being loaded, and whether its drafts are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.types import Drafting
from app.models.pair_info import PairInfo
from app.session.answering import Engine
from app.session.state import DraftState
from app.session.turn import model_names

if TYPE_CHECKING:
    from app.worker.engine_worker import Loader


class PairState:
    """Hold the loaded pair, and switch its drafts on and off.

    Args:
        title: Name of the pair, shown until it is loaded.
        is_loading: Whether the engine was told to load it.

    Attributes:
        info: The loaded pair; None while a pair is being loaded, and if none is.
        models: Names of its models by role.
        was_requested: Whether a pair was loaded, is being loaded or could not be loaded.
        next: A pair that waits for the end of the running answer, and its title.
    """

    def __init__(self, engine: Engine, title: str, *, is_loading: bool) -> None:
        self._engine = engine
        self.title = title
        self.info: PairInfo | None = None
        self.models: dict[str, str] = {}
        self.was_requested = is_loading
        self._n_unfinished = int(is_loading)
        self.next: tuple[Loader, str] | None = None
        self._mode: Drafting = None
        self._drafts = False

    # Loading

    def load_next(self) -> bool:
        """Load the pair that waits; return whether there is one."""
        if self.next is None:
            return False
        (loader, self.title), self.next = self.next, None
        if self._n_unfinished:
            self._engine.cancel()
        self._n_unfinished += 1
        self.was_requested = True
        self.info = None
        self._engine.load(loader)
        return True

    @property
    def is_loading(self) -> bool:
        return self._n_unfinished > 0

    def end_load(self) -> bool:
        """Count a load that has ended; return whether another load has begun since."""
        self._n_unfinished = max(0, self._n_unfinished - 1)
        return self.is_loading

    def take(self, info: PairInfo) -> None:
        """Hold a loaded or changed pair."""
        self.info, self.models = info, model_names(info)

    # Drafts

    def drafting(self, mode: Drafting) -> DraftState:
        """Return how an answer with this setting is drafted."""
        return DraftState.of(mode, self.info, switched_on=self._drafts)

    def use_mode(self, mode: Drafting, *, again: bool = False) -> None:
        """Take the setting; a new one, or another pair (`again`), turns the drafts on where it allows them."""
        if again or mode != self._mode:
            self._mode, self._drafts = mode, mode is not None

    def switch(self, on: bool) -> None:
        """Turn the drafts on or off."""
        self._drafts = on
