"""The structure of a call format; `app.engine.text.call_formats` lists the formats."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from app.engine.text.tool_calls import ToolCall, argument_object


class Values(Enum):
    """Notation of argument values that are not strings, and of all values inside lists and objects."""

    JSON = "json"
    PYTHON = "python"
    """Python literals; JSON is accepted too."""
    BARE = "bare"
    """JSON whose keys have no quotes, and whose strings have the format's own quotes."""
    TAGS = "tags"
    """A tag for each key, and `item` tags for the elements of a list."""


@dataclass(frozen=True, slots=True)
class Argument:
    """Texts around each argument, if the arguments are not a JSON object.

    Attributes:
        begin: Before a value. $KEY stands for the argument's name, $TYPE for its JSON type, and $TEXT for "true" if the
            value is a string, else "false".
        end: After a value.
        quotes: Pairs of texts around strings; a model may use any pair, and a grammar writes the first. A tagged
            string (`end` is not empty) may also be without quotes.
        values: Notation of other values.
    """

    begin: str
    end: str = ""
    between: str = ""
    quotes: tuple[tuple[str, str], ...] = ()
    values: Values = Values.JSON

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.begin, self.end, *(text for pair in self.quotes for text in pair))

    def written(self, key: str, value: Any) -> str:
        """Return an argument with the texts around it."""
        kind = _TYPE_WORDS.get(type(value), "null")
        values = {"$KEY": key, "$TYPE": kind, "$TEXT": json.dumps(kind == "string")}
        return f"{_filled(self.begin, values)}{self._value(value)}{_filled(self.end, values)}"

    def _value(self, value: Any) -> str:
        quote, unquote = self.quotes[0] if self.quotes else ("", "")
        is_bare = self.values is Values.BARE
        match value:
            case str() if is_bare or self.end:
                return f"{quote}{value}{unquote}"
            case dict() if is_bare:
                return f"{{{','.join(f'{key}:{self._value(one)}' for key, one in value.items())}}}"
            case list() if is_bare:
                return f"[{','.join(map(self._value, value))}]"
            case bool() | None if self.values is Values.PYTHON:
                return str(value)
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class CallFormat:
    """A call format. Its texts are exactly as in the family's template.

    Readers accept any white space, or none, where a text has some, and calls without the surrounding texts.

    Attributes:
        signs: Texts that every template of the family contains.
        call: A call. $NAME stands for the tool's name, $JSON for its name as a JSON string, $ARGUMENTS for the
            arguments, and $ID for letters and digits that identify the call. With $JSON, a call is a JSON object;
            readers accept its keys in any order and under their other common names, and a list of calls.
        calls: Texts around all calls; $CALLS stands for the calls.
        argument: Texts around each argument; None if the arguments are a JSON object.
        also: Other beginnings that readers accept; with $JSON, the text before the object. $HEADER stands for up to 60
            characters without braces.
        alone: Beginnings that readers accept only at the beginning of an answer.
    """

    name: str
    signs: tuple[str, ...]
    call: str
    calls: str = "$CALLS"
    between: str = ""
    argument: Argument | None = None
    also: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Return calls as a model writes them; in lists and objects, values are JSON."""
        texts = []
        for call in calls:
            found, argument = argument_object(call), self.argument
            arguments = json.dumps(found, ensure_ascii=False)
            if argument is not None:
                arguments = argument.between.join(argument.written(key, value) for key, value in found.items())
            values = {"$NAME": call.name, "$JSON": json.dumps(call.name), "$ID": call.id, "$ARGUMENTS": arguments}
            texts.append(_filled(self.call, values))
        return self.calls.replace("$CALLS", self.between.join(texts))

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
        """Return the text that begins calls in an answer, if any."""
        return leading_mark(self.first or self.begin)


_PLACEHOLDER = re.compile(r"\$[A-Z]+")
_TYPE_WORDS = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}
"""Types of values in the words of Kimi's template."""
_LEADING_MARK = re.compile(r"\s*([^\n${]*?)(?:(?<!\w)\[)?\s*(?:[\n${]|$)")


@lru_cache(maxsize=512)
def leading_mark(text: str) -> str:
    """Return the literal beginning of a text of a format, without the bracket of a list."""
    found = _LEADING_MARK.match(text)
    return found[1] if found is not None else ""


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[0]], text)
