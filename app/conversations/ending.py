"""Why an answer is incomplete, or why a prompt has none; stored among the numbers of the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core.errors import AppError
from app.engine.types import FinishReason

_NAMES = _REASON, _REPEATS, _ERROR, _AT_LIMIT = "reason", "repeats", "error", "at_limit"
_REASONS = {reason.value: reason for reason in FinishReason}
_MOST = 1000
"""Characters of a sentence; an imported file may hold more."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it was shown."""

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a message has no more text.

    Attributes:
        reason: Why the model stopped; None if it failed or is unknown.
        repeats: Repetitions of the last block that ended the answer; else 0.
        at_limit: Whether the full context could not be longer.
    """

    reason: FinishReason | None = None
    repeats: int = 0
    failure: Failure | None = None
    at_limit: bool = False


UNKNOWN = Ending()


def ending_in(numbers: Mapping[str, Any]) -> Ending:
    """Return the ending in the numbers of a message; ignore invalid values of an imported file."""
    reason, repeats, error = (numbers.get(name) for name in (_REASON, _REPEATS, _ERROR))
    failure = None
    if isinstance(error, dict) and isinstance(message := error.get("message"), str) and message.strip():
        hint = error.get("hint")
        failure = Failure(message[:_MOST], hint[:_MOST] if isinstance(hint, str) else "")
    return Ending(
        _REASONS.get(reason) if isinstance(reason, str) else None,
        repeats if type(repeats) is int and repeats > 0 else 0,
        failure,
        numbers.get(_AT_LIMIT) is True,
    )


def numbers_of(reason: FinishReason, repeats: int = 0, *, at_limit: bool = False) -> dict[str, Any]:
    """Return the numbers of an answer that ended, for `ending_in`."""
    more = {_REPEATS: repeats, _AT_LIMIT: at_limit}
    return {_REASON: reason.value, **{name: value for name, value in more.items() if value}}


def repeated(times: int) -> str:
    """Describe the end of an answer that repeated itself; 0 for an unknown number of times."""
    return "stopped: the answer repeated itself" + (f" {times} times" if times else "")


def numbers_of_failure(error: AppError) -> dict[str, Any]:
    """Return the numbers of an answer that failed, for `ending_in`."""
    return {_ERROR: {"message": error.message, "hint": error.hint}}


def without_ending(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of an answer without its ending."""
    return {name: value for name, value in numbers.items() if name not in _NAMES}
