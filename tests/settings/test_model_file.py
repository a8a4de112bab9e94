"""Sampling values that a model file recommends, valid and invalid ones."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.types import SamplingParams
from app.models.gguf import parse_header
from app.settings.layers import Layer, Origin, Resolved
from app.settings.model_file import Recommended, recommended
from app.settings.params import sampling
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


def of_file(**values: Any) -> Recommended:
    """Return what is read from a file with these keys behind the vocabulary."""
    written = {**tiny(), **{f"{KEY}{key}": value for key, value in values.items()}}
    return recommended(parse_header(header(written), vocabulary=False).metadata)


def chain(found: Recommended) -> SamplingParams:
    return sampling(Resolved({Origin.MODEL: found.values}))


def test_every_value_is_taken_with_the_digits_that_were_written() -> None:
    found = of_file(**EVERYTHING)

    assert chain(found) == SamplingParams(0.6, 20, 0.95, 0.0, repeat_last_n=128, repeat_penalty=1.05)
    assert found.line == "temp 0.6, top_k 20, top_p 0.95, min_p 0, repeat_penalty 1.05, repeat_last_n 128"
    assert found.notice == ""


def test_a_file_that_recommends_nothing_shows_nothing() -> None:
    assert of_file() == Recommended()
    assert (Recommended().line, Recommended().values) == ("", {})


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

    assert found == Recommended({name: expected})
    assert type(found.values[name]) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("temp", math.nan, 'sampling.temp is "nan"; it must be a number between 0 and 100.'),
        ("temp", -0.5, 'sampling.temp is "-0.5"'),
        ("temp", "0.7", 'sampling.temp is "0.7"'),
        ("temp", "\x1b[31m" * 1000, 'sampling.temp is "'),
        ("temp", True, 'sampling.temp is "True"'),
        ("top_p", Typed(F64, 1e300), 'sampling.top_p is "1e+300"'),
        ("top_k", Array(I32, [1, 2]), "sampling.top_k is"),
        ("top_k", 0.5, 'sampling.top_k is "0.5"'),
        ("top_k", Typed(U64, (1 << 64) - 1), "sampling.top_k is"),
        ("min_p", math.inf, 'sampling.min_p is "inf"'),
        ("penalty_last_n", Typed(I32, -2), 'sampling.repeat_last_n is "-2"'),
        ("penalty_repeat", 0.0, 'sampling.repeat_penalty is "0.0"'),
    ],
)
def test_what_cannot_be_meant_costs_only_itself_and_is_reported(key: str, value: Any, said: str) -> None:
    given = {"presence": 1, "top_p": 0.5, "min_p": 0.1, key: value}
    found = of_file(**given)

    kept = {name: 0.5 if name == "top_p" else 0.1 for name in ("top_p", "min_p") if name != key}
    assert found.values == {f"sampling.{name}": value for name, value in kept.items()}
    assert said in found.notice
    assert found.notice.isprintable()
    assert len(found.notice) < 300


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
    assert isinstance(found.line, str)
    assert len(found.notice) < 1000


# Where greedy answers were asked for

PENALISED = Recommended({"sampling.temp": 0.6, "sampling.repeat_penalty": 1.2}, "Something does not count.")


def test_nothing_of_it_counts_where_a_greedy_answer_was_asked_for() -> None:
    greedy = Resolved({Origin.FLAG: {"sampling.temp": 0.0}})

    assert PENALISED.under(greedy) == Recommended({"sampling.temp": 0.6})
    assert PENALISED.under(Resolved({Origin.FLAG: {"sampling.temp": 0.1}})) == PENALISED


def test_a_file_that_asks_for_greedy_answers_itself_is_taken_whole() -> None:
    values: Layer = {"sampling.temp": 0.0, "sampling.repeat_penalty": 1.2}

    assert Recommended(values).under(Resolved({Origin.MODEL: values})) == Recommended(values)
