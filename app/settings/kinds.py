"""Types of setting values: each reads TOML and text, and names its range."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.core.printable import escape_unprintable, printable
from app.core.regular_file import with_line_feeds
from app.settings.placement import CPU, split_override

Value = bool | int | float | str | tuple[str, ...] | tuple[float, ...] | None
"""A checked value; None stands for a kind's word, such as "auto"."""

LONGEST_TEXT = 32_000
"""Limit for a text in characters."""
_LONGEST_NAME = 64
_MAX_ITEMS = 16
_LONGEST_OVERRIDE = 500
_ONLY_PYTHON = re.compile(r"\(\?(?![:=!])|\\[AZ]|[*+?}]\+")
r"""Groups with flags or names, look-behind, \A, \Z and possessive repeats, which C++ refuses."""
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_SWITCH_WORDS = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


class Kind:
    """The type of a setting's value. `read` and `parse` raise ValueError for an invalid value.

    Attributes:
        allowed: Its range, to follow "it must be".
        word: Text for None; "" if None is not a value.
        metavar: Placeholder of a value in the help of a flag.
        default: The value of a setting without its own default.
    """

    __slots__ = ()
    word = ""
    metavar = ""

    @property
    def default(self) -> Value:
        return None

    @property
    def allowed(self) -> str:
        raise NotImplementedError

    def read(self, raw: object) -> Value:
        """Check a value from TOML or JSON."""
        return self.parse(_text(raw))

    def parse(self, text: str) -> Value:
        """Parse a value that a user typed, in a field or after a flag."""
        raise NotImplementedError

    def show(self, value: Any) -> str:
        """Format a value that `read` returns, for `parse`."""
        return self.word if value is None else str(value)

    def write(self, value: Any) -> object:
        """Convert a value to TOML for `read`."""
        return self.show(value) if value is None or isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """A number in a range.

    Attributes:
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
    metavar = "N"

    @property
    def allowed(self) -> str:
        number = "a whole number" if self.whole else "a number"
        return f"{number} between {self.low:,.10g} and {self.high:,.10g}" + (f", or {self.word}" * bool(self.word))

    def read(self, raw: object) -> Value:
        if isinstance(raw, str) and self._is_word(raw):
            return None
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise ValueError(raw)  # noqa: TRY004 - one exception for every invalid value
        # Compare before any conversion: an integer of a thousand digits is no float.
        if not self.low <= raw <= self.high or not math.isfinite(raw) or (self.whole and raw != int(raw)):
            raise ValueError(raw)
        return int(raw) if self.whole else float(raw)

    def parse(self, text: str) -> Value:
        if self._is_word(text):
            return None
        if self.whole and not _WHOLE_NUMBER.fullmatch(text.strip()):
            raise ValueError(text)
        return self.read(int(text) if self.whole else float(text))

    def show(self, value: Any) -> str:
        return f"{value:.10g}" if isinstance(value, float) else Kind.show(self, value)

    def _is_word(self, text: str) -> bool:
        return bool(self.word) and text.strip().lower() in (self.word, *self.also)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words, by default the first.

    Attributes:
        former: Earlier names of options, still read.
    """

    options: tuple[str, ...]
    former: tuple[tuple[str, str], ...] = ()

    @property
    def default(self) -> Value:
        return self.options[0]

    @property
    def allowed(self) -> str:
        first, *others = self.options
        return f"auto or one of {', '.join(others)}" if first == "auto" else f"one of {', '.join(self.options)}"

    def parse(self, text: str) -> Value:
        word = text.strip().lower()
        word = dict(self.former).get(word, word)
        if word not in self.options:
            raise ValueError(text)
        return word


@dataclass(frozen=True, slots=True)
class Switch(Kind):
    """On or off, by default on."""

    allowed = "on or off"
    default = True

    def read(self, raw: object) -> Value:
        return raw if isinstance(raw, bool) else self.parse(_text(raw))

    def parse(self, text: str) -> Value:
        word = text.strip().lower()
        if word not in _SWITCH_WORDS:
            raise ValueError(text)
        return _SWITCH_WORDS[word]

    def show(self, value: Any) -> str:
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
    longest: int = _LONGEST_NAME

    @property
    def allowed(self) -> str:
        return f"{self.what}, or {self.word}" if self.word else self.what

    def parse(self, text: str) -> Value:
        found = short_name(text.strip(), self.longest)
        return None if self.word and found.lower() == self.word else found


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """Text without terminal control characters; an empty text is None."""

    allowed = f"a text of at most {LONGEST_TEXT:,} characters"
    metavar = "TEXT"

    def parse(self, text: str) -> Value:
        return printable(with_line_feeds(_text(text))) or None


