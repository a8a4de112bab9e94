"""Argument values of tool calls as JSON, by the schema of their parameter and the notation of their format."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

from app.engine.text.call_format import Values

_JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_NUMBER_STARTS = "-0123456789"
_VALUE_STARTS = {
    "null": "nN",
    "boolean": "tfTF",
    "integer": _NUMBER_STARTS,
    "number": _NUMBER_STARTS,
    "object": "{]",
    "array": "[(]",
}
"""Possible first characters of values by type."""
_ONLY_STRING = frozenset({"string"})
_TEXT_KEYWORDS = ("pattern", "minLength", "maxLength")
_MOST_REFERENCES = 8
_WORD_VALUES = {"True": "true", "False": "false", "None": "null"}
_NOTATION_PARTS = re.compile(
    r"""(<\|"\|>|<escape>)(.*?)\1|(['"])((?:\\.|(?!\3)[^\\])*)\3|([(),])\s*(?=([\]})])?)|([^\s:,{}\[\]()'"<]+)(\s*:)?""",
    re.DOTALL,
)
"""A string between marks; a string between quotes; a sign that JSON writes differently; a word, perhaps as a key."""
_ESCAPED_CHARS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_ESCAPE_PATTERN = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_TAG_PATTERN = re.compile(r"\]<\]minimax\[>\[<(/?)([^<>]+)>")


class Schema:
    """A JSON schema of one value, inside the document that its references point into.

    Attributes:
        keywords: Its own keywords, and those of the schema that it refers to.
    """

    def __init__(self, value: Any, root: Any = None) -> None:
        self._given, self._root = value, value if root is None else root
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, dict) or not isinstance(reference := value.get("$ref"), str):
                break
            target, beside = target_of(self._root, reference), {key: value[key] for key in value if key != "$ref"}
            value = _joined(target, beside) if isinstance(target, dict) else target
        self.keywords: Mapping[str, Any] = value if isinstance(value, dict) else {}

    @property
    def document(self) -> Any:
        """Return the schema as a document of its own, with the definitions that its references need."""
        return {**definitions_in(self._root), **self._given} if isinstance(self._given, dict) else self._given

    @property
    def properties(self) -> Mapping[str, Any]:
        """Return the schemas of an object's properties by name."""
        found = self.keywords.get("properties")
        return found if isinstance(found, dict) else {}

    @property
    def required(self) -> Collection[str]:
        """Return the names of the properties that an object must have."""
        found = self.keywords.get("required")
        return found if isinstance(found, list) else ()

    def takes_key(self, key: str) -> bool:
        """Return whether an object may have a property; any, without known properties or a rule for others."""
        others = self.keywords.get("additionalProperties", not self.properties)
        return key in self.properties or (others is not False and others is not None)

    def of(self, key: str) -> Schema:
        """Return the schema of an object's property."""
        return Schema(self.properties.get(key, self.keywords.get("additionalProperties")), self._root)

    @property
    def items(self) -> Schema:
        """Return the schema of an array's elements."""
        return Schema(self.keywords.get("items"), self._root)

    @property
    def listed(self) -> list[Any]:
        """Return the only possible values, if the schema lists them."""
        value = self.keywords
        return value["enum"] if isinstance(value.get("enum"), list) else [value["const"]] if "const" in value else []

    @property
    def kinds(self) -> frozenset[str] | None:
        """Return the JSON types of the value; None for any type."""
        value, kind = self.keywords, self.keywords.get("type")
        if isinstance(kind, str | list):
            found: frozenset[str] | None = frozenset([kind] if isinstance(kind, str) else map(str, kind))
        elif self.listed:
            found = frozenset(map(_kind_of, self.listed))
        else:
            found = self._combined()
        if found is None and any(word in value for word in _TEXT_KEYWORDS):
            found = frozenset(["string"])
        return found | {"null"} if found is not None and value.get("nullable") is True else found

    def _combined(self) -> frozenset[str] | None:
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(several := self.keywords.get(word), list) and several:
                kinds = [Schema(one, self._root).kinds for one in several]
                known = [one for one in kinds if one is not None]
                if word == "allOf":
                    return frozenset.intersection(*known) if known else None
                return frozenset.union(*known) if len(known) == len(kinds) else None
        return None

    def may_not_be_text(self, beginning: str) -> bool:
        """Return whether a value with this beginning may be anything but a string."""
        kinds = self.kinds
        first = beginning.lstrip()[:1]
        return kinds is None or any(first in _VALUE_STARTS.get(kind, "") for kind in kinds - _ONLY_STRING)


