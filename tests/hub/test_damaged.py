"""What is in the cache already and is not what it should be: found when a pair is set up, and brought anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_hub_download

from app.catalog import Pair
from app.cli import main
from app.cli.known_pairs import registry
from app.hub import store
from app.pairing.setup import Ready, Setup
from app.registry import SetUp
from app.source import HubModel
from tests.hub.faults import EditJson
from tests.hub.loopback import LoopbackHub
from tests.hub.models import BOTH, TARGET, no_demo

pytestmark = pytest.mark.usefixtures("home")
FILE = "big-Q4_K_M.gguf"


def brought() -> SetUp:
    steps = Setup(registry(), no_demo)
    *_, last = steps.bring(steps.prepare(Pair("mine", "Mine", HubModel(TARGET, file=FILE), None)))
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
    assert f"{FILE} was damaged here, and has been downloaded anew." in capsys.readouterr().err

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
    content = store.sha256_of(path)

    assert brought().target.path == path
    assert store.sha256_of(path) == content