@dataclass(frozen=True, slots=True)
class Texts(Kind):
    """Several texts, kept exactly; typed as a single text, or as a list in JSON, which can escape line ends."""

    allowed = f'a text, or at most {_MAX_ITEMS} texts in a list such as ["END", "\\n\\n"]'
    metavar = "TEXT"
    default = ()

    def read(self, raw: object) -> Value:
        items = [raw] if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple) or len(items) > _MAX_ITEMS:
            raise ValueError(raw)
        return tuple(filter(None, map(_text, items)))

    def parse(self, text: str) -> Value:
        items: object = text
        if text.startswith("["):
            # A text such as [INST] is no list.
            with suppress(ValueError, RecursionError):
                items = json.loads(text)
        return self.read(items)

    def show(self, value: Any) -> str:
        alone = "".join(map(str, value))
        is_plain = len(value) < 2 and alone.isprintable() and printable(alone) == alone and "[" not in alone[:1]
        return alone if is_plain else escape_unprintable(json.dumps(value, ensure_ascii=False))

    def write(self, value: Any) -> object:
        return list(value)


class Overrides(Texts):
    """Patterns of tensor names and their devices, separated by commas, which no pattern contains, as in llama.cpp."""

    __slots__ = ()
    allowed = "regular expressions and devices such as ffn_.*_exps=cpu, separated by commas"

    def read(self, raw: object) -> tuple[str, ...]:
        items = [raw] if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple):
            raise ValueError(raw)  # noqa: TRY004 - one exception for every invalid value
        return tuple(override(part.strip()) for item in items for part in _text(item).split(",") if part.strip())

    def parse(self, text: str) -> tuple[str, ...]:
        return self.read(text)

    def show(self, value: Any) -> str:
        return ",".join(map(str, value))


@dataclass(frozen=True, slots=True)
class Several(Kind):
    """Names or numbers separated by commas.

    Attributes:
        what: Description of the items and of the words.
        make: Converts the text of one item; raises ValueError.
        word: Text for None.
        empty: Text for no items; None if there must be one.
    """

    what: str
    make: Callable[[str], str | float]
    most: int = _MAX_ITEMS
    word: str = "auto"
    empty: str | None = None

    @property
    def allowed(self) -> str:
        return self.what

    def read(self, raw: object) -> Value:
        return self.parse(",".join(map(str, raw)) if isinstance(raw, list | tuple) else _text(raw))

    def parse(self, text: str) -> Value:
        word = text.strip().lower()
        if word == self.word:
            return None
        if self.empty is not None and word in (self.empty, ""):
            return ()
        items = tuple(self.make(part.strip()) for part in text.split(","))
        if len(items) > self.most:
            raise ValueError(text)
        return items  # type: ignore[return-value] # one function makes either names or numbers

    def show(self, value: Any) -> str:
        if value is None:
            return self.word
        return ",".join(item if isinstance(item, str) else f"{item:.10g}" for item in value) or self.empty or ""


def device(text: str) -> str:
    """Check the name of a device; cpu is accepted in any case."""
    return CPU if text.lower() == CPU else short_name(text)


def override(text: str) -> str:
    """Check PATTERN=DEVICE; the pattern must be valid in Python's and C++'s regular expressions."""
    pattern, place = split_override(text)
    if not pattern or len(text) > _LONGEST_OVERRIDE or not text.isprintable() or _ONLY_PYTHON.search(pattern):
        raise ValueError(text)
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        raise ValueError(text) from None
    return f"{pattern}={device(place)}"


def short_name(text: str, longest: int = _LONGEST_NAME) -> str:
    """Check a printable name."""
    if not 0 < len(text) <= longest or not text.isprintable():
        raise ValueError(text)
    return text


def _text(raw: object) -> str:
    if not isinstance(raw, str) or len(raw) > LONGEST_TEXT or "\0" in raw:
        raise ValueError(raw)
    # JSON may contain half a surrogate pair; the encoder raises a ValueError for it.
    raw.encode()
    return raw
