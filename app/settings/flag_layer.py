"""What the command line says, as long as nothing that was changed since goes before it."""

from __future__ import annotations

from collections.abc import Iterable

from app.settings.kinds import Value
from app.settings.layers import Layer
from app.settings.table import NUMBERS


class FlagLayer:
    """The flags that count, and those that give way to the conversation that is going on.

    Args:
        flags: What was given.
    """

    def __init__(self, flags: Layer) -> None:
        self._counting = dict(flags)
        self._overruled: dict[str, Value] = {}
        """Those that count again in another conversation."""

    @property
    def layer(self) -> Layer:
        """Those that count."""
        return self._counting

    def take(self, more: Layer) -> None:
        """Let more of them count, as if they had been typed behind the others."""
        self._counting.update(more)

    def drop(self, names: Iterable[str]) -> tuple[str, ...]:
        """Let these count no more; returns those that did."""
        dropped = tuple(name for name in names if name in self._counting)
        for name in dropped:
            del self._counting[name]
        return dropped

    def overrule(self, name: str, *, for_all: bool) -> None:
        """Give way to what was changed since: in this conversation, or from here on in all."""
        for flag in _overruled_by(name):
            if for_all:
                self._overruled.pop(flag, None)
            elif flag in self._counting:
                self._overruled[flag] = self._counting[flag]
        self.drop(_overruled_by(name))

    def reinstate(self, conversation: Iterable[str]) -> None:
        """Let those count again that nothing which the conversation sets overrules."""
        kept = {flag for name in conversation for flag in _overruled_by(name)}
        for flag in self._overruled.keys() - kept:
            self._counting.setdefault(flag, self._overruled.pop(flag))

    def clear(self) -> None:
        """Let none count any more, in any conversation."""
        self._counting, self._overruled = {}, {}


def _overruled_by(name: str) -> tuple[str, ...]:
    """The flags that give way to a setting; numbers that were given mean a mode, so they give way to one."""
    return (name, *NUMBERS) if name == "draft.mode" else (name,)
