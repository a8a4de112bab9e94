"""Convert regular expressions of JavaScript and Python to the syntax of Rust, which llguidance reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

LARGEST_BOUND = 1 << 31
"""Length bounds from this value are ignored."""
_REGEX_PARTS = re.compile(
    r"\\u(d[89ab]..)\\u(d[c-f]..)"  # surrogates
    r"|(\\(?:[pux]\{[^}]*\}|.))"  # an escape
    r"|(\[\^?(?:\\.|\[:\w+:\]|[^\]\\])*\])"  # a set
    r"|\{(?!\d+(?:,\d*)?\})",  # a brace that is no repetition
    re.DOTALL | re.IGNORECASE,
)
_IN_SET = re.compile(r"\\.|\[:\w+:\]|(\[|&&|--|~~)", re.DOTALL)
"""The group has only what Rust would read differently."""
_UNESCAPED_SIGNS = re.compile(r"(\\.)|([/\n])", re.DOTALL)
"""The second group has what a regular expression of a Lark grammar cannot contain."""
_RUST_ESCAPES = {r"\A": "^", r"\Z": "$", r"\z": "$", r"\0": r"\x00"}


def text_terminal(schema: Mapping[str, Any], end: str = "", begin: str = "") -> str | None:
    """Return the right side of a Lark terminal for a text by its schema and the texts around it; None for any text."""
    found = []
    if isinstance(pattern := schema.get("pattern"), str):
        found += [f"(?:{_whole_text(one)})" for one in rust_patterns(pattern)]
    low, high = (n if isinstance(n := schema.get(name), int) else None for name in ("minLength", "maxLength"))
    if low or (high is not None and high < LARGEST_BOUND):
        found.append(f"(?s:.{{{low or 0},{'' if high is None else high}}})")
    return " & ".join(f"/{begin}{_UNESCAPED_SIGNS.sub(_escaped_sign, one)}{end}/" for one in found) or None


def rust_patterns(pattern: str) -> tuple[str, ...]:
    """Return a regular expression of JavaScript or Python as Rust expressions that all must match.

    Lookaheads at the beginning become separate expressions; llguidance refuses other lookarounds.
    """
    found, rest = [], _REGEX_PARTS.sub(_in_rust, pattern)
    while rest.startswith("^(?=") and (end := _group_end(rest)) is not None:
        found.append(f"^(?:{rest[4 : end - 1]})")
        rest = f"^{rest[end:]}"
    return rest, *found


def _escaped_sign(part: re.Match[str]) -> str:
    return part[1] or (r"\n" if part[2] == "\n" else r"\/")


def _in_rust(part: re.Match[str]) -> str:
    high, low, escape, characters = part.groups()
    if high:
        return bytes.fromhex(high + low).decode("utf-16-be")
    if escape:
        return _RUST_ESCAPES.get(escape, escape)
    if characters == "[^]":
        return r"[\s\S]"
    if characters:
        return "[" + _IN_SET.sub(lambda one: "\\" + "\\".join(one[1]) if one[1] else one[0], characters[1:])
    return r"\{"


def _whole_text(pattern: str) -> str:
    """Extend an expression for a part of a text to the whole text."""
    cuts = [end for end, sign, depth in _signs(pattern) if depth == 0 and sign == "|"]
    return "|".join(_whole(pattern[start : end - 1]) for start, end in pairwise((0, *cuts, len(pattern) + 1)))


def _whole(pattern: str) -> str:
    begin, end = pattern.startswith("^"), re.search(r"(?<!\\)(\\\\)*\$$", pattern) is not None
    inner = pattern[int(begin) : len(pattern) - int(end)]
    return f"{'' if begin else '(?s:.*)'}(?:{inner}){'' if end else '(?s:.*)'}"


def _group_end(pattern: str) -> int | None:
    """Return the end of the first group; None if it is followed by alternatives, to which it does not belong."""
    outside = [(end, sign) for end, sign, depth in _signs(pattern) if depth == 0 and sign in "()|"]
    return None if any(sign == "|" for _, sign in outside) else next((end for end, _ in outside), None)


def _signs(pattern: str) -> Iterator[tuple[int, str, int]]:
    """Yield the end of each escape, set and group sign, its text, and its nesting depth."""
    depth = 0
    for part in re.finditer(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|[()|]", pattern, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        yield part.end(), part[0], depth
