"""Convert JSON schemas of clients to rules of llguidance's Lark grammars.

llguidance does most of the work. This module rewrites what its other users do not send: patterns of JavaScript and
Python, null values, types such as "any". It also names the place of an unsupported keyword.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from app.core.errors import UsageError
from app.engine.text.call_values import definitions_in, target_of
from app.llama.matcher import refusal
from app.llama.text_patterns import LARGEST_BOUND, rust_patterns

log = logging.getLogger("tandem.llama")

_WHITE_SPACE = r"[ ]|\n{1,2}[ \t]{0,20}"
"""White space between the parts of JSON, bounded as in llama.cpp: small models would write it without end."""
_MAX_LEVELS = 300
"""Levels of objects, arrays and references; llguidance overflows a stack of 1 MiB at twice as many."""
_TOO_DEEP = f"it has more than {_MAX_LEVELS} levels of objects, arrays and references"
_KNOWN_FORMATS = frozenset(
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"]
)
"""Formats that llguidance knows; the standard allows a reader to ignore others."""
_IGNORED_KEYWORDS = frozenset(("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "x-guidance"))
_OTHER_KEYWORDS = frozenset(
    (
        *("$ref", "type", "enum", "const", "required", "pattern", "format", "multipleOf", "minimum", "maximum"),
        *("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
        *("minProperties", "maxProperties", "uniqueItems", "minContains", "maxContains", "dependentRequired"),
        *("dependencies", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"),
        # Annotations, which restrict nothing
        *("title", "description", "$comment", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"),
        *("contentEncoding", "contentMediaType", "contentSchema", "discriminator", "externalDocs"),
    )
)
"""Keywords without nested schemas. llguidance refuses what it cannot enforce, but ignores misspelled keywords."""
_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Keywords with an object of schemas."""
_LISTED_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_SINGLE_SCHEMAS = frozenset(
    ("items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else")
)
_STRUCTURAL_KEYWORDS = frozenset(("type", "properties"))
"""Keywords that are rarely the fault, although without them nothing is refused."""
_NO_LIMITS: dict[str, Any] = {"uniqueItems": False, "propertyNames": {"type": "string"}, "nullable": False}
"""Values of keywords that restrict nothing, written by schema generators."""
_VALUE_KEYWORDS = frozenset(("const", "enum", "default", "examples"))
_MAXIMUM_KEYWORDS = frozenset(("maxLength", "maxItems", "maxProperties"))
_LOW_BOUNDS = frozenset(("minimum", "exclusiveMinimum"))
_HIGH_BOUNDS = frozenset(("maximum", "exclusiveMaximum"))
_LARGEST_NUMBER = 10**18
"""Larger bounds are ignored, such as bounds of 64-bit integers, which llguidance refuses."""
_SMALLEST_NUMBER = -(2.0**63)
"""llguidance recurses forever for this number."""
_COMBINING_KEYWORDS = frozenset(("anyOf", "oneOf", "$ref", "if", "dependentSchemas"))
_OPEN_KEYWORDS = _COMBINING_KEYWORDS | {
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "minProperties",
}
"""Keywords with which an object without `additionalProperties` stays open."""


def schema_rule(schema: Any, owner: str = "The JSON schema", *, strict: bool = False) -> str:
    """Return a JSON schema as the right side of a Lark rule.

    A keyword that llguidance does not know, such as `contains`, is an error in a strict schema. Otherwise the rest of
    the schema holds, as in OpenAI's API, and the log names the keyword once; llama-server says nothing.

    Args:
        owner: Subject of the error message.

    Raises:
        UsageError: The schema cannot be enforced; the error names the place and the keyword.
    """
    try:
        rule, ignored = _checked_rule(json.dumps(schema), strict=strict)
    except (UsageError, RecursionError) as error:
        reason = error.message if isinstance(error, UsageError) else _TOO_DEEP
        raise UsageError(f"{owner} cannot be enforced: {reason}.", "Remove or replace that keyword.") from None
    if ignored:
        warn_once(f"{owner} is enforced only in part: {ignored}")
    return rule


@lru_cache(maxsize=1024)
def warn_once(sentence: str) -> None:
    """Log once what requests ask for and do not get."""
    log.warning(sentence)


@lru_cache(maxsize=256)
def _checked_rule(text: str, *, strict: bool) -> tuple[str, str]:
    """Return the rule of a schema, and the first keyword that does not hold with the reason, if any."""
    root = json.loads(text)
    _check_depth(root, root, set(), 0)
    ignored: list[str] = []
    prepared = _prepared(root, (), ignored, closes=not _combines(root)) if isinstance(root, dict) else {}
    json.loads(json.dumps(prepared), parse_int=_checked_number, parse_float=_checked_number)
    if reason := _refusal(prepared, strict=True):
        ignored.append(_fault(prepared, reason, strict=True))
    if reason and not strict and (reason := _refusal(prepared, strict=False)):
        raise UsageError(_fault(prepared, reason, strict=False))
    if strict and ignored:
        raise UsageError(ignored[0])
    return _rule(prepared, strict=strict), "; ".join(ignored)


def _checked_number(text: str) -> None:
    if float(text) == _SMALLEST_NUMBER:
        raise UsageError(f"the number {text} is too small")


