"""JSON schemas, as clients send them, as rules of llguidance's Lark grammars.

llguidance does most of the work. This module rewrites what its users do not send to it: patterns of JavaScript and
Python, null values, types such as "any". It also names the place of a keyword that cannot be enforced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from app.core.errors import UsageError
from app.llama.matcher import refusal

_WHITE_SPACE = r"[ ]|\n{1,2}[ \t]{0,20}"
"""White space between the parts of JSON, bounded as in llama.cpp: small models would write it without end."""
_MAX_LEVELS = 300
"""Levels of objects, arrays and references; llguidance overflows a stack of 1 MiB at twice as many."""
_TOO_DEEP = f"it has more than {_MAX_LEVELS} levels of objects, arrays and references"
_LARGEST_BOUND = 1 << 31
"""Bounds of a length from this value on are ignored."""
_KNOWN_FORMATS = frozenset(
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"]
)
"""Formats that llguidance knows; the standard allows a reader to ignore others."""
_IGNORED_KEYWORDS = frozenset(("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "x-guidance"))
_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Keywords with an object of schemas."""
_LISTED_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_SINGLE_SCHEMAS = frozenset(
    ("items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else")
)
_STRUCTURAL_KEYWORDS = frozenset(("type", "properties"))
"""Keywords that are rarely the fault, although without them nothing is refused."""
_VALUE_KEYWORDS = frozenset(("const", "enum", "default", "examples"))
_MAXIMUM_KEYWORDS = frozenset(("maxLength", "maxItems", "maxProperties"))
_COMBINING_KEYWORDS = frozenset(("anyOf", "oneOf", "$ref", "if", "dependentSchemas"))
_OPEN_KEYWORDS = _COMBINING_KEYWORDS | {
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "minProperties",
}
"""Keywords beside which an object without `additionalProperties` stays open."""


def schema_rule(schema: Any, owner: str = "The JSON schema", *, strict: bool = False) -> str:
    """Return a JSON schema as the right side of a Lark rule.

    Args:
        schema: As a client sent it.
        owner: Subject of the error message.
        strict: Whether keywords that llguidance does not know are errors; otherwise they are ignored.

    Raises:
        UsageError: The schema cannot be enforced; the error names the place and the keyword.
    """
    try:
        return _checked_rule(json.dumps(schema), strict=strict)
    except (UsageError, RecursionError) as error:
        reason = error.message if isinstance(error, UsageError) else _TOO_DEEP
        raise UsageError(f"{owner} cannot be enforced: {reason}.", "Remove or replace that keyword.") from None


@lru_cache(maxsize=256)
def _checked_rule(text: str, *, strict: bool) -> str:
    root = json.loads(text)
    _check_depth(root, root, set(), 0)
    prepared = _prepared(root, closes=not _combines(root)) if isinstance(root, dict) else {}
    if reason := _refusal(prepared, strict=strict):
        raise UsageError(f"{_culprit(prepared, reason, strict=strict)}: {reason}")
    return _rule(prepared, strict=strict)


def _rule(schema: Mapping[str, Any], *, strict: bool) -> str:
    options = {"lenient": not strict, "coerce_one_of": True, "whitespace_pattern": _WHITE_SPACE}
    return f"%json {json.dumps({**schema, 'x-guidance': options})}"


def _refusal(schema: Mapping[str, Any], *, strict: bool) -> str:
    return refusal(f"start: {_rule(schema, strict=strict)}")


def _culprit(root: Mapping[str, Any], reason: str, *, strict: bool) -> str:
    """Return the keyword that is refused for a reason, with the place of its schema."""
    shared = {key: root[key] for key in ("$defs", "definitions") if key in root}

    def is_refused(node: Mapping[str, Any]) -> bool:
        return _refusal({**shared, **node}, strict=strict) == reason

    place, node = max((one for one in _nodes(root) if is_refused(one[1])), key=lambda one: len(one[0]))
    keywords = sorted(node, key=_STRUCTURAL_KEYWORDS.__contains__)
    found = (key for key in keywords if not is_refused({other: node[other] for other in keywords if other != key}))
    return " at ".join(filter(None, (json.dumps(next(found, "it")), ".".join(place))))


