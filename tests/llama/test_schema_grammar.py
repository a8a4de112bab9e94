"""Numbers stay within the bounds of a JSON schema, and bounds that cannot be kept are errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import UsageError
from app.engine.types import Guidance, SamplingParams
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.llama.params import PairParams
from app.llama.schema_grammar import grammar_of_schema

pytestmark = pytest.mark.native
BIG = 10**15 - 1


@pytest.fixture(scope="module")
def pair(demo_target: Path) -> Iterator[NativePair]:
    loaded = NativePair(PairParams(demo_target, None, n_threads=1, n_ctx=64), CancelFlag(), lambda *_: True)
    yield loaded
    loaded.close()


def allowed(pair: NativePair, schema: dict[str, Any], text: str) -> bool:
    """Return whether a text and its end are allowed."""
    (end,) = pair._model.tokenize("<|im_end|>", parse_special=True)
    sampler = pair.new_sampler(SamplingParams(temperature=0), Guidance(schema=schema))
    tokens = [*pair.tokenize(text), end]
    try:
        return sampler.n_allowed(tokens) == len(tokens)
    finally:
        sampler.close()


@pytest.mark.parametrize(
    ("low", "high"), [(0, 9), (0, 130), (7, 42), (18, 218), (-5, 5), (-120, -7), (5, 5), (-1, 1005), (999, 1000)]
)
def test_whole_numbers_within_bounds(pair: NativePair, low: int, high: int) -> None:
    schema = {"type": "integer", "minimum": low, "maximum": high}
    tried = {*range(low - 3, low + 12), *range(high - 12, high + 3), (low + high) // 2, low * 10 - 1, high * 10 + 1}
    for n in tried:
        assert allowed(pair, schema, str(n)) is (low <= n <= high), n
    assert not allowed(pair, schema, f"{high}.5")
    assert not allowed(pair, schema, f"0{abs(high)}")


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ({"minimum": 0}, ["0", "0.5", "12", str(BIG)], ["-1", "-0.5"]),
        ({"maximum": -2}, ["-2", "-2.0", "-2.5", "-30"], ["-1", "0", "2", "-1.9"]),
        ({"minimum": 0, "maximum": 1}, ["0", "0.25", "1", "1.0"], ["1.01", "2", "-0.1"]),
        ({"exclusiveMinimum": 0, "maximum": 10}, ["0.01", "3", "10"], ["0", "0.0", "-1", "10.5"]),
        ({"minimum": -1, "exclusiveMaximum": 1}, ["-1", "-0.3", "0", "0.99"], ["1", "1.0", "-1.1"]),
        ({"minimum": -3, "exclusiveMinimum": -3, "exclusiveMaximum": 0}, ["-2.9", "-0.1"], ["-3", "0", "-0", "0.1"]),
    ],
)
def test_numbers_within_bounds(pair: NativePair, bounds: dict[str, Any], inside: list[str], outside: list[str]) -> None:
    schema = {"type": "number", **bounds}
    assert [text for text in inside if not allowed(pair, schema, text)] == []
    assert [text for text in outside if allowed(pair, schema, text)] == []


def test_bounds_in_a_property_and_beside_null(pair: NativePair) -> None:
    age = {"type": ["integer", "null"], "exclusiveMinimum": 1.5, "exclusiveMaximum": 4}
    schema = {"type": "object", "properties": {"number": age, "other": {"type": "number"}}, "required": ["number"]}
    for value, is_right in (("2", True), ("3", True), ("null", True), ("1", False), ("4", False)):
        assert allowed(pair, schema, f'{{"number": {value}, "other": 7.5}}') is is_right


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ({"minimum": 0.5}, "bounds without a fraction"),
        ({"minimum": "1"}, "minimum is '1'"),
        ({"exclusiveMinimum": True}, "exclusiveMinimum is True"),
        ({"minimum": 3, "maximum": 2}, "no number lies within"),
        ({"exclusiveMinimum": 2, "exclusiveMaximum": 2}, "no number lies within"),
        ({"maximum": float("inf")}, "maximum is inf"),
        ({"multipleOf": 0.5}, "multipleOf is 0.5, which a grammar cannot express"),
    ],
)
def test_bounds_that_cannot_be_kept_are_errors(bounds: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        grammar_of_schema({"type": "number", **bounds})


def test_a_step_that_every_value_keeps_is_no_error() -> None:
    fine = {"type": ["integer", "null"], "multipleOf": 1}, {"enum": [5, 10], "multipleOf": 5}
    for schema in fine:
        assert grammar_of_schema({"type": "object", "properties": {"n": schema}})