def checked_rule(rule: str, owner: str) -> str:
    """Return the right side of a Lark rule.

    Raises:
        UsageError: llguidance refuses it.
    """
    if reason := refusal(f"start: T\nT: {rule}" if rule.startswith("/") else f"start: {rule}"):
        raise UsageError(f"{owner} cannot be enforced: {reason}.", "Correct it, or leave it out.")
    return rule


def _rule(schema: Mapping[str, Any], *, strict: bool) -> str:
    options = {"lenient": not strict, "coerce_one_of": True, "whitespace_pattern": _WHITE_SPACE}
    return f"%json {json.dumps({**schema, 'x-guidance': options})}"


def _refusal(schema: Mapping[str, Any], *, strict: bool) -> str | None:
    return refusal(f"start: {_rule(schema, strict=strict)}")


def _fault(root: Mapping[str, Any], reason: str, *, strict: bool) -> str:
    """Return the keyword that is refused, with the place of its schema and the reason."""

    def is_refused(node: Mapping[str, Any]) -> bool:
        return _refusal({**definitions_in(root), **node}, strict=strict) == reason

    place, node = max((one for one in _nodes(root) if is_refused(one[1])), key=lambda one: len(one[0]))
    keywords = sorted(node, key=_STRUCTURAL_KEYWORDS.__contains__)
    found = (key for key in keywords if not is_refused({other: node[other] for other in keywords if other != key}))
    shown = "it is not supported" if reason.startswith("Unimplemented keys") else reason
    return f"{_at(next(found, 'it'), place)}: {shown}"


def _at(keyword: str, place: tuple[str, ...]) -> str:
    return " at ".join(filter(None, (json.dumps(keyword), ".".join(place))))


def _nodes(node: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield all objects in a schema with their places; objects that are no schemas are never refused."""
    if isinstance(node, dict):
        yield place, node
    named = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, child in named:
        yield from _nodes(child, (*place, str(name)))


def _check_depth(node: Any, root: Any, seen: set[str], depth: int) -> None:
    """Refuse what llguidance would not survive; it follows each reference once, recursively."""
    if depth > _MAX_LEVELS:
        raise UsageError(_TOO_DEEP)
    if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        target, passed = target_of(root, reference), {reference}
        # llguidance follows circular references for seconds.
        while isinstance(target, dict) and isinstance(other := target.get("$ref"), str):
            if other in passed:
                raise UsageError(f'"$ref": no value is valid, because "{reference}" leads to itself only')
            passed.add(other)
            target = target_of(root, other)
        _check_depth(target_of(root, reference), root, seen, depth + 1)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        if isinstance(child, (dict, list)):
            _check_depth(child, root, seen, depth + 1)


def _combines(root: Any) -> bool:
    """Return whether properties come from several schemas, so that none of them may forbid others."""
    return any(
        "allOf" in node or ({"properties", "required"} & node.keys() and _COMBINING_KEYWORDS & node.keys())
        for _, node in _nodes(root)
    )


def _prepared(schema: Mapping[str, Any], place: tuple[str, ...], ignored: list[str], *, closes: bool) -> dict[str, Any]:
    """Return a schema in llguidance's terms.

    Args:
        ignored: Unknown keywords are appended.
        closes: Whether objects with named properties allow no others, unless they say so.
    """

    def prepared(value: Any, *names: Any) -> Any:
        at = (*place, *map(str, names))
        return _prepared(value, at, ignored, closes=closes) if isinstance(value, dict) else value

    out: dict[str, Any] = {}
    for key, value in schema.items():
        is_note = key in _IGNORED_KEYWORDS or key.startswith("x-") or (key in _NO_LIMITS and _NO_LIMITS[key] == value)
        if is_note or (value is None and key not in _VALUE_KEYWORDS):
            continue
        if key in _NAMED_SCHEMAS and isinstance(value, dict):
            out[key] = {name: prepared(one, key, name) for name, one in value.items()}
        elif key in _LISTED_SCHEMAS and isinstance(value, list):
            out[key] = [prepared(one, key, n) for n, one in enumerate(value)]
        elif key in _SINGLE_SCHEMAS:
            out[key] = prepared(value, key)
        elif key not in _NAMED_SCHEMAS | _LISTED_SCHEMAS | _OTHER_KEYWORDS:
            ignored.append(f"{_at(key, place)}: it is no keyword")
        elif key == "type":
            kinds = _lowered(value)
            if kinds != "any" and not (isinstance(kinds, list) and "any" in kinds):
                out[key] = kinds
        elif isinstance(value, (int, float)) and (
            (key in _MAXIMUM_KEYWORDS and value >= LARGEST_BOUND)
            or (key in _LOW_BOUNDS and value <= -_LARGEST_NUMBER)
            or (key in _HIGH_BOUNDS and value >= _LARGEST_NUMBER)
        ):
            continue
        elif key == "pattern" and isinstance(value, str):
            first, *more = rust_patterns(value)
            out[key] = first
            if more:
                out["allOf"] = [*out.get("allOf", ()), *({"pattern": one} for one in more)]
        elif key != "format" or (isinstance(value, str) and value in _KNOWN_FORMATS):
            out[key] = value
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