def _nodes(node: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield all objects in a schema with their places; those that are no schemas are never refused."""
    if isinstance(node, dict):
        yield place, node
    named = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, child in named:
        yield from _nodes(child, (*place, str(name)))


def _check_depth(node: Any, root: Any, seen: set[str], depth: int) -> None:
    """Refuse what llguidance would not survive; it follows each reference once, by recursion."""
    if depth > _MAX_LEVELS:
        raise UsageError(_TOO_DEEP)
    if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        target, passed = _target(root, reference), {reference}
        # llguidance follows references to nothing but each other for seconds.
        while isinstance(target, dict) and isinstance(other := target.get("$ref"), str):
            if other in passed:
                raise UsageError(f'"$ref": no value is valid, because "{reference}" leads to itself only')
            passed.add(other)
            target = _target(root, other)
        _check_depth(_target(root, reference), root, seen, depth + 1)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        if isinstance(child, (dict, list)):
            _check_depth(child, root, seen, depth + 1)


def _target(root: Any, reference: str) -> Any:
    """Return what a reference in the same document names; None if nothing."""
    node = root
    for part in unquote(reference).partition("#")[2].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return node


def _combines(node: Any) -> bool:
    """Return whether properties come from several schemas, so that none of them may forbid others."""
    if isinstance(node, dict):
        merged = "allOf" in node or ({"properties", "required"} & node.keys() and _COMBINING_KEYWORDS & node.keys())
        return bool(merged) or any(map(_combines, node.values()))
    return isinstance(node, list) and any(map(_combines, node))


def _prepared(schema: Mapping[str, Any], *, closes: bool) -> dict[str, Any]:
    """Return a schema in llguidance's terms.

    Args:
        schema: As a client sent it.
        closes: Whether objects with named properties have no others, unless they say so.
    """

    def prepared(value: Any) -> Any:
        return _prepared(value, closes=closes) if isinstance(value, dict) else value

    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _IGNORED_KEYWORDS or (value is None and key not in _VALUE_KEYWORDS):
            continue
        if key in _NAMED_SCHEMAS and isinstance(value, dict):
            out[key] = {name: prepared(one) for name, one in value.items()}
        elif key in _LISTED_SCHEMAS and isinstance(value, list):
            out[key] = [prepared(one) for one in value]
        elif key == "type":
            kinds = _lowered(value)
            if kinds != "any" and not (isinstance(kinds, list) and "any" in kinds):
                out[key] = kinds
        elif key in _MAXIMUM_KEYWORDS and isinstance(value, (int, float)) and value >= _LARGEST_BOUND:
            continue
        elif key == "pattern" and isinstance(value, str):
            first, *more = rust_patterns(value)
            out[key] = first
            if more:
                out["allOf"] = [*out.get("allOf", ()), *({"pattern": one} for one in more)]
        elif key != "format" or value in _KNOWN_FORMATS:
            out[key] = prepared(value) if key in _SINGLE_SCHEMAS else value
    names = out.get("properties")
    if closes and isinstance(names, dict) and not _OPEN_KEYWORDS & out.keys():
        required = out.get("required")
        if not isinstance(required, list) or all(isinstance(one, str) and one in names for one in required):
            out["additionalProperties"] = False
    return out


def _lowered(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_lowered(one) for one in kind]
    return kind.lower() if isinstance(kind, str) else kind


_REGEX_PARTS = re.compile(
    r"\\u(d[89ab]..)\\u(d[c-f]..)"  # surrogates
    r"|(\\(?:[pux]\{[^}]*\}|.))"  # an escape
    r"|(\[\^?(?:\\.|\[:\w+:\]|[^\]\\])*\])"  # a set
    r"|\{(?!\d+(?:,\d*)?\})",  # a brace that is no repetition
    re.DOTALL | re.IGNORECASE,
)
_IN_SET = re.compile(r"\\.|\[:\w+:\]|(\[|&&|--|~~)", re.DOTALL)
"""Only what Rust would read differently is in the group."""
_RUST_ESCAPES = {r"\A": "^", r"\Z": "$", r"\z": "$", r"\0": r"\x00"}


def rust_patterns(pattern: str) -> tuple[str, ...]:
    """Return a regular expression of JavaScript or Python as expressions of Rust that all must match.

    Lookaheads at the beginning become expressions of their own; other lookarounds are left for llguidance to refuse.
    """
    found, rest = [], _REGEX_PARTS.sub(_in_rust, pattern)
    while rest.startswith("^(?=") and (end := _group_end(rest)) is not None:
        found.append(f"^(?:{rest[4 : end - 1]})")
        rest = f"^{rest[end:]}"
    return rest, *found


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


def _group_end(pattern: str) -> int | None:
    """Return the end of the first group; None if alternatives follow it, to which it does not belong."""
    depth, end = 0, None
    for part in re.finditer(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|[()|]", pattern, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if depth == 0 and part[0] == "|":
            return None
        if depth == 0 and end is None:
            end = part.end()
    return end
