"""Messages as a model reads them, why an answer is incomplete, and summaries of messages that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from app.core.errors import AppError, ContextOverflowError, DoesNotFitError
from app.core.pictures import MARK, Picture, PictureData
from app.engine.text.tool_calls import ToolCall
from app.engine.types import FinishReason

_T = TypeVar("_T")
_REASON_BY_VALUE = {reason.value: reason for reason in FinishReason}
_MAX_SENTENCE = 1000
"""Limit for a sentence in characters; an imported file may hold more."""


class Role(Enum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Message:
    """A message; `content` excludes the reasoning.

    Attributes:
        tool_call_id: The call whose result this is, for a message of a tool.
        pictures: Pictures in the order of the `MARK`s in the content; in a request, with their bytes.
    """

    role: Role
    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    pictures: tuple[Picture, ...] = ()


def pictures_in(messages: Iterable[Message]) -> tuple[PictureData, ...]:
    """Return the pictures of messages in order; their bytes must be loaded."""
    pictures = (picture for message in messages for picture in message.pictures)
    return tuple(picture for picture in pictures if isinstance(picture, PictureData))


def pictures_as_text(message: Message, is_gone: Callable[[Picture], bool] = lambda picture: True) -> Message:
    """Replace pictures by their names: all pictures, or those that are gone."""
    first, *rest = message.content.split(MARK)
    content, kept = [first], []
    for picture, text in zip(message.pictures, rest, strict=True):
        if is_gone(picture):
            content += f"[picture {picture.name}]" if picture.name is not None else "[picture]", text
        else:
            content += MARK, text
            kept.append(picture)
    return replace(message, content="".join(content), pictures=tuple(kept))


def with_bytes(message: Message, known: Mapping[str, PictureData]) -> Message:
    """Return a message with the bytes of its pictures, known by digest; text replaces an unknown picture."""
    found = pictures_as_text(message, lambda picture: picture.digest not in known)
    # A text may have another size than the picture that it refers to.
    return replace(found, pictures=tuple(replace(known[each.digest], name=each.name) for each in found.pictures))


@dataclass(frozen=True, slots=True)
class Prefill:
    """A continued answer that ended early; if it has no text, the reasoning continues."""

    text: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a message ended.

    Attributes:
        repeats: Repetitions of the last block, if they ended the answer; else 0.
        at_limit: Whether the context was full at its largest size.
    """

    reason: FinishReason | None = None
    repeats: int = 0
    failure: AppError | None = None
    at_limit: bool = False

    @classmethod
    def read(cls, numbers: Mapping[str, Any]) -> Ending:
        """Read the ending from the numbers of a message; ignore invalid values of an imported file."""
        return cls(
            _REASON_BY_VALUE.get(_given(numbers, "reason", "")),
            max(0, _given(numbers, "repeats", 0)),
            _read_error(_given(numbers, "error", {})),
            _given(numbers, "at_limit", False),
        )

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the numbers of a message that `read` reads."""
        reason = self.reason.value if self.reason is not None else None
        error = _error_document(self.failure) if self.failure is not None else None
        found = {"reason": reason, "repeats": self.repeats, "at_limit": self.at_limit, "error": error}
        return {name: value for name, value in found.items() if value}


def _given(numbers: Mapping[str, Any], name: str, default: _T) -> _T:
    found = numbers.get(name)
    return found if type(found) is type(default) else default


def _error_document(error: AppError) -> dict[str, Any]:
    """Return a failure with the facts for its fix; each surface words the fix."""
    match error:
        case ContextOverflowError():
            return {"message": error.message, "kind": "context", "whose": error.whose, "n_tokens": error.n_tokens}
        case DoesNotFitError():
            return {"message": error.message, "kind": "memory"}
    return {"message": error.message, "hint": error.hint}


def _read_error(stored: dict[Any, Any]) -> AppError | None:
    """Return a stored failure; older versions stored its fix as text."""
    message, hint, whose = (_given(stored, name, "")[:_MAX_SENTENCE] for name in ("message", "hint", "whose"))
    if not message.strip():
        return None
    match stored.get("kind"):
        case "context":
            return ContextOverflowError(message, whose=whose, n_tokens=_given(stored, "n_tokens", 0))
        case "memory":
            return DoesNotFitError(message)
    return AppError(message, hint)


def repeated(times: int) -> str:
    """Describe an answer that ended by repetition; 0 means an unknown number of times."""
    return "stopped: the answer repeated itself" + (f" {times} times" if times else "")


def without_ending(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of an answer without its ending."""
    return {name: value for name, value in numbers.items() if name not in ("reason", "repeats", "error", "at_limit")}


_COMPACTION_KEY, _N_KEPT_KEY, _SUMMARY_KEY = "compaction", "n_kept", "summary"
_MAX_SUMMARY = 100_000
"""Limit for a summary in characters; an imported file may hold more."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What the model reads of a conversation when a prompt exceeds the context.

    It is stored with that prompt. It counts messages instead of naming one, so it stays valid in an exported file.

    Attributes:
        n_kept: Messages before the prompt that the model still reads.
        summary: Summary of the earlier messages; an empty summary leaves them out.
    """

    n_kept: int
    summary: str = ""

    @classmethod
    def read(cls, numbers: Mapping[str, Any]) -> Compaction | None:
        """Return the compaction in the numbers of a prompt, if there is a valid one."""
        found = _given(numbers, _COMPACTION_KEY, dict[str, Any]())
        n_kept, summary = _given(found, _N_KEPT_KEY, -1), found.get(_SUMMARY_KEY)
        return cls(n_kept, summary[:_MAX_SUMMARY]) if n_kept >= 0 and isinstance(summary, str) else None

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the numbers of a prompt that `read` reads."""
        return {_COMPACTION_KEY: {_N_KEPT_KEY: self.n_kept, _SUMMARY_KEY: self.summary}}


_CALLS_KEY = "calls"


def calls_as_numbers(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return the tool calls of an answer as numbers that `calls_in` reads."""
    return {_CALLS_KEY: [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]}


def calls_in(numbers: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the tool calls in the numbers of an answer; ignore invalid calls of an imported file."""
    found = []
    for one in _given(numbers, _CALLS_KEY, list[Any]()):
        match one:
            case {"id": str(id_), "name": str(name), "arguments": str(arguments)} if id_ and name:
                found.append(ToolCall(name, arguments, id_))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ResultOf:
    """The tool call that a result belongs to.

    Attributes:
        tool: The tool's name for the model.
    """

    call: str
    tool: str
    failed: bool = False
    seconds: float = 0.0

    @classmethod
    def read(cls, numbers: Mapping[str, Any]) -> ResultOf:
        """Read the call from the numbers of a result; ignore invalid values."""
        seconds = numbers.get("seconds")
        return cls(
            _given(numbers, "call", ""),
            _given(numbers, "tool", ""),
            _given(numbers, "failed", False),
            float(seconds) if isinstance(seconds, int | float) else 0.0,
        )

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the numbers of a message that `read` reads."""
        return {"call": self.call, "tool": self.tool, "failed": self.failed, "seconds": round(self.seconds, 3)}
