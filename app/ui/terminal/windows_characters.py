"""Characters as Windows' console tells them, for a reader that takes each of them for a key.

The console tells an emoji in two halves, and where it has more to tell than fits in at once it may part them: Textual
8.2.8 cannot decode a half, ends its reader without a word, and with it the keyboard. And it tells ctrl and shift by
themselves, as a zero, which Textual takes for a key of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_NAME = "uChar"
_HIGH, _LOW, _END = "\ud800", "\udc00", "\ue000"
_NONE = "\x00"


class _Character(NamedTuple):
    """What stands in the place of Windows' union of the same name."""

    UnicodeChar: str


class WholeCharacters:
    """In the place of the characters of a console's records: what of them is text, once it is whole.

    Args:
        field: The field of the records, as their class describes it.
    """

    def __init__(self, field: Any) -> None:
        self._field = field
        self._half = ""

    def __get__(self, record: Any, kind: type[Any] | None = None) -> _Character:
        unit: str = self._field.__get__(record, kind).UnicodeChar
        return _Character(self._whole(unit) if record.bKeyDown else "")

    def _whole(self, unit: str) -> str:
        if unit == _NONE:
            return ""
        first, self._half = self._half, unit if _HIGH <= unit < _LOW else ""
        if not _HIGH <= unit < _END:
            return unit
        # Half a character without the other is none.
        both = (first + unit).encode("utf-16-le", "surrogatepass")
        return both.decode("utf-16-le") if first and not self._half else ""


def mend(record: type[Any]) -> None:
    """Let the records of keys tell whole characters only.

    Args:
        record: Windows' KEY_EVENT_RECORD.
    """
    if not isinstance(vars(record)[_NAME], WholeCharacters):
        setattr(record, _NAME, WholeCharacters(vars(record)[_NAME]))
