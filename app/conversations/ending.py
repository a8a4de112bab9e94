"""Why an answer is not whole, or why a prompt has none, kept beside the numbers.

The numbers of an answer say why it ended; those of a prompt say why nothing came of it. The tables are as they always
were: a Tandem that does not look for this reads the file all the same, and this one learns it of older files too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core.errors import AppError
from app.engine.types import FinishReason

_NAMES = _REASON, _REPEATS, _ERROR, _AT_LIMIT = "reason", "repeats", "error", "at_limit"
_REASONS = {reason.value: reason for reason in FinishReason}
_MOST = 1000
"""Characters of a sentence that is shown; a file from anywhere may hold more."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, as it was told.

    Attributes:
        message: What happened.
        hint: What the user can do about it.
    """

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """How it came that there is no more text.

    Attributes:
        reason: Why the model stopped writing; None if it failed, or that is not known.
        repeats: Consecutive occurrences of the last block, if they ended the answer; else 0.
        failure: What went wrong; None if nothing did.
        at_limit: Whether the context that was full could not have been longer.
    """

    reason: FinishReason | None = None
    repeats: int = 0
    failure: Failure | None = None
    at_limit: bool = False


UNKNOWN = Ending()


def ending_in(numbers: Mapping[str, Any]) -> Ending:
    """What the numbers of a message say; they may come from a file, so what cannot be meant is left out."""
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
    """What `ending_in` reads, of an answer that has ended."""
    more = {_REPEATS: repeats, _AT_LIMIT: at_limit}
    return {_REASON: reason.value, **{name: said for name, said in more.items() if said}}


def repeated(times: int) -> str:
    """Describe the end of an answer that repeated itself; 0 for an unknown number of times."""
    return "stopped: the answer repeated itself" + (f" {times} times" if times else "")


def numbers_of_failure(error: AppError) -> dict[str, Any]:
    """What `ending_in` reads, of one that has failed."""
    return {_ERROR: {"message": error.message, "hint": error.hint}}


def without_ending(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of an answer that went on since."""
    return {name: value for name, value in numbers.items() if name not in _NAMES}
