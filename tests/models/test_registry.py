"""The file with the pairs that were set up."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import CatalogError
from app.engine.types import DraftParams, SamplingParams
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.remove import plan_removal
from app.models.source import DemoModel, HubModel, LocalModel


def set_up(name: str, folder: Path) -> SetUp:
    pair = Pair(
        name,
        'A "title" with \\ and é',
        HubModel("owner/big", quant="Q4_K_M", size=7),
        LocalModel(folder / "small.gguf"),
        sampling=SamplingParams(temperature=0.5, seed=3),
        drafting=DraftParams(5, 1, 0.25),
        memory_gb=8,
    )
    target = ModelOnDisk(folder / "big.gguf", 7, "owner/big", "abc", ("big.gguf",), ours=True)
    return SetUp(pair, target, ModelOnDisk(folder / "small.gguf", 3))


def test_what_was_remembered_is_read_again(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "data" / "pairs.toml")
    one, two = set_up("one", tmp_path), set_up("two", tmp_path)

    registry.add(one, default=False, first=False)
    assert registry.read().default is None
    registry.add(one, default=False)
    registry.add(two, default=False)

    assert dict(registry.read().pairs) == {"one": one, "two": two}
    assert registry.read().default == "one"
    registry.set_default("two")
    registry.remove("one")
    assert (dict(registry.read().pairs), registry.read().default) == ({"two": two}, "two")
    registry.remove("two")
    assert registry.read().default is None


def demo(folder: Path) -> SetUp:
    pair = Pair("demo", "The demo", DemoModel("target"), None)
    return SetUp(pair, ModelOnDisk(folder / "demo.gguf", 3))


def test_the_demo_replaces_no_real_pair_as_the_default(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "pairs.toml")
    registry.add(set_up("one", tmp_path), default=False, first=False)
    registry.add(demo(tmp_path), default=True)
    assert registry.read().default is None
    registry.set_default("one")
    registry.add(demo(tmp_path), default=True)
    assert registry.read().default == "one"


def test_the_demo_as_default_gives_way_to_the_first_real_pair_only(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "pairs.toml")
    registry.add(demo(tmp_path), default=False)
    assert registry.read().default == "demo"
    registry.add(set_up("one", tmp_path), default=False)
    assert registry.read().default == "one"
    registry.set_default("demo")
    registry.add(set_up("two", tmp_path), default=False)
    assert registry.read().default == "demo", "the user chose it beside a real pair"


def test_two_programs_do_not_undo_each_other(tmp_path: Path) -> None:
    file = tmp_path / "pairs.toml"
    names = [f"pair-{i}" for i in range(12)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: Registry(file).add(set_up(name, tmp_path), default=False), names))

    assert sorted(Registry(file).read().pairs) == sorted(names)
    assert not list(tmp_path.glob("*.partial"))


def test_what_a_release_learns_of_a_file_means_no_other_file(tmp_path: Path) -> None:
    registry, one = Registry(tmp_path / "pairs.toml"), set_up("one", tmp_path)
    for model in one.models:
        model.path.touch()
    registry.add(one, default=False)
    target = one.pair.target
    assert isinstance(target, HubModel)

    corrected = replace(one.pair, target=replace(target, size=8, sha256="a" * 64))
    other = replace(one.pair, target=replace(target, quant="Q8_0"))

    assert registry.read().usable(corrected) == one
    assert registry.read().usable(other) is None


def test_a_split_model_is_gone_with_any_of_its_parts(tmp_path: Path) -> None:
    names = tuple(f"big-0000{number}-of-00002.gguf" for number in (1, 2))
    for name in names:
        (tmp_path / name).touch()
    pair = Pair("split", "Split", HubModel("owner/big", quant="Q4_K_M"), None)
    one = SetUp(pair, ModelOnDisk(tmp_path / names[0], 7, "owner/big", "abc", names))
    assert one.is_here

    (tmp_path / names[1]).unlink()
    assert not one.is_here
    assert one.gone.message == f"{names[1]} of the pair split is gone from {tmp_path}."
    assert one.gone.hint == "Bring it back: tandem setup split"


SHA, OTHER_SHA = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("was", "now", "is_the_same"),
    [
        (HubModel("a/x", file="x-q4.gguf"), HubModel("a/x", quant="Q4_0", file="x-q4.gguf"), True),
        (HubModel("a/x", quant="Q4_0"), HubModel("a/x", file="x-q4.gguf"), True),
        (HubModel("a/x", quant="Q4_0"), HubModel("a/x", file="x-q8.gguf"), False),
        (HubModel("a/x", quant="Q4_0"), HubModel("a/x", quant="Q8_0"), False),
        (HubModel("a/x", quant="Q4_0"), HubModel("a/x", quant="Q4_0", revision="abc"), True),
        (HubModel("a/x", quant="Q4_0"), HubModel("a/x", quant="Q4_0", revision="def"), False),
        (HubModel("a/x", quant="Q4_0"), HubModel("b/x", quant="Q4_0"), False),
        (HubModel("a/x", file="x-q4.gguf", sha256=SHA), HubModel("b/y", quant="Q4_0", sha256=SHA), True),
        (HubModel("a/x", file="x-q4.gguf", sha256=SHA), HubModel("a/x", file="x-q4.gguf", sha256=OTHER_SHA), False),
        (HubModel("a/x", file="x-q4.gguf"), LocalModel(Path("x-q4.gguf")), False),
    ],
)
def test_an_entry_means_what_was_set_up_by_what_it_names_not_by_how(
    was: HubModel, now: HubModel | LocalModel, is_the_same: bool
) -> None:
    files = ModelOnDisk(Path("x-q4.gguf"), 1, "a/x", "abc", ("x-q4.gguf",))
    one = SetUp(Pair("one", "One", was, None), files)

    assert one.is_of(replace(one.pair, target=now)) is is_the_same
    assert not one.is_of(replace(one.pair, draft=was))


@pytest.mark.parametrize(
    ("was", "now", "is_the_same"),
    [
        (HubModel("a/x", quant="q8_0"), HubModel("a/x", quant="Q8_0"), True),
        (HubModel("a/x", file="x-Q8_0.gguf"), HubModel("a/x", quant="q8_0"), True),
        (HubModel("a/x", quant="Q8"), HubModel("a/x", quant="Q8_0"), True),
        (HubModel("a/x"), HubModel("a/x", quant="Q8_0"), True),
        (HubModel("a/x"), HubModel("a/x"), True),
        (HubModel("a/x"), HubModel("a/x", quant="Q4_0"), False),
        (HubModel("a/x", file="x-Q8_0.gguf"), HubModel("a/x", quant="Q4_0"), False),
        (HubModel("a/x", file="x-Q8_0.gguf"), HubModel("a/x"), False),
        (HubModel("a/x", quant="Q8_0"), HubModel("a/x"), False),
    ],
)
def test_a_quantization_means_the_file_that_has_it_and_nothing_named_means_only_itself(
    was: HubModel, now: HubModel, is_the_same: bool
) -> None:
    files = ModelOnDisk(Path("x-Q8_0.gguf"), 1, "a/x", "abc", ("x-Q8_0.gguf",))
    one = SetUp(Pair("one", "One", was, None), files)

    assert one.is_of(replace(one.pair, target=now)) is is_the_same


@pytest.mark.parametrize("content", ["[pairs", "pairs = 3", "\xff", "x = " + "9" * 5000, "x = " + "[" * 5000])
def test_a_damaged_file_is_reported_and_not_overwritten(content: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.toml"
    file.write_text(content, encoding="latin-1")

    with pytest.raises(CatalogError, match="cannot be read"):
        Registry(file).read()
    with pytest.raises(CatalogError):
        Registry(file).add(set_up("one", tmp_path), default=True)
    assert file.read_text(encoding="latin-1") == content


@pytest.mark.parametrize("instead", ["default = [1]", "default = { a = 1 }"])
def test_a_value_that_no_one_can_mean_is_reported(tmp_path: Path, instead: str) -> None:
    file = tmp_path / "pairs.toml"
    Registry(file).add(set_up("one", tmp_path), default=True)
    change(file, 'default = "one"', instead)

    with pytest.raises(CatalogError, match="cannot be read"):
        Registry(file).read()


def change(file: Path, line: str, instead: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert line in text
    file.write_text(text.replace(line, instead), encoding="utf-8")


OF_NEWER = """
[colors]
draft = "teal"

