"""Changing the pair: one is loaded at a time, and the last one asked for is the one that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ui.chat.session import ChatSession, Phase
from app.ui.models.state import LoadRequest

if TYPE_CHECKING:
    from app.session.engine import Engine


class PairChanges:
    """Which pair is being loaded, and which one comes next.

    Args:
        engine: Loads.
        session: The conversation that the pair answers in.
        loads: Whether a pair is being loaded already.
    """

    def __init__(self, engine: Engine, session: ChatSession, *, loads: bool) -> None:
        self._engine = engine
        self._session = session
        self._n_loading = int(loads)
        self._next: LoadRequest | None = None
        session.phase = Phase.LOADING if loads else Phase.UNLOADED

    def want(self, choice: LoadRequest) -> None:
        """Take another pair, at the next `begin`."""
        self._next = choice

    def begin(self) -> str | None:
        """Load the pair that is wanted, if one is; returns its title."""
        choice, self._next = self._next, None
        if choice is None:
            return None
        if self._n_loading:
            self._engine.cancel()
        session = self._session
        session.settings, session.pair, session.phase = choice.settings, None, Phase.LOADING
        session.drafting = choice.settings.drafting is not None
        self._n_loading += 1
        self._engine.load(choice.loader)
        return choice.settings.title

    @property
    def is_loading(self) -> bool:
        """Whether a pair that was asked for is being loaded."""
        return self._n_loading > 0

    def is_overtaken(self) -> bool:
        """Count a loading that has ended; whether another one was asked for since."""
        self._n_loading = max(0, self._n_loading - 1)
        return self._n_loading > 0
