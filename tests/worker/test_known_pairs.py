"""Which pair flags name, and the error for missing files."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.chat import first_pair
from app.cli.options import choose_pair
from app.core.errors import CatalogError, PairError, UsageError
from app.hardware.recommend import every_pair
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.source import DemoModel, HubModel, LocalModel
from app.worker.known_pairs import KnownPair, about_catalog, catalog, newest


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr("app.worker.known_pairs.pairs_file", lambda: tmp_path / "pairs.toml")
    monkeypatch.setattr("app.worker.known_pairs.config_dir", lambda: tmp_path / "config")
    return Registry(tmp_path / "pairs.toml")


def own(folder: Path) -> SetUp:
    files = [folder / "big.gguf", folder / "drafts" / "small.gguf"]
    (folder / "drafts").mkdir()
    for file in files:
        file.write_bytes(b"x")
    pair = Pair("mine", "Mine", LocalModel(files[0]), LocalModel(files[1]))
    return SetUp(pair, ModelOnDisk(files[0], 1), ModelOnDisk(files[1], 1))


def test_a_missing_file_is_named_with_its_folder(registry: Registry, tmp_path: Path) -> None:
    mine = own(tmp_path)
    registry.add(mine, default=True)
    assert choose_pair({}).pair.name == "mine"
    assert mine.draft is not None
    mine.draft.path.unlink()

    with pytest.raises(PairError, match=r"small\.gguf of the pair mine is gone from .*drafts") as caught:
        choose_pair({})
    assert caught.value.hint == (
        "Put it back, choose another pair (⟨pairs.choose⟩), or remove this one: ⟨pairs.remove=mine⟩"
    )


def test_models_that_were_set_up_are_found_by_their_names(registry: Registry, tmp_path: Path) -> None:
    target, draft = "a/big:q8_0", "b/small:q4_k_m"
    names = ("big-Q8_0.gguf", "small-Q4_K_M.gguf")
    for name in names:
        (tmp_path / name).touch()
    big, small = (ModelOnDisk(tmp_path / name, 1) for name in names)
    pair = Pair("mine", "Mine", HubModel("a/big", quant="Q8_0"), HubModel("b/small", quant="Q4_K_M"))
    registry.add(SetUp(pair, big, small))

    chosen = choose_pair({"target": target, "draft": draft})
    assert chosen.pair.name == "mine"
    assert chosen.files is not None
    assert choose_pair({"target": "a/big:Q4_0", "draft": draft}).files is None


def test_the_chat_offers_pairs_if_the_default_is_missing_but_not_a_named_pair(
    registry: Registry, tmp_path: Path
) -> None:
    mine = own(tmp_path)
    registry.add(mine, default=True)
    assert first_pair({})[1] is False
    mine.target.path.unlink()

    assert first_pair({})[1] is True
    with pytest.raises(PairError):
        first_pair({"pair": "mine"})


def test_the_demo_is_found_again_where_its_files_are_gone(registry: Registry, tmp_path: Path) -> None:
    demo = Pair("demo", "Demo", DemoModel("target"), DemoModel("draft"))
    registry.add(
        SetUp(demo, ModelOnDisk(tmp_path / "gone.gguf", 1), ModelOnDisk(tmp_path / "gone2.gguf", 1)), default=True
    )

    known = choose_pair({})
    assert (known.pair.name, known.files) == ("demo", None)


def test_without_a_default_and_the_demo_models_of_this_machine_are_named(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.worker.known_pairs.demo_is_installed", lambda: False)
    alone = Pair("alone", "Alone", LocalModel(tmp_path / "alone.gguf"), None)
    drafted = replace(own(tmp_path).pair, name="drafted")
    monkeypatch.setattr("app.worker.known_pairs.pairs_here", lambda: {"alone": alone, "drafted": drafted})
    with pytest.raises(PairError) as caught:
        choose_pair({})
    assert caught.value.hint == "Set up models that are on this machine: ⟨setup=drafted⟩"
    assert newest("drafted") == drafted
    assert first_pair({})[1] is True


def test_an_unknown_pair_names_the_nearest_unless_a_catalog_is_unreadable(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = own(tmp_path).pair
    monkeypatch.setattr("app.worker.known_pairs.pairs_here", lambda: {"mine": mine})
    with pytest.raises(UsageError, match=r'There is no pair "demmo"\. Did you mean "demo"') as caught:
        newest("demmo")
    assert caught.value.hint == "To list all pairs: ⟨pairs⟩"
    with pytest.raises(UsageError, match='Did you mean "mine"'):
        newest("mien")

    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "models.toml").write_text("[pairs.other\n")
    assert newest("mine") == mine
    with pytest.raises(CatalogError, match="cannot be read"):
        newest("mien")


def newer(folder: Path, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Simulate another release of Tandem, or a user, that makes a pair of another file."""
    file.parent.mkdir(exist_ok=True)
    file.write_text('[pairs.chat]\ntarget = { repo = "a/new", file = "new.gguf" }\n')
    monkeypatch.setattr("app.worker.known_pairs.shipped_file", lambda: folder / "shipped.toml")


def test_a_set_up_pair_keeps_its_files_if_a_release_changes_them(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "old.gguf"
    file.write_bytes(b"x")
    old = SetUp(Pair("chat", "Old", HubModel("a/old"), None), ModelOnDisk(file, 1))
    registry.add(old, default=True)
    newer(tmp_path, monkeypatch, tmp_path / "shipped.toml")

    assert choose_pair({}) == KnownPair(old.pair, old)
    (notice,) = about_catalog(old.pair)
    assert notice == "chat was set up with other files than the catalog names now; to update: ⟨setup=chat⟩"
    assert newest("chat").target == HubModel("a/new", file="new.gguf")
    assert every_pair(catalog().pairs, registry.read())["chat"] == old.pair

    file.unlink()
    assert choose_pair({}).pair.target == HubModel("a/new", file="new.gguf")
    assert about_catalog(choose_pair({}).pair) == ()


def test_a_changed_entry_names_different_files(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "old.gguf"
    file.write_bytes(b"x")
    pair = Pair("chat", "Old", HubModel("a/old"), None)
    registry.add(SetUp(pair, ModelOnDisk(file, 1)), default=True)
    (tmp_path / "shipped.toml").write_text("")
    newer(tmp_path, monkeypatch, tmp_path / "config" / "models.toml")

    known = choose_pair({})
    assert (known.pair.target, known.files) == (HubModel("a/new", file="new.gguf"), None)
