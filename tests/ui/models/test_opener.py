"""Opening pairs with the current settings; a failed opening changes nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import UsageError
from app.core.paths import config_dir
from app.engine.types import SamplingParams
from app.hardware.offers import Offer
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import LocalModel, parse_source
from app.settings.layers import Layer, Origin, sampling
from app.ui.models.opener import Opener
from app.ui.models.state import LoadRequest
from app.worker.known_pairs import KnownPair, ProcessOptions, known_pairs, pair_by_name, registry
from app.worker.pair_loader import PairLoader
from tests.llama.gguf_files import header, tiny, write
from tests.settings.in_memory import in_memory

PAIR = Pair("a", "A", parse_source("/a.gguf"), parse_source("/b.gguf"))
OTHER = replace(PAIR, name="other", draft=None)
FIRST = KnownPair(PAIR, None)


def change(settings: Layer) -> Offer:
    return Offer("a change", 0, "", settings, suffices=True)


def loaded(choice: LoadRequest) -> str:
    assert isinstance(choice.loader, PairLoader)
    return choice.loader.pair.name


def test_a_pair_that_contradicts_the_flags_is_not_opened() -> None:
    opener = Opener(in_memory({"draft.mode": "fixed"}), FIRST, ProcessOptions(), is_asked_for=False)
    with pytest.raises(UsageError):
        opener.open(KnownPair(OTHER, None))
    assert opener.current is None, "the first pair is a placeholder"
    assert loaded(opener.again()) == "a"

    opener.open(FIRST)
    assert opener.current == PAIR


def test_settings_that_were_taken_count_for_every_later_pair() -> None:
    opener = Opener(in_memory(), FIRST, ProcessOptions(True))
    opener.take(change({"model.ctx": 1024}))
    choice = opener.open(KnownPair(replace(PAIR, name="next", draft=None), None))

    assert isinstance(choice.loader, PairLoader)
    assert (choice.loader.settings["model.ctx"], choice.loader.process.isolate) == (1024, True)
    assert isinstance(choice.loader.pair.target, LocalModel)


def test_an_offer_keeps_the_users_preset() -> None:
    live = in_memory()
    live.set("sampling.temp", 0.1)
    live.save_preset("mine")
    live.give({"preset": "mine"})
    opener = Opener(live, FIRST, ProcessOptions())

    assert opener.with_offer(change({"model.kv_type": "q8_0"})).settings["model.kv_type"] == "q8_0"


def test_an_offer_is_a_choice_of_the_chat_unless_it_is_a_pair_to_download() -> None:
    smaller = known_pairs()[-1].name
    opener = Opener(in_memory(), FIRST, ProcessOptions())
    option = opener.option(Offer("a smaller pair", 0, "", {}, suffices=True, pair=smaller))
    assert (option.apply, option.command) == (None, f"tandem setup {smaller}")

    option = opener.option(change({"draft.mode": "off"}))
    assert option.apply is not None
    loader = option.apply().loader
    assert isinstance(loader, PairLoader)
    assert loader.settings["draft.mode"] == "off"


def model(folder: Path, name: str, **values: Any) -> LocalModel:
    keys = {f"general__sampling__{key}": value for key, value in values.items()}
    return LocalModel(write(folder / f"{name}.gguf", header(tiny(**keys))))


def sampled(choice: LoadRequest) -> SamplingParams:
    assert isinstance(choice.loader, PairLoader)
    return sampling(choice.loader.settings)


def test_every_pair_has_the_recommendations_of_its_own_file(tmp_path: Path) -> None:
    first = Pair("a", "A", model(tmp_path, "a", top_k=7, min_p=-1.0), None)
    second = Pair("b", "B", model(tmp_path, "b", temp=0.5), None, {"temperature": 0.8})
    opener = Opener(in_memory(), FIRST, ProcessOptions())

    chosen = opener.open(KnownPair(first, None))
    assert sampled(chosen).top_k == 7
    assert opener.live.resolved().origin("sampling.top_k") is Origin.MODEL

    other = opener.open(KnownPair(second, None))
    assert sampled(other) == SamplingParams(0.8)


def test_the_pair_that_wrote_an_answer_is_opened_if_its_files_have_these_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def on_disk(name: str) -> ModelOnDisk:
        return ModelOnDisk(write(tmp_path / f"{name}.gguf", header(tiny())), 1)

    def set_up(name: str, target: ModelOnDisk, draft: ModelOnDisk) -> KnownPair:
        pair = Pair(name, name, LocalModel(target.path), LocalModel(draft.path))
        registry().add(files := SetUp(pair, target, draft))
        return KnownPair(pair, files)

    big, small, other = on_disk("big-Q4_K_M"), on_disk("small-q8_0"), on_disk("other-Q4_K_M")
    first, _, third = (set_up("a", other, small), set_up("b", big, other), set_up("c", big, small))
    opener = Opener(in_memory(), first, ProcessOptions())
    assert opener.written_by({"target": "other Q4_K_M", "draft": "small Q8_0"}) is None, "it is open"
    assert opener.written_by({"target": "gone Q4_K_M"}) is None
    assert opener.current == first.pair

    models = {"target": "big Q4_K_M", "draft": "small Q8_0"}
    assert Opener(in_memory(), first, ProcessOptions(), is_fixed=True).written_by(models) is None
    choice = opener.written_by(models)
    assert choice is not None
    assert loaded(choice) == "c"
    assert opener.current == third.pair


def test_a_pair_of_the_catalog_that_wrote_an_answer_is_opened_without_a_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    target = write(tmp_path / "Tiny.Q4_1.gguf", header(tiny()))
    own, other = (write(tmp_path / f"{name}-Q4_0.gguf", header(tiny())) for name in ("own", "other"))
    texts = (f'[pairs.{name}]\ntitle = "A pair"\ntarget = "{own}"' for name in ("drafted", "alone"))
    catalog = config_dir() / "models.toml"
    catalog.parent.mkdir(parents=True, exist_ok=True)
    catalog.write_text(f'\ndraft = "{other}"\n'.join(texts))
    monkeypatch.setattr("app.llama.demo.target_file", lambda: target)
    registry().add(SetUp(OTHER, ModelOnDisk(other, 1)))

    for is_asked_for in (True, False):
        for target_name, draft, pair in (
            ("Tiny Q4_1", "Tiny Q2_K", "demo"),
            ("own Q4_0", None, "alone"),
            ("own Q4_0", "other Q4_0", "drafted"),
        ):
            opener = Opener(in_memory(), FIRST, ProcessOptions(), is_asked_for=is_asked_for)
            choice = opener.written_by({"target": target_name, "draft": draft})
            assert choice is not None
            assert loaded(choice) == pair

    opener = Opener(in_memory(), pair_by_name("demo"), ProcessOptions())
    assert opener.written_by({"target": "Tiny Q4_1"}) is None, "it is open"
    target.unlink()
    assert Opener(in_memory(), FIRST, ProcessOptions()).written_by({"target": "Tiny Q4_1"}) is None
    assert not (tmp_path / "demo").exists(), "no draft was made"