[pairs.newer.entry]
target = { repo = "owner/big", quant = "Q4_K_M", shards = 3 }

[pairs.newer.target]
path = "/models/big-00001-of-00002.gguf"
size = 7
files = ["big-00001-of-00002.gguf", "big-00002-of-00002.gguf"]
"""


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("x = 3", "pairs.x cannot be read: its structure is wrong."),
        ("[pairs.x]\ntarget = 3", "pairs.x cannot be read: its structure is wrong."),
        ('[pairs.x.target]\npath = "y"', "pairs.x cannot be read: its structure is wrong."),
        ('[pairs.x]\nentry = { target = "y" }\ntarget = { path = "y", size = inf }', "pairs.x cannot be read: "),
        ('[pairs.x]\nentry = { target = "y" }\ntarget = { path = "y", size = -1 }', "pairs.x cannot be read: "),
        (f'[pairs.x]\nentry = {{ target = "y" }}\ntarget = {{ path = "y", size = 1{"0" * 400} }}', "pairs.x cannot be"),
        ('[pairs.x.entry]\ntarget = "y"\nspin = 1', 'pairs.x has the unknown key "spin".'),
    ],
)
def test_an_entry_that_no_one_can_mean_costs_only_itself(tmp_path: Path, entry: str, why: str) -> None:
    file, good = tmp_path / "pairs.toml", set_up("good", tmp_path)
    Registry(file).add(good, default=True)
    text = file.read_text(encoding="utf-8")
    file.write_text(f"pairs.{entry}\n{text}" if entry.startswith("x") else f"{text}\n{entry}\n", encoding="utf-8")
    found = Registry(file).read()

    assert dict(found.pairs) == {"good": good}
    assert found.default == "good"
    assert why in found.problems["x"].message
    assert found.trouble is found.problems["x"]


def test_what_a_newer_tandem_keeps_outlives_what_this_one_changes(tmp_path: Path) -> None:
    file, one = tmp_path / "pairs.toml", set_up("one", tmp_path)
    registry = Registry(file)
    registry.add(one, default=True)
    change(file, "ours = true", 'ours = true\nchecked = "today"')
    with file.open("a", encoding="utf-8") as out:
        out.write(OF_NEWER)
    change(file, 'default = "one"', 'default = "newer"')
    registry.add(set_up("two", tmp_path), default=False)
    registry.claim(tmp_path / "x.gguf")
    table = tomllib.loads(file.read_text(encoding="utf-8"))

    assert table["colors"] == {"draft": "teal"}
    assert table["default"] == registry.read().default == "newer"
    assert table["pairs"]["newer"] == tomllib.loads(OF_NEWER)["pairs"]["newer"]
    assert table["pairs"]["one"]["target"]["checked"] == "today"
    assert list(registry.read().pairs) == ["one", "two"]

    registry.add(set_up("newer", tmp_path), default=False)
    assert not registry.read().problems
    registry.remove("newer")
    assert (list(registry.read().pairs), registry.read().default) == (["one", "two"], None)


@pytest.mark.parametrize("name", ["x" * 5000, "x\0y"])
def test_a_name_that_no_file_can_have_is_that_of_a_file_that_is_gone(tmp_path: Path, name: str) -> None:
    one = replace(set_up("one", tmp_path), target=ModelOnDisk(tmp_path / name, 7))

    assert not one.is_here
    assert "is gone" in one.gone.message
    assert [removal.size for removal in plan_removal(one, (), ())] == [0, 0]


def test_a_home_that_is_no_folder_holds_no_pairs(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert not Registry(tmp_path / "home" / "pairs.toml").read().pairs
