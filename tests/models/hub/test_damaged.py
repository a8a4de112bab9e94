"""What is in the cache already and is not what it should be: found when a pair is set up, and brought again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_hub_download

from app.cli import main
from app.cli.known_pairs import registry
from app.core.errors import HubError, UnreachableError
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.hub.choose import RemoteFile
from app.models.progress import Tracked
from app.models.registry import SetUp
from app.models.resolve import Resolved
from app.models.setup import Ready, Setup
from app.models.source import HubModel
from app.ui.models.state import Stage
from tests.models.hub.faults import Corrupt, EditJson, Status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, RETRY, TARGET, no_demo
from tests.models.hub.pairs_setting import Setting

pytestmark = pytest.mark.usefixtures("home")
FILE = "big-Q4_K_M.gguf"
MINE = Pair("mine", "Mine", HubModel(TARGET, file=FILE), None)


def brought() -> SetUp:
    steps = Setup(registry(), no_demo)
    *_, last = steps.bring(steps.prepare(MINE))
    assert isinstance(last, Ready)
    return last.pair


def damaged(path: Path, at: int) -> bytes:
    """What was in a file, of which some bytes are others now."""
    true = path.read_bytes()
    path.write_bytes(true[:at] + b"\xff" * 9 + true[at + 9 :])
    return true


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("at", [0, 60, -50], ids=["magic", "header", "weights"])
def test_what_another_program_has_brought_is_looked_at(
    pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch, links: bool, at: int
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    path = Path(hf_hub_download(TARGET, FILE))
    asked = len(pair.asked(FILE, origin="cdn"))
    assert not brought().target.ours
    assert len(pair.asked(FILE, origin="cdn")) == asked, "it is right"

    true = damaged(path, at % path.stat().st_size)
    now = brought().target
    assert now.path.read_bytes() == true
    assert now.ours, "this program has brought it now"


def test_a_pair_whose_file_was_damaged_since_is_mended_by_setting_it_up_again(
    pair: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial"]) == 0
    path = registry().read().pairs["mine"].target.path
    true = damaged(path, 8)
    capsys.readouterr()
    assert main(["run", "--pair", "mine", "--max-tokens", "2", "hi"]) == 1
    assert "tandem setup does that for a pair" in " ".join(capsys.readouterr().err.split())

    assert main(["setup", "mine", "--yes"]) == 0
    assert path.read_bytes() == true
    assert f"{FILE} was damaged here, and has been downloaded again." in capsys.readouterr().err

    pair.close()
    assert main(["setup", "mine", "--yes"]) == 1
    assert "mine is here as it was set up before: tandem --pair mine" in capsys.readouterr().err


def test_no_good_file_is_lost_to_a_hub_that_tells_another_checksum(pair: LoopbackHub) -> None:
    path = Path(hf_hub_download(TARGET, FILE))

    def lie(told: dict[str, Any]) -> dict[str, Any]:
        for sibling in told["siblings"]:
            sibling["lfs"] = {**sibling["lfs"], "sha256": "0" * 64}
        return told

    pair.faults.add(EditJson(lie), "/api/models/*", times=None)
    content = cache.sha256_of(path)

    assert brought().target.path == path
    assert cache.sha256_of(path) == content


def test_what_is_damaged_goes_only_when_what_takes_its_place_is_right(pair: LoopbackHub) -> None:
    path = Path(hf_hub_download(TARGET, FILE))
    true = damaged(path, -50 % path.stat().st_size)
    was = path.read_bytes()
    pair.faults.add(Corrupt(-1 % len(true)), FILE, origin="cdn", times=None)
    steps = Setup(registry(), no_demo)
    prepared = steps.prepare(MINE)
    assert prepared.download_bytes == len(true), "somebody can be asked about it"
    assert prepared.notes == (f"{FILE} is here, but damaged: it is to be downloaded again.",)
    assert prepared.target.path is None

    with pytest.raises(HubError, match="arrives damaged"):
        list(steps.bring(prepared))
    assert path.read_bytes() == was

    pair.faults.clear()
    assert brought().target.path.read_bytes() == true


def test_who_comes_second_takes_what_the_first_has_brought_anew(pair: LoopbackHub) -> None:
    path = Path(hf_hub_download(TARGET, FILE))
    true = damaged(path, 60)
    first, second = Setup(registry(), no_demo), Setup(registry(), no_demo)
    both = first.prepare(MINE), second.prepare(MINE)
    list(first.bring(both[0]))
    asked = len(pair.asked(FILE, origin="cdn"))

    *_, last = second.bring(both[1])

    assert isinstance(last, Ready)
    assert last.mended == ()
    assert len(pair.asked(FILE, origin="cdn")) == asked
    assert path.read_bytes() == true


def test_content_without_its_name_is_looked_at_too(pair: LoopbackHub) -> None:
    path = Path(hf_hub_download(TARGET, FILE))
    true = damaged(path, 60)
    path.unlink()
    steps = Setup(registry(), no_demo)

    *_, last = steps.bring(steps.prepare(MINE))

    assert isinstance(last, Ready)
    assert last.mended == (FILE,)
    assert last.pair.target.path.read_bytes() == true


@pytest.mark.parametrize("at", [8, -50], ids=["header", "weights"])
def test_where_the_hub_is_away_what_is_damaged_is_not_taken(pair: LoopbackHub, at: int) -> None:
    path = Path(hf_hub_download(TARGET, FILE))
    damaged(path, at % path.stat().st_size)
    pair.close()

    with pytest.raises(HubError, match=f"{FILE} is damaged here, and cannot be downloaded again: ") as caught:
        Setup(registry(), no_demo).prepare(MINE)
    assert isinstance(caught.value.__cause__, UnreachableError)


def test_a_hub_in_trouble_is_asked_again_also_about_a_file_that_is_here(pair: LoopbackHub) -> None:
    path = Path(hf_hub_download(TARGET, FILE))
    true = damaged(path, 8)
    pair.faults.add(Status(503), "/api/models/*", times=1)
    steps = Setup(registry(), no_demo)
    steps.retry = RETRY

    list(steps.bring(steps.prepare(MINE)))

    assert path.read_bytes() == true


def test_without_links_too_a_good_file_outlives_a_hub_that_tells_another_checksum(
    pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", True)
    path = Path(hf_hub_download(TARGET, FILE))
    true = path.read_bytes()

    def lie(told: dict[str, Any]) -> dict[str, Any]:
        for sibling in told["siblings"]:
            sibling["lfs"] = {**sibling["lfs"], "sha256": "0" * 64}
        return told

    pair.faults.add(EditJson(lie), "/api/models/*", times=None)

    with pytest.raises(HubError, match="arrives damaged"):
        brought()
    assert path.read_bytes() == true


def test_the_screen_asks_before_what_is_damaged_comes_anew(setting: Setting) -> None:
    path = Path(hf_hub_download(TARGET, FILE))
    true = damaged(path, -50 % path.stat().st_size)

    setting.service.start("mine")
    setting.until(lambda: not setting.job("mine").running)

    asking = setting.job("mine")
    assert asking.stage is Stage.ASKING
    assert asking.to_come >= len(true)
    assert f"{FILE} is here, but damaged: it is to be downloaded again." in asking.warnings
    assert setting.set_up("mine").note == f"{FILE} was damaged here, and has been downloaded again."
    assert setting.job("mine").warnings == ()
    assert path.read_bytes() == true


def test_what_was_waited_for_is_over_once_bytes_come() -> None:
    model = Resolved(MINE.target, TARGET, "c", (RemoteFile(FILE, 10),), None, 10, "Q4_K_M")
    tracked = Tracked("target", model)
    tracked.waiting("what came was damaged; it is downloaded again", 0)
    tracked.received(1)
    assert tracked.progress().waiting == ""
