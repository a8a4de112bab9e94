"""The pairs behind the set-up screens, against the loopback hub."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from app.catalog import Pair
from app.errors import CatalogError, HubError, ModelLoadError, PairError
from app.pairing.gain import Seen
from app.pairing.propose import Fit, Room
from app.pairing.resolve import came_before
from app.registry import Registry, SetUp
from app.source import DemoModel, HubModel, LocalModel
from app.ui.pairs.jobs import SetupJob
from app.ui.pairs.service import Pairs
from app.ui.pairs.setups import Download, Job, Stage
from tests.hub.faults import Stall
from tests.hub.loopback import LoopbackHub
from tests.hub.models import DRAFT, TARGET, sha256, tiny
from tests.hub.pairs_setting import WAIT_S, Setting, tiny_file
from tests.native.gguf_files import I32, STRING, Array

PADDING = b"\0" * 3_000_000
"""Makes a download of several chunks."""


MINE = Pair(
    "mine",
    "Big with small",
    HubModel(TARGET, quant="Q4_K_M", size=3_050_000),
    HubModel(DRAFT),
    memory_gb=1,
    context=4096,
)
DEMO = Pair("demo", "A demo", DemoModel("target"), DemoModel("draft"), memory_gb=1)
HUGE = Pair("huge", "Huge", HubModel("owner/huge-GGUF", size=90_000_000_000), None, memory_gb=96)


@pytest.fixture
def setting(hub: LoopbackHub, tmp_path: Path) -> Iterator[Setting]:
    target = tiny(tmp_path / "made", "target.gguf", general__name="Big")
    draft = tiny(tmp_path / "made", "draft.gguf", general__name="Small")
    hub.add(TARGET, {"big-Q4_K_M.gguf": target + PADDING}, licence="mit")
    hub.add(DRAFT, {"small-Q8_0.gguf": draft})
    made = Setting(tmp_path, HUGE, DEMO, MINE)
    made.service.look()
    yield made
    hub.faults.release()
    assert made.service.close(WAIT_S)


def test_the_machine_is_looked_at_beside_everything_else(setting: Setting) -> None:
    before = setting.service.look()
    assert (before.machine, [card.fit for card in before.cards]) == ("", [None] * 3)

    setting.service.begin()
    setting.until(lambda: not setting.service.look().busy)

    now = setting.service.look()
    assert now.machine == "An abacus"
    assert [(card.name, card.fit) for card in now.cards] == [
        ("demo", Fit.FITS),
        ("mine", Fit.FITS),
        ("huge", Fit.TOO_BIG),
    ]
    assert setting.service.look().cards is now.cards
    assert [card.context for card in now.cards] == [0, 4096, 0]


def test_what_answers_have_shown_is_read_anew_at_every_look_at_the_list(setting: Setting) -> None:
    seen = {"mine": Seen("Q4_K_M", is_off=False, speedup=1.5)}
    found = [seen, {"mine": replace(seen["mine"], speedup=1.7)}]
    looks: list[str] = []

    def machine() -> tuple[str, Room]:
        looks.append("machine")
        return "An abacus", Room(2_000_000_000)

    service = Pairs(replace(setting.surroundings, machine=machine, seen=lambda: found.pop(0)))

    def gain() -> str:
        service.begin()
        setting.until(lambda: not service.look().busy)
        return next(card.gain for card in service.look().cards if card.name == "mine")

    assert gain() == "Measured here: lately 1.5x where its draft model drafted."
    assert gain() == "Measured here: lately 1.7x where its draft model drafted."
    # What cannot be read any more is as it was.
    assert gain() == "Measured here: lately 1.7x where its draft model drafted."
    assert looks == ["machine"]


def test_a_machine_in_the_middle_of_loading_is_looked_at_again_when_that_has_ended(setting: Setting) -> None:
    loading, free = [True], [1_000_000]
    looks: list[int] = []

    def machine() -> tuple[str, Room]:
        looks.append(free[0])
        return f"{free[0]} free", Room(free[0])

    service = Pairs(replace(setting.surroundings, machine=machine, is_loading=lambda: loading[0]))
    service.begin()
    setting.until(lambda: service.look().machine)

    state = service.look()
    assert state.machine == "1000000 free", "what is known so far is shown"
    assert state.busy, "the screen has to look on"

    loading[0], free[0] = False, 2_000_000_000
    setting.until(lambda: not service.look().busy)
    assert service.look().machine == "2000000000 free"

    service.begin()
    setting.until(lambda: not service.look().busy)
    assert looks == [1_000_000, 2_000_000_000], "a machine at rest stays what it was"


def test_a_machine_that_cannot_be_read_stops_nothing(setting: Setting) -> None:
    def broken() -> tuple[str, Room]:
        raise OSError

    service = Pairs(replace(setting.surroundings, machine=broken))
    service.begin()
    setting.until(lambda: not service.look().busy)
    assert "could not be read" in service.look().machine
    assert len(service.look().cards) == 3


def test_cards_before_and_after_a_set_up(setting: Setting) -> None:
    card = setting.card("mine")
    assert (card.target, card.draft, card.here, card.set_up, card.size) == (
        "big Q4_K_M",
        "small",
        False,
        False,
        ">3 MB",
    )

    job = setting.set_up("mine")

    assert job.stage is Stage.READY
    assert job.share == 1.0
    assert {one.role for one in job.downloads} == {"target", "draft"}
    card = setting.card("mine")
    assert (card.here, card.set_up, card.is_default) == (True, True, True)
    assert card.size == "3 MB"
    assert setting.registry.read().pairs["mine"].pair.licence == "mit"
    assert setting.service.look().cards[0].name == "mine"


def test_nothing_large_comes_before_its_size_was_agreed_to(setting: Setting, tmp_path: Path) -> None:
    # The catalogue does not know the draft's size.
    assert setting.card("mine").to_come is None
    setting.service.start("mine")
    setting.until(lambda: not setting.job("mine").running)

    job = setting.job("mine")
    assert job.stage is Stage.ASKING
    assert job.to_come > len(PADDING)
    assert job.free > 0
    assert setting.card("mine").size == "3 MB"
    assert not list(tmp_path.rglob("blobs/*"))

    assert setting.set_up("mine").stage is Stage.READY


def test_what_the_hub_has_told_of_a_pair_is_what_it_is_held_against_the_machine_by(setting: Setting) -> None:
    setting.pairs.append(Pair("open", "Open", HubModel(TARGET, quant="Q4_K_M"), None))
    setting.again().begin()
    setting.until(lambda: setting.card("open").word)
    assert (setting.card("open").word, setting.card("open").reason) == ("unknown", "only the hub knows its size")
    setting.service.start("open")
    setting.until(lambda: setting.job("open").stage is Stage.ASKING)
    card = setting.card("open")
    assert (card.size, card.word) == ("3 MB", "fits")


def test_what_another_program_has_downloaded_is_here(setting: Setting) -> None:
    assert setting.set_up("mine").stage is Stage.READY
    setting.registry.remove("mine")
    found: list[HubModel] = []
    service = Pairs(replace(setting.surroundings, is_cached=lambda source: source in found))
    service.look()
    for here in (False, True):
        service.begin()
        setting.until(lambda: not service.look().busy)
        card = next(card for card in service.look().cards if card.name == "mine")
        assert (card.here, card.set_up) == (here, False), "what comes is seen when the list is opened again"
        found += [HubModel(TARGET, quant="Q4_K_M", size=3_050_000), HubModel(DRAFT)]
    assert card.to_come == 0
    service.start("mine")
    setting.until(lambda: service.look().jobs["mine"].stage is Stage.READY)


def test_what_a_cut_download_has_left_need_not_come_again(setting: Setting, hub: LoopbackHub, tmp_path: Path) -> None:
    content, kept = tiny(tmp_path / "made", "cut.gguf") + PADDING, 1 << 20
    hub.add("owner/cut-GGUF", {"cut.gguf": content})
    source = HubModel("owner/cut-GGUF", file="cut.gguf", size=len(content), sha256=sha256(content))
    setting.pairs.append(Pair("cut", "Cut", source, None, memory_gb=1))
    setting.again()
    hub.faults.add(Stall(after=kept), "cut.gguf", origin="cdn", when=lambda request: "range" not in request.headers)
    setting.service.start("cut", agreed=True)
    setting.until(lambda: [one.done for one in setting.job("cut").downloads] == [kept])
    setting.service.cancel("cut")
    assert setting.card("cut").to_come == len(content)

    setting.surroundings = replace(setting.surroundings, came=came_before)
    setting.again().begin()
    setting.until(lambda: not setting.service.look().busy)

    assert (setting.card("cut").to_come, setting.card("cut").came) == (len(content) - kept, kept)
    setting.service.start("cut")
    setting.until(lambda: setting.job("cut").stage is Stage.ASKING)
    assert (setting.job("cut").to_come, setting.job("cut").came) == (len(content) - kept, kept)


def test_a_set_up_that_has_ended_waits_for_nothing(setting: Setting) -> None:
    waiting = Job(Stage.DOWNLOADING, (Download("target", 1, 2, "The connection broke.", 5.0),), 1e6, 1.0)
    ended = replace(waiting, downloads=(Download("target", 1, 2),), bytes_per_s=0.0, left_s=None)

    def no_setup() -> NoReturn:
        raise HubError("It is over.")

    stopped, failed = (SetupJob(MINE, no_setup, lambda: None) for _ in range(2))
    stopped.job = failed.job = waiting
    stopped.cancel()
    failed.begin()
    assert failed.join(WAIT_S)
    assert stopped.job == replace(ended, stage=Stage.STOPPED)
    assert replace(failed.job, error=None) == replace(ended, stage=Stage.FAILED)


def test_a_cache_that_cannot_be_read_hides_neither_the_machine_nor_the_list(setting: Setting) -> None:
    def refuse(source: HubModel) -> bool:
        raise PermissionError

    service = Pairs(replace(setting.surroundings, is_cached=refuse))
    service.look()
    for _ in range(2):
        service.begin()
        setting.until(lambda: not service.look().busy)
        assert service.look().machine == "An abacus"
        assert not service.look().troubles


def test_what_is_set_up_can_be_taken_for_the_chat_in_this_run_and_the_next(setting: Setting) -> None:
    with pytest.raises(PairError, match="not on this machine yet"):
        setting.service.choose("mine")
    setting.set_up("mine")

    for service in (setting.service, setting.again()):
        service.look()
        assert service.choose("mine").settings.title == "Big with small"
    (pair, files), _ = setting.opened
    assert pair == MINE
    assert files.is_here

    files.target.path.unlink()
    setting.again()
    with pytest.raises(PairError):
        setting.service.choose("mine")


def test_an_entry_that_was_changed_means_other_files(setting: Setting) -> None:
    setting.set_up("mine")
    setting.pairs = [replace(MINE, target=HubModel(TARGET, quant="Q8_0"))]
    setting.again()
    assert not setting.card("mine").set_up


def test_a_cancelled_download_says_so_at_once_and_goes_on_where_it_was(setting: Setting, hub: LoopbackHub) -> None:
    # What the checks read of the files names its bytes; the download begins with the first.
    stall = hub.faults.add(
        Stall(after=2_500_000), "big-*", origin="cdn", when=lambda request: "range" not in request.headers
    )
    setting.service.start("mine", agreed=True)
    assert stall.reached.wait(WAIT_S)
    setting.until(lambda: setting.job("mine").share > 0.6)

    setting.service.cancel("mine")

    job = setting.job("mine")
    assert job.stage is Stage.STOPPED
    assert not setting.service.look().busy
    stall.go.set()
    before = len(hub.asked("big-*", origin="cdn"))
    assert setting.set_up("mine").stage is Stage.READY
    ranges = [request.headers.get("range", "") for request in hub.asked("big-*", origin="cdn")[before:]]
    assert any(one.startswith("bytes=") and int(one[6:].partition("-")[0]) >= 1 << 20 for one in ranges)


def test_without_a_hub_there_is_a_sentence_and_the_demo_works(setting: Setting, hub: LoopbackHub) -> None:
    hub.close()
    job = setting.set_up("mine")
    assert job.stage is Stage.FAILED
    assert job.error is not None
    assert "cannot be reached" in job.error.message
    assert job.error.hint

    assert setting.card("demo").here
    assert setting.set_up("demo").stage is Stage.READY
    setting.service.look()
    setting.service.choose("demo")
    assert setting.opened[0][1].target.path == setting.demo
    assert setting.card("demo").is_default


class Forgetful(Registry):
    """On a disk that refuses."""

    def add(self, pair: SetUp, *, default: bool) -> None:
        raise CatalogError("pairs.toml cannot be written: Read-only file system.", "Check the disk.")


def test_where_nothing_can_be_written_there_is_a_chat_all_the_same(setting: Setting, tmp_path: Path) -> None:
    def demo_file(part: str) -> Path:
        if part == "draft":
            raise ModelLoadError("The draft cannot be written.")
        return setting.demo

    registry = Forgetful(tmp_path / "data" / "pairs.toml")
    service = Pairs(replace(setting.surroundings, registry=registry, demo_file=demo_file))
    service.look()
    service.start("demo")
    setting.until(lambda: not service.look().jobs["demo"].running)

    job = service.look().jobs["demo"]
    assert job.stage is Stage.READY
    assert "Read-only file system" in job.note
    assert any("Running without a draft model. The draft cannot be written." in line for line in job.warnings)
    card = next(card for card in service.look().cards if card.name == "demo")
    assert (card.set_up, card.is_default) == (True, False)
    service.choose("demo")
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


def test_only_the_first_pair_becomes_the_default_by_itself(setting: Setting) -> None:
    setting.set_up("demo")
    assert setting.card("demo").is_default
    setting.set_up("mine")
    assert setting.card("demo").is_default
    setting.ask(TARGET)
    name = setting.service.add()
    setting.until(lambda: setting.job(name).stage is Stage.READY)
    assert setting.card("demo").is_default


def test_any_repository_is_looked_at_then_brought(setting: Setting, tmp_path: Path) -> None:
    inquiry = setting.ask(TARGET, f"{DRAFT}:Q8_0")
    report = inquiry.report
    assert report is not None
    assert [(m.role, m.name, m.quant, m.here) for m in report.models] == [
        ("target", "big", "Q4_K_M", False),
        ("draft", "small", "Q8_0", False),
    ]
    assert (report.problems, report.licence, report.gated) == ((), "mit", False)
    assert report.download_bytes == sum(model.size for model in report.models)
    assert not list(tmp_path.rglob("blobs/*")), "asking downloads nothing"

    name = setting.service.add()

    assert name == "big"
    setting.until(lambda: setting.job(name).stage is Stage.READY)
    assert setting.card(name).set_up
    assert setting.again().choose(name)
    # The same two again are the same pair.
    setting.ask(TARGET, f"{DRAFT}:Q8_0")
    assert setting.service.add() == "big"


def test_a_name_that_is_taken_is_not_taken_again(setting: Setting) -> None:
    setting.pairs.append(replace(DEMO, name="big"))
    setting.again()
    setting.ask(TARGET)
    assert setting.service.add() == "big-2"
    assert setting.card("big-2").size


def test_a_file_on_this_machine_needs_no_download(setting: Setting, tmp_path: Path) -> None:
    path = tiny_file(tmp_path / "own" / "Own-Q8_0.gguf")
    report = setting.ask(str(path)).report
    assert report is not None
    assert (report.download_bytes, report.models[0].here) == (0, True)
    name = setting.service.add()
    setting.until(lambda: setting.job(name).stage is Stage.READY)
    assert isinstance(setting.registry.read().pairs[name].pair.target, LocalModel)


def test_two_that_do_not_match_are_not_added(setting: Setting, hub: LoopbackHub, tmp_path: Path) -> None:
    tokens, types = Array(STRING, ["x", "y", "z"]), Array(I32, [1, 1, 1])
    other = tiny(tmp_path / "o", "other.gguf", tokenizer__ggml__tokens=tokens, tokenizer__ggml__token_type=types)
    hub.add("owner/other-GGUF", {"other-Q8_0.gguf": other})
    report = setting.ask(TARGET, "owner/other-GGUF").report
    assert report is not None
    assert report.problems
    with pytest.raises(PairError):
        setting.service.add()
    assert setting.service.look().jobs == {}


@pytest.mark.parametrize(
    ("target", "sentence"), [("what is this", "names no model"), ("owner/absent", "There is no repository")]
)
def test_what_cannot_be_found_is_a_sentence(setting: Setting, target: str, sentence: str) -> None:
    error = setting.ask(target).error
    assert error is not None
    assert sentence in error.message
    assert error.hint


def test_gated_repositories_say_where_to_accept_the_terms(setting: Setting, hub: LoopbackHub) -> None:
    hub.repos[TARGET].gated = "manual"
    error = setting.ask(TARGET).error
    assert error is not None
    assert "wants its terms accepted" in error.message
    assert TARGET in error.hint


def test_a_broken_catalogue_leaves_what_was_set_up(setting: Setting) -> None:
    setting.set_up("mine")
    setting.broken = True
    state = setting.again().look()
    assert len(state.troubles) == 1
    assert [card.name for card in state.cards] == ["mine"]
    assert setting.service.choose("mine")


def test_what_is_wrong_with_one_entry_is_told_beside_the_others(setting: Setting) -> None:
    setting.trouble = CatalogError("pairs.mine has no target.", "Add it.")
    state = setting.again().look()
    assert state.troubles == (setting.trouble,)
    assert {"demo", "huge", "mine"} == {card.name for card in state.cards}


def test_that_the_default_is_gone_is_told_and_the_others_can_be_taken(setting: Setting) -> None:
    setting.set_up("mine")
    setting.registry.set_default("mine")
    files = setting.registry.read().pairs["mine"]
    assert setting.again().look().troubles == ()
    files.target.path.unlink()
    setting.trouble = CatalogError("pairs.other has no target.")
    setting.service.begin()
    trouble, other = setting.service.look().troubles
    assert other == setting.trouble, "one does not hide the other"
    assert trouble.message.startswith("big-Q4_K_M.gguf of the pair mine is gone from")
    assert trouble.hint == "Bring it back: tandem setup mine"
    assert not setting.card("mine").set_up


def test_a_file_that_was_replaced_tells_its_size_itself(setting: Setting, tmp_path: Path) -> None:
    file = tiny_file(tmp_path / "own.gguf")
    setting.pairs.append(Pair("own", "Own", LocalModel(file), None))
    setting.again()
    setting.set_up("own")
    assert setting.card("own").size == "0 MB"
    file.write_bytes(file.read_bytes() + bytes(5_000_000))
    setting.service.begin()
    assert setting.card("own").size == "5 MB"


def test_a_disk_that_is_too_small_is_told_before_anybody_is_asked(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.hub.store.free_bytes", lambda: 1_000_000)
    setting.service.start("mine")
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
    setting.service.begin()
    setting.until(lambda: not setting.service.look().busy)

    card = setting.card("own-q8-0")
    assert (card.is_open, card.set_up, card.target, card.word) == (True, True, "Own Q8_0", "fits")
    assert [c.name for c in setting.service.look().cards if c.is_open] == ["own-q8-0"]
    setting.service.choose("demo")
    assert (setting.card("demo").is_open, setting.card("own-q8-0").is_open) == (True, False)
    setting.service.choose("own-q8-0")
    assert setting.card("own-q8-0").is_open
    assert setting.opened[-1][1].target.path == target.path

    setting.service.make_default("own-q8-0")
    assert setting.card("own-q8-0").is_default
    assert setting.registry.read().default == "own-q8-0", "it is remembered, for the next run opens with it"
    setting.current = None
    assert [c.name for c in setting.again().look().cards if c.set_up] == ["own-q8-0", "demo"]


def test_what_another_program_sets_up_or_forgets_is_seen_when_the_list_is_opened_again(setting: Setting) -> None:
    setting.set_up("demo")
    service = setting.again()
    service.begin()
    setting.until(lambda: not service.look().busy)
    assert setting.card("demo").set_up
    setting.registry.remove("demo")
    assert setting.card("demo").set_up, "nothing is read while nothing is asked for"
    service.begin()
    assert not setting.card("demo").set_up


def test_closing_does_not_wait_for_a_network_that_does_not_answer(setting: Setting, hub: LoopbackHub) -> None:
    stall = hub.faults.add(Stall(), "big-*", origin="cdn")
    setting.service.start("mine", agreed=True)
    assert stall.reached.wait(WAIT_S)
    assert not setting.service.close(0.0)
    assert setting.job("mine").stage is Stage.STOPPED
    stall.go.set()
    assert setting.service.close(WAIT_S)


def test_the_screens_do_not_load_the_hubs_client() -> None:
    code = (
        "import sys, app.ui.app, app.ui.screens.setup, app.ui.pairs.service\n"
        "print(*[m for m in sys.modules if m.startswith(('huggingface_hub', 'httpx2', 'app.hub'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
