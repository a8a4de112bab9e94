"""The shape of a call format; `app.engine.text.call_formats` lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Values(Enum):
    """Notation of argument values that are not strings, and of all values inside lists and objects."""

    JSON = "json"
    PYTHON = "python"
    """Python literals; JSON is read too."""
    BARE = "bare"
    """JSON whose keys have no quotes, and whose strings have the format's own."""
    TAGS = "tags"
    """A tag for each key, and `item` tags for the elements of a list."""


@dataclass(frozen=True, slots=True)
class Argument:
    """Texts around each argument, where the arguments are not one JSON object.

    Attributes:
        begin: Before a value. $KEY stands for the argument's name, $TYPE for its JSON type, and $TEXT for "true" if the
            value is a string, else "false".
        end: After a value.
        between: Between two arguments.
        quotes: Texts around strings, as pairs of begin and end; a model may use any pair, and a grammar writes the
            first. A tagged string (`end` is not empty) may also stand without quotes.
        values: Notation of other values.
    """

    begin: str
    end: str = ""
    between: str = ""
    quotes: tuple[tuple[str, str], ...] = ()
    values: Values = Values.JSON

    @property
    def texts(self) -> tuple[str, ...]:
        """Return all texts around an argument."""
        return (self.begin, self.end, *(text for pair in self.quotes for text in pair))


@dataclass(frozen=True, slots=True)
class CallFormat:
    """A format. The texts are those of the family's template, to the character.

    Readers take any white space, or none, where a text has some, and calls without the texts around them.

    Attributes:
        name: Identifies the format.
        signs: Texts that every template of the family contains.
        call: A call. $NAME stands for the tool's name, $JSON for its name as a JSON string, $ARGUMENTS for the
            arguments, and $ID for letters and digits that identify the call. With $JSON, a call is a JSON object;
            readers take its keys in any order and under their other common names, and a list of calls.
        calls: Texts around all calls, for which $CALLS stands.
        between: Text between two calls.
        argument: Texts around each argument; None if the arguments are one JSON object.
        also: Other beginnings that models write, for readers; with $JSON, the text before the object. $HEADER stands
            for up to 60 characters that are no brace.
        alone: Beginnings that count only where an answer begins, for readers.
    """

    name: str
    signs: tuple[str, ...]
    call: str
    calls: str = "$CALLS"
    between: str = ""
    argument: Argument | None = None
    also: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """Return the text before the first call."""
        return self.calls.partition("$CALLS")[0]

    @property
    def last(self) -> str:
        """Return the text after the last call."""
        return self.calls.partition("$CALLS")[2]

    @property
    def begin(self) -> str:
        """Return the text before the arguments of a call."""
        return self.call.partition("$ARGUMENTS")[0]

    @property
    def end(self) -> str:
        """Return the text after the arguments of a call."""
        return self.call.partition("$ARGUMENTS")[2]

    @property
    def trigger(self) -> str:
        """Return the text that begins calls in an answer; an empty text if the format has none."""
        return leading_mark(self.first or self.begin)


_LEADING_MARK = re.compile(r"\s*([^\n${]*?)(?:(?<!\w)\[)?\s*(?:[\n${]|$)")


@lru_cache(maxsize=512)
def leading_mark(text: str) -> str:
    """Return the literal text with which a text of a format begins, without the bracket of a list."""
    found = _LEADING_MARK.match(text)
    return found[1] if found is not None else ""
