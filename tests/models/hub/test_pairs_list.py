"""Check the list of pairs: machine, local files, registered pairs, problems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import CatalogError
from app.models.catalog import Pair
from app.models.recommend import PairSpeed, Room
from app.models.source import HubModel, LocalModel
from app.session.snapshot import Phase
from app.ui.models.service import PairService
from tests.models.hub.models import DRAFT, TARGET
from tests.models.hub.pairs_setting import TARGET_SIZE, Setting, tiny_file


def test_the_machine_is_looked_at_beside_everything_else(setting: Setting) -> None:
    before = setting.service.state()
    assert (before.machine, [card.proposal.word for card in before.cards]) == ("", [""] * 3)

    setting.service.refresh()
    setting.until(lambda: not setting.service.state().busy)

    now = setting.service.state()
    assert now.machine == "An abacus"
    assert [(card.name, card.proposal.word) for card in now.cards] == [
        ("demo", "fits"),
        ("mine", "fits"),
        ("huge", "too big"),
    ]
    assert setting.service.state().cards is now.cards


def test_every_refresh_inspects_the_machine_again(setting: Setting) -> None:
    measured = [{"mine": PairSpeed(5.4, f"speedup {ratio}×")} for ratio in (1.5, 1.7)]

    def machine() -> tuple[str, Room]:
        return "An abacus", Room(9, measured=measured.pop(0))

    service = PairService(replace(setting.surroundings, machine=machine))

    def gain() -> str:
        service.refresh()
        setting.until(lambda: not service.state().busy)
        return next(card.gain for card in service.state().cards if card.name == "mine")

    assert gain() == "Measured here: speedup 1.5×."
    assert gain() == "Measured here: speedup 1.7×."


def test_the_machine_is_inspected_only_after_a_load_in_progress(setting: Setting) -> None:
    phase = [Phase.LOADING]
    service = PairService(replace(setting.surroundings, phase=lambda: phase[0]))
    service.refresh()
    assert service.state().busy
    assert service.state().machine == ""

    phase[0] = Phase.READY
    setting.until(lambda: not service.state().busy)
    assert service.state().machine == "An abacus"


def test_a_machine_that_cannot_be_read_stops_nothing(setting: Setting) -> None:
    def broken() -> tuple[str, Room]:
        raise OSError

    service = PairService(replace(setting.surroundings, machine=broken))
    service.refresh()
    setting.until(lambda: not service.state().busy)
    assert "could not be inspected" in service.state().machine
    assert len(service.state().cards) == 3


def test_a_file_that_was_replaced_shows_its_size_itself(setting: Setting, tmp_path: Path) -> None:
    file = tiny_file(tmp_path / "own.gguf")
    setting.pairs.append(Pair("own", "Own", LocalModel(file), None))
    setting.again()
    setting.set_up("own")
    assert setting.card("own").size == "0 MB"
    file.write_bytes(file.read_bytes() + bytes(5_000_000))
    setting.service.refresh()
    assert setting.card("own").size == "5 MB"


def test_a_broken_catalog_leaves_what_was_set_up(setting: Setting) -> None:
    setting.set_up("mine")
    setting.broken = True
    state = setting.again().state()
    assert len(state.problems) == 1
    assert [card.name for card in state.cards] == ["mine"]
    assert setting.service.load_request("mine")


def test_catalog_problems_are_reported_beside_the_pairs(setting: Setting) -> None:
    setting.trouble = CatalogError("pairs.mine has no target.", "Add it.")
    state = setting.again().state()
    assert state.problems == (setting.trouble,)
    assert {"demo", "huge", "mine"} == {card.name for card in state.cards}


def test_a_missing_default_is_reported_and_others_can_be_opened(setting: Setting) -> None:
    setting.set_up("mine")
    setting.registry.set_default("mine")
    files = setting.registry.read().pairs["mine"]
    assert setting.again().state().problems == ()
    files.target.path.unlink()
    setting.trouble = CatalogError("pairs.other has no target.")
    setting.service.refresh()
    trouble, other = setting.service.state().problems
    assert other == setting.trouble, "one does not hide the other"
    assert trouble.message.startswith("big-Q4_K_M.gguf of the pair mine is gone from")
    assert trouble.hint == "Put it back, or set the pair up again: tandem setup mine"
    assert not setting.card("mine").set_up


def test_models_that_another_program_downloaded_are_found(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[HubModel] = []
    monkeypatch.setattr("app.models.hub.cache.cached_file", lambda source: Path() if source in found else None)
    setting.again()
    for on_disk in (False, True):
        setting.service.refresh()
        setting.until(lambda: not setting.service.state().busy)
        card = setting.card("mine")
        assert (card.here, card.set_up) == (on_disk, False)
        found += [HubModel(TARGET, quant="Q4_K_M", size=TARGET_SIZE), HubModel(DRAFT)]
    assert card.download_bytes == 0


def test_a_cache_that_cannot_be_read_hides_nothing(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: HubModel) -> Path:
        raise PermissionError

    monkeypatch.setattr("app.models.hub.cache.cached_file", refuse)
    setting.again().refresh()
    setting.until(lambda: not setting.service.state().busy)
    assert setting.service.state().machine == "An abacus"
    assert not setting.service.state().problems
