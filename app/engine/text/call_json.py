"""Copy the JSON object of a tool call while it is written, and correct common mistakes of models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import Enum

from app.engine.text.call_patterns import UnreadText
from app.engine.text.segments import held_back

_TOKEN = re.compile(r"\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|[\w.+-]+|.", re.DOTALL)
_WORD = re.compile(r"[\w.+-]+")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_STRING_TEXT = {
    quote: re.compile(rf"(?:[^{quote}\\]++|\\(?!u[0-9a-fA-F]{{0,3}}\Z).)*+", re.DOTALL) for quote in ("'", '"')
}
"""Text of a string by its quote, without an escape that may be incomplete."""
_ESCAPES = re.compile(r"""(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\(')|([\x00-\x1f"\\])""")
"""Escapes of JSON, an escape of Python, and what JSON does not allow in a string."""
_CLOSING_BRACKETS = {"{": "}", "[": "]"}
_JSON_BY_WORD = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
"""Values of JSON and Python as JSON."""
_SHORTEST_END = 3
"""Shortest text, in characters, that ends arguments that are no JSON; brackets may be part of them."""


class _Place(Enum):
    """Tokens allowed next outside a string."""

    VALUE = "a value"
    ITEM = "a value of a list, or its end"
    KEY = "a key of an object, or its end"
    COLON = "a colon"
    NEXT = "a comma, or the end of a list or an object"


class JsonReader:
    """Copies one object, or the rest of one, as JSON.

    It corrects other quotes, keys without quotes, line breaks and unknown escapes in strings, values of Python,
    comments, and missing closing brackets at the end of the call. Other invalid JSON is copied up to the end of the
    call, so the output is invalid too and nothing is lost.

    Args:
        ends: Texts that end the call; None stops where the text is no JSON.
        depth: Number of open objects at the beginning of the text.
    """

    def __init__(self, ends: Sequence[str] | None = (), depth: int = 0) -> None:
        self._ends = ends
        self._closers = ["}"] * depth
        self._place = _Place.NEXT if depth else _Place.VALUE

    def read(self, unread: UnreadText) -> Iterator[str | None]:
        """Yield the object as JSON text; None asks for more text."""
        while self._closers or self._place is _Place.VALUE:
            text = unread.text
            token = _TOKEN.match(text)
            if token is None and unread.is_whole and self._can_close:
                yield self._close()
            elif token is None or (token.end() == len(text) and not unread.is_last and self._may_go_on(token[0])):
                yield None
            elif (copied := self._json_of(token[0])) is not None:
                unread.text = text[token.end() :]
                yield copied
                if token[0] in _STRING_TEXT:
                    yield from _string(unread, token[0])
            elif self._ends is None:
                return
            elif self._can_close and text.startswith(tuple(self._ends)):
                yield self._close()
            elif unread.is_last or not any(end.startswith(text) for end in self._ends):
                yield from self._invalid(unread, [end for end in self._ends if len(end) >= _SHORTEST_END])
                return
            else:
                yield None

    def _may_go_on(self, token: str) -> bool:
        return token[0] == "/" or (self._place not in (_Place.COLON, _Place.NEXT) and bool(_WORD.match(token)))

    def _json_of(self, token: str) -> str | None:
        """Return a token as JSON, and move on to the next; None if JSON allows nothing like it here."""
        place = self._place
        begins_value = place in (_Place.VALUE, _Place.ITEM)
        if token.isspace():
            return token
        if token.startswith(("//", "/*")):
            return ""
        if token in _STRING_TEXT and (begins_value or place is _Place.KEY):
            self._place = _Place.COLON if place is _Place.KEY else _Place.NEXT
            return '"'
        if token in _CLOSING_BRACKETS and begins_value:
            self._closers.append(_CLOSING_BRACKETS[token])
            self._place = _Place.KEY if token == "{" else _Place.ITEM
            return token
        if token in self._closers and place not in (_Place.VALUE, _Place.COLON):
            return self._close(token)
        if token == "," and place is _Place.NEXT:
            self._place = _Place.KEY if self._closers[-1] == "}" else _Place.ITEM
            return token
        if token == ":" and place is _Place.COLON:
            self._place = _Place.VALUE
            return token
        if place is _Place.KEY and _WORD.match(token):
            self._place = _Place.COLON
            return json.dumps(token)
        if begins_value and (token in _JSON_BY_WORD or _NUMBER.fullmatch(token)):
            self._place = _Place.NEXT
            return _JSON_BY_WORD.get(token, token)
        return None

    @property
    def _can_close(self) -> bool:
        return self._place is _Place.NEXT

    def _close(self, bracket: str = "") -> str:
        """Close everything, or everything up to a bracket."""
        out, self._place = "", _Place.NEXT
        while self._closers:
            out += (closed := self._closers.pop())
            if closed == bracket:
                break
        return out

    @staticmethod
    def _invalid(unread: UnreadText, ends: Sequence[str]) -> Iterator[str | None]:
        """Yield invalid JSON up to the end of the call."""
        while True:
            text = unread.text
            found = [at for end in ends if (at := text.find(end)) >= 0]
            stop = min(found, default=len(text) - (0 if unread.is_last else held_back(text, ends)))
            unread.text = text[stop:]
            yield text[:stop]
            if found or unread.is_whole:
                return
            yield None


def _string(unread: UnreadText, quote: str) -> Iterator[str | None]:
    """Yield the rest of a string as JSON."""
    while True:
        found = _STRING_TEXT[quote].match(unread.text)
        at = found.end() if found is not None else 0
        text, unread.text = unread.text[:at], unread.text[at:]
        yield _ESCAPES.sub(_escaped, text)
        if unread.text.startswith(quote):
            unread.text = unread.text[1:]
            yield '"'
            return
        yield None


def _escaped(found: re.Match[str]) -> str:
    # A lone backslash is usually in a Windows path or a regular expression.
    return found[1] or found[2] or json.dumps(found[3])[1:-1]
