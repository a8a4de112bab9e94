"""Reasoning before the answer: on, off, and how hard."""

from __future__ import annotations

from dataclasses import dataclass

EFFORTS = ("low", "medium", "high", "max")
NO_SWITCH = "cannot turn thinking on or off"
_NO_EFFORT = "has no reasoning effort"
_EFFORT_IF_ON = "has a reasoning effort only with thinking on"


@dataclass(frozen=True, slots=True)
class Thinking:
    """The requested reasoning and its effort, one of `EFFORTS`; None follows the template."""

    enabled: bool | None = None
    effort: str | None = None


AS_TRAINED = Thinking()
"""Follow the template."""


@dataclass(frozen=True, slots=True)
class ThinkingSupport:
    """What a model supports: a switch, an effort without thinking turned on, and an effort with it on."""

    switchable: bool = True
    effort: bool = True
    effort_on: bool = True

    def ignored(self, typed: Thinking, now: Thinking) -> tuple[str, ...]:
        """Return which requests by flags a model ignores, as sentences; `now` are those by flags and settings."""
        notices = []
        if typed.enabled is not None and not self.switchable:
            notices.append(f"This model {NO_SWITCH}: --thinking changes nothing.")
        if typed.effort is not None and now.enabled is False:
            notices.append("Thinking is off: --reasoning-effort changes nothing.")
        elif typed.effort is not None and (reason := self.no_effort(now.enabled)):
            notices.append(f"This model {reason}: --reasoning-effort changes nothing.")
        return tuple(notices)

    def no_effort(self, enabled: bool | None) -> str:
        """Return why a model ignores the effort with this request to think; "" if it does not."""
        if self.effort_on if enabled else self.effort:
            return ""
        return _EFFORT_IF_ON if self.effort_on else _NO_EFFORT