def target_of(root: Any, reference: str) -> Any:
    """Return the schema that a reference names in a document; None if there is none."""
    other, _, pointer = unquote(reference).partition("#")
    if other and not pointer:
        # It names a whole other document.
        return None
    node = root
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return node


def _joined(target: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a schema and of the reference to it; an object has the properties of both."""
    found: dict[str, Any] = {**target, **beside}
    one, other = target.get("properties"), beside.get("properties")
    if isinstance(one, dict) and isinstance(other, dict):
        found["properties"] = {**one, **other}
    one, other = target.get("required"), beside.get("required")
    if isinstance(one, list) and isinstance(other, list):
        found["required"] = [*one, *other]
    return found


def definitions_in(root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions of a document, which its references name."""
    return {key: root[key] for key in ("$defs", "definitions") if key in root}


def as_json(text: str, schema: Schema, notation: Values) -> str:
    """Return a value as JSON: a string if the schema allows nothing else, or the denoted value."""
    kinds = schema.kinds
    if kinds == _ONLY_STRING:
        return _text(text)
    bare = text.strip()
    try:
        value = json.loads(bare, parse_constant=_refuse)
    except (ValueError, RecursionError):
        try:
            other = _NOTATION_PARTS.sub(_in_json, bare)
            value = json.loads(other, parse_constant=_refuse) if notation is not Values.TAGS else _tagged(bare, schema)
        except (ValueError, RecursionError):
            return _text(text)
        bare = _text(value)
    is_other = kinds is None or "string" not in kinds or (not isinstance(value, str) and _kind_of(value) in kinds)
    if not is_other or (kinds is not None and "string" in kinds and text != text.strip()):
        return _text(text)
    return bare


def unescaped(text: str) -> str:
    """Return the text of a Python string without its quotes."""
    return _ESCAPE_PATTERN.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    if code := found[1] or found[2]:
        return chr(int(code, 16))
    return _ESCAPED_CHARS.get(found[3], found[3] if found[3] in "\\'\"/" else found[0])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _kind_of(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _JSON_TYPES.get(type(value), "null")


def _in_json(part: re.Match[str]) -> str:
    """Convert a part of a value from Python notation, or from bare keys and marked strings, to JSON."""
    mark, marked, quote, quoted, sign, closer, word, colon = part.groups()
    if mark or quote:
        return _text(marked if mark else unescaped(quoted))
    if sign == ",":
        # Python allows a trailing comma.
        return "" if closer else ", "
    if sign:
        return "[" if sign == "(" else "]"
    return f"{_text(word)}:" if colon else _WORD_VALUES.get(word, word)


def _tagged(text: str, schema: Schema) -> Any:
    """Return a value whose parts are in tags with their names; elements of a list are named "item"."""
    parts: list[tuple[str, str]] = []
    depth, begin = 0, 0
    for tag in _TAG_PATTERN.finditer(text):
        depth += -1 if tag[1] else 1
        if depth == 1 and not tag[1]:
            begin = tag.end()
        elif depth == 0:
            parts.append((tag[2], text[begin : tag.start()]))
    kinds = schema.kinds or frozenset()
    if not parts and not kinds & {"array", "object"}:
        raise ValueError("no tags")
    if "array" in kinds or (parts and "object" not in kinds and all(name == "item" for name, _ in parts)):
        return [json.loads(as_json(inner, schema.items, Values.TAGS)) for _, inner in parts]
    return {name: json.loads(as_json(inner, schema.of(name), Values.TAGS)) for name, inner in parts}
