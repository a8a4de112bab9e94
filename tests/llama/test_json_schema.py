"""Answers obey a JSON schema from a client, and an unenforceable schema is an error that names its place."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from app.core.errors import UsageError
from app.engine.types import Guidance
from app.llama.json_schema import schema_rule
from app.llama.pair import NativePair
from app.llama.text_patterns import rust_patterns
from tests.llama.generation import GREEDY

pytestmark = pytest.mark.native
BIG = 10**15 - 1
UNUSUAL = ("C:\\users", "a\nb", 'q"q', "😀", "</h1>")
STRINGS = {"type": "string", "maxLength": 10**9}


def allowed(pair: NativePair, schema: Any, text: str) -> bool:
    """Return whether a text and its end are allowed."""
    (end,) = pair.model.tokenize("<|im_end|>", parse_special=True)
    sampler = pair.new_sampler(GREEDY, Guidance(schema=schema))
    tokens = [*pair.tokenize(text), end]
    try:
        return sampler.n_allowed(tokens) == len(tokens)
    finally:
        sampler.close()


@pytest.mark.parametrize(("low", "high"), [(0, 130), (-120, -7), (5, 5), (999, 1000)])
def test_whole_numbers_stay_within_bounds(pair: NativePair, low: int, high: int) -> None:
    schema = {"type": "integer", "minimum": low, "maximum": high}
    for n in {low - 1, low, low + 1, high - 1, high, high + 1, (low + high) // 2, low * 10 - 1, high * 10 + 1}:
        assert allowed(pair, schema, str(n)) is (low <= n <= high), n
    assert not allowed(pair, schema, f"{high}.5")


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ({"minimum": 0}, ["0", "0.5", "12", str(BIG)], ["-1", "-0.5"]),
        ({"minimum": 0.5, "maximum": 0.75}, ["0.5", "0.70"], ["0.4", "0.76", "1"]),
        ({"exclusiveMinimum": 0, "maximum": 10}, ["0.01", "3", "10"], ["0", "0.0", "-1", "10.5"]),
        ({"multipleOf": 0.5}, ["1", "1.5"], ["1.2"]),
        ({"enum": [1, 2.5]}, ["1", "2.5"], ["2"]),
    ],
)
def test_numbers_stay_within_bounds(
    pair: NativePair, bounds: dict[str, Any], inside: list[str], outside: list[str]
) -> None:
    schema = {"type": "number", **bounds}
    assert [text for text in inside if not allowed(pair, schema, text)] == []
    assert [text for text in outside if allowed(pair, schema, text)] == []


PATTERNS = {
    r"^\d{4}-\d{2}$": ("2026-11", "2026-1"),
    r"^[\w.\-]+\/\w+\.\w+$": ("a-b/c.d", "a-b"),
    r"foo": ("a foo b", "fo"),
    r"^(?:ab|c)+$": ("abc", "a"),
    r"^(?=.*\d)(?=.*[a-z])[a-z\d]{2,}$": ("a1", "aa"),
    r"^(?P<year>\d+)\Z": ("20", "x"),
    r"^[!-/:-@[-`{-~]+$": ("[{", "a"),
    r"^[[\]]+$": ("[]", "a"),
    r"^[a&&b]+$": ("a&b", "c"),
    r"^{\w+}$": ("{a}", "a"),
    r"^[^]{2}$": ("ab", "a"),
    r"^\p{L}+\u4e2d$": ("ä中", "1中"),
    r"^\uD83D\uDE00$": ("😀", "a"),
    '^"[^"]*"$': ('"a"', "a"),
}
"""Regular expressions of JavaScript and Python, with a matching and a non-matching text each."""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_holds(pair: NativePair, pattern: str) -> None:
    right, wrong = PATTERNS[pattern]
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}, "required": ["x"]}
    assert allowed(pair, schema, json.dumps({"x": right}, ensure_ascii=False))
    assert not allowed(pair, schema, json.dumps({"x": wrong}, ensure_ascii=False))


@pytest.mark.parametrize("pattern", [r"^(?=a)b|c$", r"^a(?=b)", r"(?<!a)b$"])
def test_lookarounds_elsewhere_are_left_as_they_are(pattern: str) -> None:
    assert rust_patterns(pattern) == (pattern,)


TREE = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}, "required": ["v"]}
ACCEPTED: list[tuple[Any, Any]] = [
    *(({"enum": list(UNUSUAL)}, value) for value in UNUSUAL),
    ({"const": {"a": [1, "b"]}}, {"a": [1, "b"]}),
    ({"type": "object", "properties": {key: {"type": "integer"} for key in UNUSUAL}}, dict.fromkeys(UNUSUAL, 1)),
    (TREE, {"v": 1, "next": {"v": 2}}),
    ({"$ref": "#/$defs/N", "$defs": {"N": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}, [[], [[]]]),
    ({"type": "object", "properties": {"x": {"enum": []}}}, {}),
    ({"properties": {"x": {"type": "any"}, "y": True, "z": {}}}, {"x": 1, "y": "2", "z": [None]}),
    ({"type": "OBJECT", "properties": {"x": {"type": ["STRING", "null"]}}, "required": None}, {"x": None}),
    ({"type": "array", "items": STRINGS, "maxItems": 10**6}, ["a", "b"]),
    ({**STRINGS, "maxLength": 2**63}, "a"),
    ({"not": {"type": "string"}}, 1),
    ({"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}),
    ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "abcd"),
    ({"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]}, {"a": 1, "b": 2}),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1]),
    ({"type": "string", "format": "binary"}, "x"),
    ({"type": "string", "format": {}}, "x"),
    ({"type": "integer", "minimum": -(1 << 63), "exclusiveMaximum": 1 << 64}, 5),
    ({"type": "string", "format": "date"}, "2026-11-28"),
    ({"$schema": "nonsense", "$id": "x", "type": "object", "x-guidance": {"no": 1}}, {}),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"any": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), ACCEPTED)
def test_schemas_of_clients_are_taken(pair: NativePair, schema: Any, value: Any) -> None:
    for text in (json.dumps(value, ensure_ascii=False), json.dumps(value, indent=2, ensure_ascii=False)):
        assert allowed(pair, schema, text)


REJECTED: list[tuple[Any, str]] = [
    ({"enum": list(UNUSUAL)}, '"C:\\users"'),
    ({"enum": list(UNUSUAL)}, '"a\nb"'),
    ({"type": "string", "format": "date"}, '"tomorrow"'),
    (TREE, '{"v": 1, "other": 2}'),
    (TREE, '{"v": 1,\n\n\n\n"next": {"v": 2}}'),
]


@pytest.mark.parametrize(("schema", "text"), REJECTED)
def test_other_texts_are_forbidden(pair: NativePair, schema: Any, text: str) -> None:
    assert not allowed(pair, schema, text)


def in_property(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"list": {"type": "array", "items": schema}}}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (in_property({"type": "string", "pattern": "^(?!a)"}), '"pattern" at properties.list.items: look-around'),
        (in_property({"type": "string", "pattern": "[a"}), '"pattern" at properties.list.items: unclosed'),
        (in_property({"type": "nonsense"}), '"type" at properties.list.items: Invalid type: nonsense'),
        (in_property({"$ref": "https://example.org/x.json"}), '"$ref" at properties.list.items'),
        (in_property({"minimum": "1"}), '"minimum" at properties.list.items'),
        ({"type": "integer", "minimum": 3, "maximum": 2}, '"minimum": Unsatisfiable schema'),
        ({"type": {"a": 1}}, '"type": type must be'),
        ({"type": 5}, '"type": type must be'),
        ({"$ref": "#"}, '"$ref": no value is valid'),
        *(({"enum": [{"a": n}]}, f"the number {n} is too small") for n in (-(1 << 63), -(1 << 63) + 9)),
        ({"type": "integer", "maximum": -(1 << 63)}, "the number"),
    ],
)
def test_an_unenforceable_keyword_is_named_with_its_place(schema: Any, place: str) -> None:
    with pytest.raises(UsageError, match=f'The tool "f" cannot be enforced: {re.escape(place)}'):
        schema_rule(schema, 'The tool "f"')


@pytest.mark.parametrize("keyword", ["not", "contains", "propertyNames", "uniqueItems", "minimun"])
def test_a_keyword_that_does_not_hold_is_an_error_or_logged_once(
    keyword: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = in_property({keyword: {"const": 3}, "x-order": 1, "deprecated": True})
    place = f'"{keyword}" at properties.list.items'
    with pytest.raises(UsageError, match=re.escape(place)):
        schema_rule(schema, strict=True)
    for _ in range(2):
        assert schema_rule(schema, f"The schema with {keyword}")
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"The schema with {keyword} is enforced only in part: {place}: ")


def test_a_strict_schema_may_have_keywords_that_restrict_nothing() -> None:
    record = {"propertyNames": {"type": "string"}, "uniqueItems": False, "x-order": 1, "title": "a", "deprecated": True}
    assert schema_rule({"oneOf": [{"type": "string"}, {"minLength": 3}], "format": "path", **record}, strict=True)


def nested(levels: int) -> Any:
    return {"type": "array", "items": nested(levels - 1)} if levels else {}


def chained(links: int) -> Any:
    names = [f"N{n}" for n in range(links)]
    links_to = {a: {"properties": {"x": {"$ref": f"#/$defs/{b}"}}} for a, b in pairwise(names)}
    return {"$ref": "#/$defs/N0", "$defs": {**links_to, names[-1]: {}}}


@pytest.mark.parametrize("schema", [nested(200), nested(900), chained(5000)], ids=["nested", "deeper", "chained"])
def test_a_schema_that_would_overflow_a_stack_is_an_error(schema: Any) -> None:
    with pytest.raises(UsageError, match="cannot be enforced"):
        schema_rule(schema)
    assert schema_rule(nested(50))
    assert schema_rule(chained(90))


@pytest.mark.parametrize("word", ["allOf", "anyOf", None])
def test_circular_references_are_refused(word: str | None) -> None:
    def to(name: str) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/{name}"}
        return {word: [reference]} if word is not None else reference

    with pytest.raises(UsageError, match=r'"\$ref".*no value is valid'):
        schema_rule({"$ref": "#/$defs/A", "$defs": {"A": to("B"), "B": to("A")}})
