"""Damaged files in the cache: found at setup and downloaded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_hub_download

from app.cli import main
from app.cli.known_pairs import registry
from app.core.errors import UnreachableError
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.registry import SetUp
from app.models.setup import Setup
from app.models.source import HubModel
from tests.models.hub.faults import EditJson
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, TARGET, no_demo

pytestmark = pytest.mark.usefixtures("home")
FILE = "big-Q4_K_M.gguf"
MINE = Pair("mine", "Mine", HubModel(TARGET, file=FILE), None)


def brought() -> SetUp:
    steps = Setup(registry(), no_demo)
    *_, last = steps.install(steps.prepare(MINE))
    assert isinstance(last, SetUp)
    return last


def damage(path: Path, at: int) -> bytes:
    """Change some bytes of a file; return the old content."""
    true = path.read_bytes()
    at %= len(true)
    path.write_bytes(true[:at] + b"\xff" * 9 + true[at + 9 :])
    return true


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("at", [0, 60, -50], ids=["magic", "header", "weights"])
def test_a_file_of_another_program_is_verified(
    pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch, links: bool, at: int
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    path = Path(hf_hub_download(TARGET, FILE))
    asked = len(pair.asked(FILE, origin="cdn"))
    assert not registry().read().downloaded & set(brought().target.parts)
    assert len(pair.asked(FILE, origin="cdn")) == asked, "it is right"

    true = damage(path, at)
    now = brought().target
    assert now.path.read_bytes() == true
    assert now.path in registry().read().downloaded, "this program has downloaded it now"


def test_setup_repairs_a_pair(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial"]) == 0
    path = registry().read().pairs["mine"].target.path
    true = damage(path, 8)
    capsys.readouterr()
    assert main(["run", "--pair", "mine", "--max-tokens", "2", "hi"]) == 1
    assert "tandem setup does that for a pair" in " ".join(capsys.readouterr().err.split())

    assert main(["setup", "mine", "--yes"]) == 0
    assert path.read_bytes() == true
    assert f"{FILE} was damaged here; it is downloaded again." in capsys.readouterr().err


def test_a_good_file_survives_another_listed_checksum(pair: LoopbackHub) -> None:
    path = Path(hf_hub_download(TARGET, FILE))

    def lie(told: dict[str, Any]) -> dict[str, Any]:
        for sibling in told["siblings"]:
            sibling["lfs"] = {**sibling["lfs"], "sha256": "0" * 64}
        return told

    pair.faults.add(EditJson(lie), "/api/models/*", times=None)

    assert brought().target.path == path
    assert cache.sha256_of(path) is not None


@pytest.mark.parametrize("at", [8, -50], ids=["header", "weights"])
def test_a_damaged_file_is_not_used_offline(pair: LoopbackHub, at: int) -> None:
    damage(Path(hf_hub_download(TARGET, FILE)), at)
    pair.close()

    with pytest.raises(UnreachableError):
        Setup(registry(), no_demo).prepare(MINE)
