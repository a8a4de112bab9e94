"""The file with the pairs that were set up."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.pairs_remove import plan_removal
from app.core.errors import CatalogError
from app.engine.types import DraftParams
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.source import DemoModel, HubModel, LocalModel


def set_up(name: str, folder: Path) -> SetUp:
    pair = Pair(
        name,
        'A "title" with \\ and é',
        HubModel("owner/big", quant="Q4_K_M", size=7),
        LocalModel(folder / "small.gguf"),
        sampling={"temperature": 0.5, "seed": 3},
        drafting=DraftParams(5, 1, 0.25),
        memory_gb=8,
    )
    target = ModelOnDisk(folder / "big.gguf", 7)
    return SetUp(pair, target, ModelOnDisk(folder / "small.gguf", 3))


def test_registered_pairs_are_read_again(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "data" / "pairs.toml")
    one, two = set_up("one", tmp_path), set_up("two", tmp_path)

    registry.add(one, default=False)
    assert registry.read().default is None
    registry.add(one)
    registry.add(two)

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


def test_the_demo_replaces_no_default_and_is_replaced_by_the_first_real_pair(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "pairs.toml")
    registry.add(demo(tmp_path))
    assert registry.read().default == "demo"
    registry.add(set_up("one", tmp_path))
    assert registry.read().default == "one"
    registry.add(demo(tmp_path), default=True)
    assert registry.read().default == "one"
    registry.add(set_up("two", tmp_path))
    assert registry.read().default == "one"


def test_two_programs_do_not_undo_each_other(tmp_path: Path) -> None:
    file = tmp_path / "pairs.toml"
    names = [f"pair-{i}" for i in range(12)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: Registry(file).add(set_up(name, tmp_path)), names))

    assert sorted(Registry(file).read().pairs) == sorted(names)
    assert not list(tmp_path.glob("*.partial"))


def test_size_and_checksum_do_not_change_the_source(tmp_path: Path) -> None:
    registry, one = Registry(tmp_path / "pairs.toml"), set_up("one", tmp_path)
    for model in one.models:
        model.path.touch()
    registry.add(one)
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
    one = SetUp(pair, ModelOnDisk(tmp_path / names[0], 7))
    assert one.is_here

    (tmp_path / names[1]).unlink()
    assert not one.is_here
    assert one.gone.message == f"{names[1]} of the pair split is gone from {tmp_path}."
    assert one.gone.hint == "Put it back, or set the pair up again: ⟨setup=split⟩"


SHA, OTHER_SHA = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("was", "now", "is_same"),
    [
        (HubModel("a/x", quant="q8_0"), HubModel("a/x", quant="Q8_0"), True),
        (HubModel("a/x", quant="Q4_0"), HubModel("a/x", quant="Q8_0"), False),
        (HubModel("a/x"), HubModel("a/x", quant="Q8_0"), False),
        (HubModel("a/x", quant="Q4_0"), HubModel("a/x", quant="Q4_0", revision="def"), False),
        (HubModel("a/x", quant="Q4_0"), HubModel("b/x", quant="Q4_0"), False),
        (HubModel("a/x", file="x-q4.gguf", sha256=SHA), HubModel("b/y", quant="Q4_0", sha256=SHA), True),
        (HubModel("a/x", file="x-q4.gguf", sha256=SHA), HubModel("a/x", file="x-q4.gguf", sha256=OTHER_SHA), False),
        (HubModel("a/x", file="x-q4.gguf"), LocalModel(Path("x-q4.gguf")), False),
    ],
)
def test_an_entry_means_the_files_of_equal_sources_or_checksums(
    was: HubModel, now: HubModel | LocalModel, is_same: bool
) -> None:
    one = SetUp(Pair("one", "One", was, None), ModelOnDisk(Path("x-q4.gguf"), 1))

    assert one.is_of(replace(one.pair, target=now)) is is_same
    assert not one.is_of(replace(one.pair, draft=was))


WRONG_STRUCTURE = "cannot be read: its structure is wrong."


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[pairs", "cannot be read: Expected ']'"),
        ("pairs = 3", WRONG_STRUCTURE),
        ("default = [1]", WRONG_STRUCTURE),
        ("pairs.x = 3", WRONG_STRUCTURE),
        ("[pairs.x]\ntarget = 3", WRONG_STRUCTURE),
        ('[pairs.x.target]\npath = "y"', WRONG_STRUCTURE),
        *(
            (f'[pairs.x]\nentry = {{ target = "y" }}\ntarget = {{ path = "y", size = {size} }}', WRONG_STRUCTURE)
            for size in ("inf", "-1", f"1{'0' * 400}")
        ),
        ('[pairs.x.entry]\ntarget = "y"\nspin = 1', 'pairs.x has the unknown key "spin".'),
    ],
)
def test_a_damaged_file_is_reported_and_not_overwritten(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "pairs.toml"
    file.write_text(content)

    for use in (Registry(file).read, lambda: Registry(file).add(set_up("one", tmp_path), default=True)):
        with pytest.raises(CatalogError) as caught:
            use()
        assert why in caught.value.message
        assert caught.value.hint.startswith("Move it away; ")
    assert file.read_text() == content


@pytest.mark.parametrize("name", ["x" * 5000, "x\0y"])
def test_an_impossible_file_name_is_a_missing_file(tmp_path: Path, name: str) -> None:
    one = replace(set_up("one", tmp_path), target=ModelOnDisk(tmp_path / name, 7))

    assert not one.is_here
    assert "is gone" in one.gone.message
    assert plan_removal(one, (), ()) == []
