"""Set up pairs in the background against the loopback hub, and open them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import CatalogError, ModelLoadError, PairError
from app.models.catalog import Pair
from app.models.registry import Registry, SetUp
from app.models.source import HubModel, LocalModel
from app.ui.models.service import PairService
from app.ui.models.state import Stage
from tests.models.hub.faults import Stall
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import TARGET
from tests.models.hub.pairs_setting import MINE, TARGET_SIZE, WAIT_S, Setting, tiny_file


def test_cards_before_and_after_a_set_up(setting: Setting) -> None:
    card = setting.card("mine")
    assert (card.target, card.draft, card.on_disk, card.set_up, card.size) == (
        "big Q4_K_M",
        "small",
        False,
        False,
        ">3 MB",
    )

    job = setting.set_up("mine")

    assert job.stage is Stage.READY
    assert job.share == 1.0
    assert {file.role for file in job.transfer.files} == {"target", "draft"}
    card = setting.card("mine")
    assert (card.on_disk, card.set_up, card.is_default) == (True, True, True)
    assert card.size == "3 MB"
    assert setting.registry.read().pairs["mine"].pair.licence == "mit"
    assert setting.service.state().cards[0].name == "mine"


def test_nothing_large_comes_before_its_size_was_agreed_to(setting: Setting, tmp_path: Path) -> None:
    # The catalogue does not know the draft's size.
    assert setting.card("mine").download_bytes is None
    setting.service.set_up("mine")
    setting.until(lambda: not setting.job("mine").running)

    job = setting.job("mine")
    assert job.stage is Stage.CHECKED
    assert job.report is not None
    assert job.report.download_bytes > TARGET_SIZE
    assert job.report.free_bytes > 0
    assert setting.card("mine").size == "3 MB"
    assert not list(tmp_path.rglob("blobs/*"))

    assert setting.set_up("mine").stage is Stage.READY


def test_what_the_hub_has_reported_of_a_pair_is_what_it_is_held_against_the_machine_by(setting: Setting) -> None:
    setting.pairs.append(Pair("open", "Open", HubModel(TARGET, quant="Q4_K_M"), None))
    setting.again().refresh()
    setting.until(lambda: setting.card("open").word)
    assert (setting.card("open").word, setting.card("open").reason) == ("unknown", "only Hugging Face knows its size")
    setting.service.set_up("open")
    setting.until(lambda: setting.job("open").stage is Stage.CHECKED)
    card = setting.card("open")
    assert (card.size, card.word) == ("3 MB", "fits")


def test_how_headers_come_is_reported_until_all_is_known(setting: Setting, hub: LoopbackHub) -> None:
    stall = hub.faults.add(Stall(after=100), "big-*", origin="cdn", times=2, when=lambda r: "range" in r.headers)
    told = "Looking at big-Q4_K_M.gguf: 0.0 MB of its header"
    setting.service.set_up("mine", confirmed=True)
    setting.until(lambda: setting.job("mine").header_progress == told)
    setting.service.check_sources(TARGET, "")
    setting.until(lambda: (asked := setting.service.state().check) is not None and asked.header_progress == told)
    stall.release()

    setting.until(lambda: not setting.service.state().busy)
    inquiry = setting.service.state().check
    assert (setting.job("mine").stage, setting.job("mine").header_progress) == (Stage.READY, "")
    assert inquiry is not None
    assert inquiry.report is not None


def test_what_is_set_up_can_be_taken_for_the_chat_in_this_run_and_the_next(setting: Setting) -> None:
    with pytest.raises(PairError, match="is not on this machine"):
        setting.service.load_request("mine")
    setting.set_up("mine")

    for service in (setting.service, setting.again()):
        service.state()
        assert service.load_request("mine").settings.title == "Big with small"
    (pair, files), _ = setting.opened
    assert pair == MINE
    assert files.is_here

    files.target.path.unlink()
    setting.again()
    with pytest.raises(PairError):
        setting.service.load_request("mine")


def test_an_entry_that_was_changed_means_other_files(setting: Setting) -> None:
    setting.set_up("mine")
    setting.pairs = [replace(MINE, target=HubModel(TARGET, quant="Q8_0"))]
    setting.again()
    assert not setting.card("mine").set_up


def test_a_cancelled_download_shows_so_at_once_and_continues_where_it_was(setting: Setting, hub: LoopbackHub) -> None:
    # What the checks read of the files names its bytes; the download begins with the first.
    stall = hub.faults.add(
        Stall(after=2_500_000), "big-*", origin="cdn", when=lambda request: "range" not in request.headers
    )
    setting.service.set_up("mine", confirmed=True)
    assert stall.reached.wait(WAIT_S)
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


def test_without_a_hub_there_is_an_error_and_the_demo_works(setting: Setting, hub: LoopbackHub) -> None:
    hub.close()
    job = setting.set_up("mine")
    assert job.stage is Stage.FAILED
    assert job.error is not None
    assert "cannot be reached" in job.error.message
    assert job.error.hint

    assert setting.card("demo").on_disk
    assert setting.set_up("demo").stage is Stage.READY
    setting.service.state()
    setting.service.load_request("demo")
    assert setting.opened[0][1].target.path == setting.demo
    assert setting.card("demo").is_default


class Forgetful(Registry):
    """On a disk that refuses."""

    def add(self, pair: SetUp, *, default: bool, first: bool = True) -> None:
        raise CatalogError("pairs.toml cannot be written: Read-only file system.", "Check the disk.")


def test_where_nothing_can_be_written_there_is_a_chat_all_the_same(setting: Setting, tmp_path: Path) -> None:
    def demo_file(part: str) -> Path:
        if part == "draft":
            raise ModelLoadError("The draft cannot be written.")
        return setting.demo

    registry = Forgetful(tmp_path / "data" / "pairs.toml")
    service = PairService(replace(setting.surroundings, registry=registry, demo_file=demo_file))
    service.state()
    service.set_up("demo")
    setting.until(lambda: not service.state().setups["demo"].running)

    job = service.state().setups["demo"]
    assert job.stage is Stage.READY
    assert "Read-only file system" in job.note
    assert job.report is not None
    assert any("Running without a draft. The draft cannot be written." in line for line in job.report.warnings)
    card = next(card for card in service.state().cards if card.name == "demo")
    assert (card.set_up, card.is_default) == (True, False)
    service.load_request("demo")
    assert setting.opened[-1][1].target.path == setting.demo


def test_the_default_can_be_changed(setting: Setting) -> None:
    setting.set_up("mine")
    with pytest.raises(PairError, match="not set up"):
        setting.service.make_default("demo")
    setting.set_up("demo")
    assert setting.card("mine").is_default
    setting.service.make_default("demo")
    assert setting.card("demo").is_default
    assert not setting.card("mine").is_default


def test_only_the_first_real_pair_becomes_the_default_by_itself(setting: Setting) -> None:
    setting.set_up("demo")
    assert setting.card("demo").is_default
    setting.set_up("mine")
    assert setting.card("mine").is_default
    setting.ask(TARGET)
    name = setting.service.add_checked()
    setting.until(lambda: setting.job(name).stage is Stage.READY)
    assert setting.card("mine").is_default


def test_a_disk_that_is_too_small_is_reported_before_anybody_is_asked(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.models.hub.cache.free_bytes", lambda: 1_000_000)
    setting.service.set_up("mine")
    setting.until(lambda: not setting.job("mine").running)
    job = setting.job("mine")
    assert job.stage is Stage.FAILED
    assert job.error is not None
    assert "3 MB are to be downloaded" in job.error.message
    assert "1 MB are free there" in job.error.message


def test_a_pair_that_was_opened_by_its_files_is_listed_marked_and_can_be_come_back_to(
    setting: Setting, tmp_path: Path
) -> None:
    setting.set_up("demo")
    target, draft = (LocalModel(tiny_file(tmp_path / name)) for name in ("Own-Q8_0.gguf", "own-small.gguf"))
    setting.current = Pair("files", "Own", target, draft), None
    setting.service.refresh()
    setting.until(lambda: not setting.service.state().busy)

    card = setting.card("own-q8-0")
    assert (card.is_open, card.set_up, card.target, card.word) == (True, True, "Own Q8_0", "fits")
    assert [c.name for c in setting.service.state().cards if c.is_open] == ["own-q8-0"]
    setting.service.load_request("demo")
    assert (setting.card("demo").is_open, setting.card("own-q8-0").is_open) == (True, False)
    setting.service.load_request("own-q8-0")
    assert setting.card("own-q8-0").is_open
    assert setting.opened[-1][1].target.path == target.path

    setting.service.make_default("own-q8-0")
    assert setting.card("own-q8-0").is_default
    assert setting.registry.read().default == "own-q8-0", "it is remembered, for the next run opens with it"
    setting.current = None
    assert [c.name for c in setting.again().state().cards if c.set_up] == ["own-q8-0", "demo"]


def test_closing_does_not_wait_for_a_network_that_does_not_answer(setting: Setting, hub: LoopbackHub) -> None:
    stall = hub.faults.add(Stall(), "big-*", origin="cdn")
    setting.service.set_up("mine", confirmed=True)
    assert stall.reached.wait(WAIT_S)
    assert setting.service.close(WAIT_S)
    assert setting.job("mine").stage is Stage.STOPPED
    assert not stall.go.is_set()


def test_the_screens_do_not_load_the_hubs_client() -> None:
    code = (
        "import sys, app.ui.app, app.ui.models.setup_screen, app.ui.models.service\n"
        "print(*[m for m in sys.modules if m.startswith(('huggingface_hub', 'httpx2', 'app.models.hub'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
