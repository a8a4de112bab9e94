"""Texts that were typed into a setting and left before they were taken."""

from __future__ import annotations

from collections.abc import MutableMapping

from app.settings.live import Scope


class Unfinished:
    """They wait where they were typed: those for all everywhere, those for one conversation in that one."""

    def __init__(self) -> None:
        self._for_all: dict[str, str] = {}
        self._here: dict[str, str] = {}
        self._elsewhere: dict[int | None, dict[str, str]] = {}

    def of(self, scope: Scope) -> MutableMapping[str, str]:
        """Those that can be gone on with, by setting."""
        return self._for_all if scope is Scope.ALL else self._here

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, wherever they wait."""
        each = (self._for_all, self._here, *self._elsewhere.values())
        return tuple(text for texts in each for text in texts.values())

    def go(self, left: int | None, entered: int | None) -> None:
        """Go from one conversation to another; None for one in which nothing was said.

        Args:
            left: What the one that is left is called by now: it may have been entered without anything said in it.
            entered: The other one.
        """
        self._elsewhere[left] = self._here
        self._here = self._elsewhere.pop(entered, {})
