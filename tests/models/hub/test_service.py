"""Check, list, set up and open pairs in the background against the loopback hub."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import CatalogError, FileChangedError, ModelLoadError, PairError
from app.hardware.recommend import Capacity
from app.models.catalog import Pair
from app.models.setup_task import Stage
from app.models.source import HubModel, LocalModel
from app.session.state import Phase
from app.ui.models.pair_list import status_text
from app.worker import known_pairs
from tests.capacities import in_ram, measured_at
from tests.hanging import HANGS_S
from tests.models.hub.faults import Stall
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET
from tests.models.hub.pairs_setting import MINE, TARGET_SIZE, Setting, tiny_file


def test_cards_before_and_after_a_set_up(setting: Setting) -> None:
    card = setting.card("mine")
    assert (card.target, card.draft, card.here, card.set_up, card.size) == (
        "big Q4_K_M",
        "small",
        False,
        False,
        ">3 MB",
    )
    assert card.download_bytes is None, "the catalog does not know the draft's size"

    job = setting.set_up("mine")

    assert job.stage is Stage.READY
    assert job.share == 1.0
    assert {file.role for file in job.files} == {"target", "draft"}
    card = setting.card("mine")
    assert (card.here, card.set_up, card.is_default) == (True, True, True)
    assert card.size == "3 MB"
    assert setting.registry.read().pairs["mine"].pair.license == "mit"
    assert setting.service.state().cards[0].name == "mine"


def test_models_of_other_programs_are_listed_and_opened_without_a_download(setting: Setting, tmp_path: Path) -> None:
    found = Pair("mine", "tiny Q8_0, found in LM Studio", LocalModel(tiny_file(tmp_path / "tiny.gguf")), None)
    setting.here = [found]
    setting.refreshed()

    card = setting.card("mine-2")
    assert (card.here, card.set_up, card.pair.title) == (True, False, found.title)
    setting.set_up("mine-2")
    setting.service.load_request("mine-2")
    assert setting.opener.opened[-1][0].target == found.target
    assert [card.pair.target for card in setting.service.state().cards].count(found.target) == 1


def test_a_pair_is_weighed_with_the_sizes_of_its_listing_before_the_download(setting: Setting, tmp_path: Path) -> None:
    setting.pairs.append(Pair("open", "Open", HubModel(TARGET, quant="Q4_K_M"), None))
    setting.again().refresh()
    setting.until(lambda: setting.card("open").proposal.word)
    assert (setting.card("open").proposal.word, setting.card("open").proposal.reason) == (
        "unknown",
        "only Hugging Face knows its size",
    )
    setting.service.set_up("open")
    setting.until(lambda: setting.job("open").stage is Stage.CHECKED)
    card = setting.card("open")
    assert (card.size, card.proposal.word) == ("3 MB", "fits")
    assert not list(tmp_path.rglob("blobs/*"))


def test_how_headers_come_is_reported_until_all_is_known(setting: Setting, hub: LoopbackHub) -> None:
    stall = hub.faults.add(Stall(after=100), "big-*", origin="cdn", times=2, when=lambda r: "range" in r.headers)
    told = "Looking at big-Q4_K_M.gguf: 0.0 MB of its header"
    setting.service.set_up("mine", confirmed=True)
    setting.until(lambda: setting.job("mine").header_progress == told)
    check = setting.service.check(TARGET, "")
    setting.until(lambda: check.progress.header_progress == told)
    stall.release()

    setting.settled()
    assert (setting.job("mine").stage, setting.job("mine").header_progress) == (Stage.READY, None)
    assert check.progress.prepared is not None


def test_a_pair_can_be_opened_after_setup_and_restart(setting: Setting) -> None:
    with pytest.raises(PairError, match="is not on this machine"):
        setting.service.load_request("mine")
    setting.set_up("mine")

    for service in (setting.service, setting.again()):
        service.state()
        assert service.load_request("mine").title == "Big with small"
    (pair, files), _ = setting.opener.opened
    assert pair == MINE
    assert files.is_here

    files.target.path.unlink()
    setting.again()
    with pytest.raises(PairError):
        setting.service.load_request("mine")


def test_the_current_file_replaces_a_missing_file(setting: Setting, hub: LoopbackHub) -> None:
    pinned = HubModel(TARGET, file="big-Q4_K_M.gguf", revision="0" * 40, size=TARGET_SIZE, sha256="0" * 64)
    setting.pairs = [replace(MINE, target=pinned)]
    setting.again()
    failed = setting.set_up("mine")
    assert (failed.stage, type(failed.error)) == (Stage.FAILED, FileChangedError)

    setting.service.set_up("mine", latest=True)
    setting.until(lambda: not setting.job("mine").running)
    checked = setting.job("mine")
    assert checked.stage is Stage.CHECKED, "its size is shown before the download"
    assert checked.prepared is not None
    assert "the catalog has no checksum for it" in " ".join(checked.prepared.check.warnings)

    assert setting.set_up("mine").stage is Stage.READY
    assert setting.card("mine").set_up


def test_a_cancelled_download_stops_at_once_and_resumes(setting: Setting, hub: LoopbackHub) -> None:
    # The checks read parts of the files to name their bytes; the download begins with the first byte.
    stall = hub.faults.add(
        Stall(after=2_500_000), "big-*", origin="cdn", when=lambda request: "range" not in request.headers
    )
    setting.service.set_up("mine", confirmed=True)
    assert stall.reached.wait(HANGS_S)
    setting.until(lambda: setting.job("mine").share > 0.6)

    setting.service.cancel_setup("mine")

    job = setting.job("mine")
    assert job.stage is Stage.STOPPED
    assert not setting.service.state().busy
    stall.go.set()
    before = len(hub.asked("big-*", origin="cdn"))
    assert setting.set_up("mine").stage is Stage.READY
    ranges = [request.headers.get("range", "") for request in hub.asked("big-*", origin="cdn")[before:]]
    assert any(one.startswith("bytes=") and int(one[6:].partition("-")[0]) >= 1 << 20 for one in ranges)


def test_a_demo_draft_that_cannot_be_made_is_a_warning(setting: Setting) -> None:
    def demo_file(part: str) -> Path:
        if part == "draft":
            raise ModelLoadError("The draft cannot be written.")
        return setting.demo

    setting.patch.setattr(known_pairs, "demo_file", demo_file)
    setting.again()
    job = setting.set_up("demo")

    assert job.stage is Stage.READY
    assert job.prepared is not None
    notice = "Running without this draft. The draft cannot be written."
    assert any(notice in line for line in job.prepared.check.warnings)
    setting.service.load_request("demo")
    assert setting.opener.opened[-1][1].target.path == setting.demo


def test_the_default_can_be_changed(setting: Setting) -> None:
    setting.set_up("mine")
    with pytest.raises(PairError, match="not set up"):
        setting.service.make_default("demo")
    setting.set_up("demo")
    assert setting.card("mine").is_default
    setting.service.make_default("demo")
    assert setting.card("demo").is_default
    assert not setting.card("mine").is_default


def test_a_pair_opened_by_its_files_is_listed_and_can_be_reopened(setting: Setting, tmp_path: Path) -> None:
    setting.set_up("demo")
    target, draft = (LocalModel(tiny_file(tmp_path / name)) for name in ("Own-Q8_0.gguf", "own-small.gguf"))
    setting.opener.pair = Pair("files", "Own", target, draft)
    setting.refreshed()

    card = setting.card("own-q8-0")
    assert (card.is_open, card.set_up, card.target, card.proposal.word) == (True, True, "Own Q8_0", "fits")
    assert [c.name for c in setting.service.state().cards if c.is_open] == ["own-q8-0"]
    registered = setting.registry.read()
    assert "own-q8-0" in registered.pairs, "other commands know it by the name that is shown"
    assert registered.default == "demo"
    setting.service.load_request("demo")
    assert (setting.card("demo").is_open, setting.card("own-q8-0").is_open) == (True, False)
    setting.service.load_request("own-q8-0")
    assert setting.card("own-q8-0").is_open
    assert setting.opener.opened[-1][1].target.path == target.path

    setting.service.make_default("own-q8-0")
    assert setting.card("own-q8-0").is_default
    assert setting.registry.read().default == "own-q8-0", "it is remembered, for the next run opens with it"
    setting.opener.pair = None
    assert [c.name for c in setting.again().state().cards if c.set_up] == ["own-q8-0", "demo"]


def test_closing_does_not_wait_for_a_network_that_does_not_answer(setting: Setting, hub: LoopbackHub) -> None:
    stall = hub.faults.add(Stall(), "big-*", origin="cdn")
    setting.service.set_up("mine", confirmed=True)
    assert stall.reached.wait(HANGS_S)
    assert setting.service.close(HANGS_S)
    assert setting.job("mine").stage is Stage.STOPPED
    assert not stall.go.is_set()


def test_any_repository_is_looked_at_then_downloaded(setting: Setting, tmp_path: Path) -> None:
    inquiry = setting.ask(TARGET, f"{DRAFT}:Q8_0")
    prepared = inquiry.prepared
    assert prepared is not None
    assert [(role, files.path, files.gated) for role, files in prepared.models.items()] == [
        ("target", None, False),
        ("draft", None, False),
    ]
    target, draft = prepared.check.target, prepared.check.draft
    assert draft is not None
    assert (target.name, target.quant, draft.name, draft.quant) == ("big", "Q4_K_M", "small", "Q8_0")
    assert (prepared.check.problems, prepared.pair.license) == ((), "mit")
    assert prepared.download_bytes == sum(files.size for files in prepared.models.values())
    assert not list(tmp_path.rglob("blobs/*")), "asking downloads nothing"

    name = setting.service.add(prepared)

    assert name == "big"
    setting.until(lambda: setting.job(name).stage is Stage.READY)
    assert setting.card(name).set_up
    assert setting.again().load_request(name)
    # The same two models again are the same pair.
    again = setting.ask(TARGET, f"{DRAFT}:Q8_0").prepared
    assert again is not None
    assert setting.service.add(again) == "big"


def test_the_machine_is_looked_at_beside_everything_else(setting: Setting) -> None:
    before = setting.service.state()
    assert (before.machine, [card.proposal.word for card in before.cards]) == (None, [""] * 3)

    now = setting.refreshed()
    assert now.machine == "An abacus"
    assert [(card.name, card.proposal.word) for card in now.cards] == [
        ("demo", "fits"),
        ("mine", "fits"),
        ("huge", "too big"),
    ]
    assert setting.service.state().cards is now.cards


def test_every_refresh_inspects_the_machine_again(setting: Setting) -> None:
    measured = [{"mine": measured_at(5.4, ratio)} for ratio in (1.5, 1.7)]

    setting.machine(lambda: in_ram(9, measured=measured.pop(0)))
    for gain in ("Here: speedup 1.5×.", "Here: speedup 1.7×."):
        setting.refreshed()
        assert setting.card("mine").proposal.drafting == gain


def test_the_machine_is_inspected_only_after_a_load_in_progress(setting: Setting) -> None:
    setting.session.phase = Phase.LOADING
    setting.service.refresh()
    before = setting.service.state()
    assert (before.busy, before.machine) == (True, None)

    setting.session.phase = Phase.READY
    assert setting.settled().machine == "An abacus"


def test_the_pair_of_the_chat_is_loading_until_it_is_loaded(setting: Setting) -> None:
    setting.set_up("mine")
    setting.set_up("demo")
    setting.session.will_load = True
    setting.service.load_request("mine")
    assert setting.service.state().busy, "the list shows the end of the load"
    assert status_text(setting.card("mine"), None) == "loading"
    assert not setting.card("demo").is_loading

    setting.session.will_load = False
    assert not setting.service.state().busy
    assert status_text(setting.card("mine"), None) == "loaded"


@pytest.mark.parametrize("unreadable", ["machine", "cache"])
def test_a_machine_or_a_cache_that_cannot_be_read_hides_nothing(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    def broken(*_: object, **__: object) -> Capacity:
        raise PermissionError

    if unreadable == "machine":
        setting.machine(broken)
    else:
        monkeypatch.setattr("app.models.hub.cache.cached_file", broken)
        setting.again()
    state = setting.refreshed()
    assert state.machine == ("could not be inspected" if unreadable == "machine" else "An abacus")
    assert (len(state.cards), state.problems) == (3, ())


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
    assert trouble.hint == "Put it back, or set the pair up again: ⟨setup=mine⟩"
    assert not setting.card("mine").set_up
    with pytest.raises(PairError, match="is gone from"):
        setting.service.make_default("mine")


def test_models_that_another_program_downloaded_are_found(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[HubModel] = []
    monkeypatch.setattr("app.models.hub.cache.cached_file", lambda source, draft: __file__ if source in found else None)
    setting.again()
    for on_disk in (False, True):
        setting.refreshed()
        card = setting.card("mine")
        assert (card.here, card.set_up) == (on_disk, False)
        found += [HubModel(TARGET, quant="Q4_K_M", size=TARGET_SIZE), HubModel(DRAFT)]
    assert card.download_bytes == 0
