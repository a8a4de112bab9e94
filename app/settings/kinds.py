"""Types of setting values: each reads TOML and text, and names its range."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.core.printable import printable
from app.core.regular_file import with_line_feeds
from app.settings.placement import CPU

Value = bool | int | float | str | tuple[str, ...] | tuple[float, ...] | None
"""A checked value; None stands for the word of a kind, such as "auto"."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_WRITTEN = {"\\": "\\\\", "|": "\\|"} | {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
LONGEST_TEXT = 32_000
"""Characters of a text."""


class Kind:
    """The type of a setting's value. `read` and `parse` raise ValueError for anything else.

    Attributes:
        allowed: Its range, to follow "it must be".
    """

    __slots__ = ()

    @property
    def allowed(self) -> str:
        raise NotImplementedError

    def read(self, raw: object) -> Value:
        """Check a value from TOML or JSON."""
        return self.parse(_text(raw))

    def parse(self, text: str) -> Value:
        """Read a value as a person types it, in a field or behind a flag."""
        raise NotImplementedError

    def show(self, value: Value) -> str:
        """Format a value as `parse` reads it."""
        return str(value)

    def write(self, value: Value) -> object:
        """Convert a value to what `read` takes from TOML."""
        return value


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """A number in a range.

    Attributes:
        low: Smallest.
        high: Largest.
        whole: Whether it must be whole.
        word: Text for None; "" if a number is required.
        also: Other words for None.
        step: Change by one key press.
    """

    low: float
    high: float
    whole: bool = False
    word: str = ""
    also: tuple[str, ...] = ()
    step: float = 1

    @property
    def allowed(self) -> str:
        number = "a whole number" if self.whole else "a number"
        return f"{number} between {_plain(self.low)} and {_plain(self.high)}" + (f", or {self.word}" * bool(self.word))

    def read(self, raw: object) -> Value:
        if isinstance(raw, str) and self.word and raw.strip().lower() in (self.word, *self.also):
            return None
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise ValueError(raw)  # noqa: TRY004 - one exception for whatever is wrong with a value
        # Checked before anything is made of it: a whole number of a thousand digits is no float.
        if not self.low <= raw <= self.high or not math.isfinite(raw) or (self.whole and raw != int(raw)):
            raise ValueError(raw)
        return int(raw) if self.whole else float(raw)

    def parse(self, text: str) -> Value:
        text = text.strip()
        if self.word and text.lower() in (self.word, *self.also):
            return None
        if self.whole and not _WHOLE.fullmatch(text):
            raise ValueError(text)
        return self.read(int(text) if self.whole else float(text))

    def show(self, value: Value) -> str:
        if value is None:
            return self.word
        return f"{value:.10g}" if isinstance(value, float) else str(value)

    def write(self, value: Value) -> object:
        return self.word if value is None else value


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words."""

    options: tuple[str, ...]

    @property
    def allowed(self) -> str:
        first, *others = self.options
        return f"auto or one of {', '.join(others)}" if first == "auto" else f"one of {', '.join(self.options)}"

    def parse(self, text: str) -> Value:
        word = text.strip().lower()
        if word not in self.options:
            raise ValueError(text)
        return word


@dataclass(frozen=True, slots=True)
class Switch(Kind):
    """On or off."""

    @property
    def allowed(self) -> str:
        return "on or off"

    def read(self, raw: object) -> Value:
        return raw if isinstance(raw, bool) else self.parse(_text(raw))

    def parse(self, text: str) -> Value:
        word = text.strip().lower()
        if word not in _SWITCH:
            raise ValueError(text)
        return _SWITCH[word]

    def show(self, value: Value) -> str:
        return "on" if value else "off"


@dataclass(frozen=True, slots=True)
class Name(Kind):
    """The name of something that the running program knows, such as a theme.

    Attributes:
        what: Description, with its article.
        word: Text for None; "" if a name is required.
    """

    what: str
    word: str = ""

    @property
    def allowed(self) -> str:
        return f"{self.what}, or {self.word}" if self.word else self.what

    def parse(self, text: str) -> Value:
        name = text.strip()
        if self.word and name.lower() == self.word:
            return None
        if not 0 < len(name) <= 64 or not name.isprintable():
            raise ValueError(text)
        return name

    def show(self, value: Value) -> str:
        return self.word if value is None else str(value)

    def write(self, value: Value) -> object:
        return self.show(value)


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """Text without terminal control characters; an empty one is None."""

    @property
    def allowed(self) -> str:
        return f"a text of at most {LONGEST_TEXT:,} characters"

    def read(self, raw: object) -> Value:
        return printable(with_line_feeds(_checked(_text(raw)))) or None

    def parse(self, text: str) -> Value:
        return self.read(text)

    def show(self, value: Value) -> str:
        return "" if value is None else str(value)

    def write(self, value: Value) -> object:
        return self.show(value)


@dataclass(frozen=True, slots=True)
class Texts(Kind):
    """Several texts, kept exactly.

    Typed as one text with bars between; \\n, \\| and \\u001b escape line ends, bars and control characters.
    """

    most: int = 16

    @property
    def allowed(self) -> str:
        return f"at most {self.most} texts, separated by |"

    def read(self, raw: object) -> Value:
        items = [raw] if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple) or len(items) > self.most:
            raise ValueError(raw)
        return tuple(filter(None, (_checked(_text(item)) for item in items)))

    def parse(self, text: str) -> Value:
        # A bar counts unless a backslash stands before it; a backslash before anything else keeps it.
        parts = re.findall(r"(?:[^\\|]|\\.|\\$)+", text, re.DOTALL)
        return self.read([_ESCAPED.sub(_meant, part) for part in parts])

    def show(self, value: Value) -> str:
        assert isinstance(value, tuple)
        return "|".join("".join(map(_legible, str(item))) for item in value)

    def write(self, value: Value) -> object:
        assert isinstance(value, tuple)
        return list(value)


@dataclass(frozen=True, slots=True)
class Several(Kind):
    """Names or numbers between commas; auto for None.

    Attributes:
        what: Description of the items.
        make: Converts the text of one item; raises ValueError.
        most: Largest number of items.
    """

    what: str
    make: Callable[[str], str | float]
    most: int = 16

    @property
    def allowed(self) -> str:
        return self.what

    def read(self, raw: object) -> Value:
        return self.parse(raw if isinstance(raw, str) else ",".join(_items(raw)))

    def parse(self, text: str) -> Value:
        if text.strip().lower() == "auto":
            return None
        items = tuple(self.make(part.strip()) for part in text.split(","))
        if len(items) > self.most:
            raise ValueError(text)
        return items  # type: ignore[return-value] # one function makes either names or numbers

    def show(self, value: Value) -> str:
        if value is None:
            return "auto"
        assert isinstance(value, tuple)
        return ",".join(item if isinstance(item, str) else f"{item:.10g}" for item in value)

    def write(self, value: Value) -> object:
        return self.show(value)


def device(text: str) -> str:
    """Check the name of a device; cpu is accepted in any case."""
    if not 0 < len(text) <= 64 or not text.isprintable():
        raise ValueError(text)
    return CPU if text.lower() == CPU else text


def share(text: str) -> float:
    """Convert a non-negative number."""
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError(text)
    return number


def _meant(escaped: re.Match[str]) -> str:
    """The character that was written with a backslash."""
    code, letter = escaped.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(letter, letter)


def _legible(character: str) -> str:
    """A character of one text among several as it is written."""
    if character in _WRITTEN:
        return _WRITTEN[character]
    return character if printable(character) == character else f"\\u{ord(character):04x}"


def _items(raw: object) -> Sequence[str]:
    if not isinstance(raw, list | tuple) or any(isinstance(item, bool) for item in raw):
        raise ValueError(raw)
    return [item if isinstance(item, str) else repr(item) for item in raw]


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(raw)  # noqa: TRY004
    return raw


def _checked(text: str) -> str:
    if len(text) > LONGEST_TEXT or "\0" in text:
        raise ValueError(text)
    # Half a character, as JSON may hold it, is refused by the encoder; that too is a ValueError.
    text.encode()
    return text


def _plain(number: float) -> str:
    return f"{number:,.10g}"
