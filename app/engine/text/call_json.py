"""Copy the JSON object of a tool call while it is written, and correct common mistakes of models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import Enum

from app.engine.text.call_patterns import UnreadText
from app.engine.text.segments import held_back

_WORD = re.compile(r"[\w.+-]+")
_PLAIN_TEXT = re.compile(r'[^"\'\\\x00-\x1f]+')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_OPEN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|/\Z", re.DOTALL)
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
        self._is_done = False
        self._ends = ends
        self._closers = ["}"] * depth
        self._place = _Place.NEXT if depth else _Place.VALUE
        self._quote = ""
        self._is_key = self._is_broken = False

    def read(self, unread: UnreadText) -> Iterator[str | None]:
        """Yield the object as JSON text; None asks for more text."""
        while not self._is_done:
            yield self._decided(unread)
            if not self._is_done:
                yield None

    def _decided(self, unread: UnreadText) -> str:
        text, at = unread.text, 0
        out: list[str] = []
        while at < len(text) and not self._is_done:
            part = self._copied if self._is_broken else self._in_string if self._quote else self._outside
            new, stop = part(text, at, unread.is_last)
            if stop == at and not new:
                break
            out.append(new)
            at = stop
        if unread.is_last and unread.is_whole and not (self._is_done or self._quote):
            if self._is_broken:
                self._is_done = True
            elif self._can_close:
                out.append(self._close())
        unread.text = text[at:]
        return "".join(out)

    def _in_string(self, text: str, at: int, _is_last: bool) -> tuple[str, int]:
        if (plain := _PLAIN_TEXT.match(text, at)) is not None:
            return plain[0], plain.end()
        letter = text[at]
        if letter == self._quote:
            self._quote = ""
            self._place = _Place.COLON if self._is_key else _Place.NEXT
            return '"', at + 1
        if letter != "\\":
            return json.dumps(letter)[1:-1], at + 1
        if _OPEN_ESCAPE.match(text, at) is not None:
            return "", at
        if (escape := _ESCAPE.match(text, at)) is not None:
            return escape[0], escape.end()
        # Usually a Windows path or a regular expression
        return ("'", at + 2) if text[at + 1] == "'" else ("\\\\", at + 1)

    def _outside(self, text: str, at: int, is_last: bool) -> tuple[str, int]:
        letter, place = text[at], self._place
        begins_value = place in (_Place.VALUE, _Place.ITEM)
        if letter.isspace():
            return letter, at + 1
        if letter == "/" and (comment := _COMMENT.match(text, at)) is not None:
            return ("", at) if comment.end() == len(text) and not is_last else ("", comment.end())
        if letter in "\"'" and (begins_value or place is _Place.KEY):
            self._quote, self._is_key = letter, place is _Place.KEY
            return '"', at + 1
        if letter in _CLOSING_BRACKETS and begins_value:
            self._closers.append(_CLOSING_BRACKETS[letter])
            self._place = _Place.KEY if letter == "{" else _Place.ITEM
            return letter, at + 1
        if letter in self._closers and place not in (_Place.VALUE, _Place.COLON):
            return self._close(letter), at + 1
        if letter == "," and place is _Place.NEXT:
            self._place = _Place.KEY if self._closers[-1] == "}" else _Place.ITEM
            return letter, at + 1
        if letter == ":" and place is _Place.COLON:
            self._place = _Place.VALUE
            return letter, at + 1
        word = _WORD.match(text, at) if begins_value or place is _Place.KEY else None
        if word is not None and word.end() == len(text) and not is_last:
            return "", at
        if word is not None and not begins_value:
            self._place = _Place.COLON
            return json.dumps(word[0]), word.end()
        if word is not None and (word[0] in _JSON_BY_WORD or _NUMBER.fullmatch(word[0])):
            self._place = _Place.NEXT
            return _JSON_BY_WORD.get(word[0], word[0]), word.end()
        return self._no_json(text, at, is_last)

    def _no_json(self, text: str, at: int, is_last: bool) -> tuple[str, int]:
        if self._ends is None:
            self._is_done = True
        elif self._can_close and text.startswith(tuple(self._ends), at):
            return self._close(), at
        elif is_last or not any(end.startswith(text[at:]) for end in self._ends):
            self._is_broken = True
            return self._copied(text, at, is_last)
        return "", at

    @property
    def _can_close(self) -> bool:
        return bool(self._closers) and self._place is _Place.NEXT

    def _close(self, letter: str = "") -> str:
        out, self._place = "", _Place.NEXT
        while self._closers:
            out += (closed := self._closers.pop())
            if closed == letter:
                break
        self._is_done = not self._closers
        return out

    def _copied(self, text: str, at: int, is_last: bool) -> tuple[str, int]:
        """Return invalid JSON up to the end of the call."""
        ends = [end for end in self._ends or () if len(end) >= _SHORTEST_END]
        found = [stop for end in ends if (stop := text.find(end, at)) >= 0]
        self._is_done = bool(found)
        undecided = 0 if is_last else held_back(text[at:], ends)
        stop = min(found, default=len(text) - undecided)
        return text[at:stop], stop
