"""Sampling values that a model file recommends, valid and invalid ones."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.types import SamplingParams
from app.models.gguf import parse_header
from app.settings.checking import in_one_line, recommended
from app.settings.layers import Layer, Origin, Resolved, sampling
from tests.llama.gguf_files import F64, I32, I64, U64, Array, Typed, header, tiny

KEY = "general.sampling."
EVERYTHING = {
    "temp": 0.6,
    "top_k": Typed(I32, 20),
    "top_p": 0.95,
    "min_p": 0.0,
    "penalty_last_n": Typed(I32, 128),
    "penalty_repeat": 1.05,
}


def of_file(**values: Any) -> Layer:
    """Return what is read from a file with these keys behind the vocabulary."""
    written = {**tiny(), **{f"{KEY}{key}": value for key, value in values.items()}}
    return recommended(parse_header(header(written), vocabulary=False).metadata)


def chain(found: Layer) -> SamplingParams:
    return sampling(Resolved({Origin.MODEL: found}))


def test_every_value_is_taken_with_the_digits_that_were_written() -> None:
    found = of_file(**EVERYTHING)

    assert chain(found) == SamplingParams(0.6, 20, 0.95, 0.0, repeat_last_n=128, repeat_penalty=1.05)
    assert in_one_line(found) == "temp 0.6, top_k 20, top_p 0.95, min_p 0, repeat_penalty 1.05, repeat_last_n 128"


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("temp", 1, "sampling.temp", 1.0),
        ("temp", Typed(F64, 0.7), "sampling.temp", 0.7),
        ("top_k", Typed(I64, 40), "sampling.top_k", 40),
        ("top_k", 40.0, "sampling.top_k", 40),
        ("penalty_last_n", Typed(I32, 0), "sampling.repeat_last_n", 0),
        ("penalty_last_n", Typed(I32, -1), "sampling.repeat_last_n", 65_536),
    ],
)
def test_numbers_of_other_types_mean_the_same(key: str, value: Any, name: str, expected: float) -> None:
    found = of_file(**{key: value})

    assert found == {name: expected}
    assert type(found[name]) is type(expected)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temp", math.nan),
        ("temp", -0.5),
        ("temp", "0.7"),
        ("temp", "\x1b[31m" * 1000),
        ("temp", True),
        ("top_p", Typed(F64, 1e300)),
        ("top_k", Array(I32, [1, 2])),
        ("top_k", 0.5),
        ("top_k", Typed(U64, (1 << 64) - 1)),
        ("min_p", math.inf),
        ("penalty_last_n", Typed(I32, -2)),
        ("penalty_repeat", 0.0),
    ],
)
def test_an_invalid_value_costs_only_itself(key: str, value: Any) -> None:
    given = {"presence": 1, "top_p": 0.5, "min_p": 0.1, key: value}
    found = of_file(**given)

    kept = {name: 0.5 if name == "top_p" else 0.1 for name in ("top_p", "min_p") if name != key}
    assert found == {f"sampling.{name}": value for name, value in kept.items()}


# Whatever may stand there

RAW = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), 1 << 64),
    st.floats(),
    st.text("7.e-;\x1b", max_size=40),
    st.lists(st.integers()),
)
NAMES = st.sampled_from([*EVERYTHING, "sequence", "other"])


@given(st.dictionaries(NAMES, RAW))
def test_anything_gives_a_chain_that_can_be_built(raw: dict[str, object]) -> None:
    found = recommended({f"{KEY}{key}": value for key, value in raw.items()})

    chain(found)
    assert isinstance(in_one_line(found), str)
