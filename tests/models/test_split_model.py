"""Models in several files: the parts by the name of any of them, and those that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.models.split_model import part_names, part_of, parts_here

FIRST, SECOND = "m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00002-of-00002.gguf"


@pytest.mark.parametrize(
    ("name", "stem", "number", "count"),
    [
        (FIRST, "m-Q4_0", 1, 2),
        ("Q4_0/" + SECOND, "Q4_0/m-Q4_0", 2, 2),
        ("m-00009-of-00002.gguf", "m", 9, 2),
        (FIRST.upper(), "M-Q4_0", 1, 2),
    ],
)
def test_a_part_is_reported_by_its_name(name: str, stem: str, number: int, count: int) -> None:
    assert part_of(name) == (stem, number, count)


@pytest.mark.parametrize("name", ["m.gguf", "m-00001-of-00002", "m-1-of-2.gguf", "m-00001-of-00002.gguf.part"])
def test_a_whole_model_is_its_only_part(name: str) -> None:
    assert part_of(name) is None
    assert part_names(name) == [name]


@pytest.mark.parametrize("ending", [".gguf", ".GGUF"])
def test_any_part_names_them_all_and_spells_them_as_its_own(ending: str) -> None:
    stems = [FIRST.removesuffix(".gguf"), SECOND.removesuffix(".gguf")]

    for stem in stems:
        assert part_names(stem + ending) == [stem + ending for stem in stems]


def test_of_a_split_model_only_the_parts_that_are_there_count(tmp_path: Path) -> None:
    first, second = tmp_path / FIRST, tmp_path / SECOND
    assert parts_here(first) == []
    second.touch()
    assert parts_here(first) == [second]
    first.touch()
    assert parts_here(first) == parts_here(second) == [first, second]
    # Anyone who reads a whole one says that it is not there.
    assert parts_here(tmp_path / "m.gguf") == [tmp_path / "m.gguf"]
