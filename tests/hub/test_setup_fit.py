"""`tandem setup` held against the memory and the disk there are, against the loopback hub."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.catalog import Pair
from app.cli import main
from app.cli.known_pairs import registry
from app.errors import CacheError
from app.fitting import fit_pair
from app.fitting.place import Place
from app.hardware.device_room import main_memory_room
from app.pairing.disk import KEEP_FREE, Underway
from app.pairing.propose import Room
from app.pairing.setup import Setup
from app.registry import Registry
from app.source import parse_source
from tests.hub.faults import Stall
from tests.hub.loopback import LoopbackHub
from tests.hub.models import TARGET, no_demo
from tests.hub.pairs_setting import WAIT_S

pytestmark = pytest.mark.usefixtures("home")
Usage = namedtuple("Usage", "total used free")
Free = Callable[[int], None]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Free:
    """A function that gives this machine so many bytes for models."""

    def give(n_bytes: int) -> None:
        here = Place(Room(n_bytes, "a card"), "a machine")
        monkeypatch.setattr("app.cli.setup.command.place", lambda **_: here)
        monkeypatch.setattr(fit_pair, "memory_rooms", lambda: (main_memory_room(n_bytes),))

    return give


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Free:
    """A function that leaves so many bytes of the disk free."""

    def leave(n_bytes: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, n_bytes))

    return leave


def test_a_pair_that_the_disk_has_no_room_for_is_not_proposed_first(
    hub: LoopbackHub, room: Free, disk: Free, capsys: pytest.CaptureFixture[str]
) -> None:
    room(16 * 10**9)
    disk(2 * 10**9)
    assert main(["setup"]) == 2, "nobody is there to be asked"

    said = " ".join(capsys.readouterr().err.split())
    assert " 1 coder-1.5b " in said
    assert "the disk has no room for larger ones." in said


def test_of_two_downloads_the_second_counts_what_the_first_has_still_to_bring(
    pair: LoopbackHub, home: Path, disk: Free
) -> None:
    def steps() -> Setup:
        return Setup(Registry(home / "data" / "pairs.toml"), no_demo, underway=underway)

    underway = Underway()
    one, other = (Pair(quant, quant, parse_source(f"{TARGET}:{quant}"), None) for quant in ("q4_k_m", "q8_0"))
    disk(10**12)
    first, second, prepared = steps(), steps(), steps().prepare(other)
    wanted = first.prepare(one)
    disk(KEEP_FREE + wanted.download_bytes + prepared.download_bytes - 1)
    stall = pair.faults.add(
        Stall(after=0), "big-Q4_K_M*", origin="cdn", when=lambda request: "range" not in request.headers
    )
    events = first.bring(wanted)
    next(events)
    assert stall.reached.wait(WAIT_S)

    with pytest.raises(CacheError, match="are free there beside what other downloads have still to bring"):
        next(second.bring(prepared))
    assert second.prepare(other).free_bytes == KEEP_FREE + prepared.download_bytes - 1
    assert second.prepare(replace(other, target=one.target)).free_bytes > KEEP_FREE + prepared.download_bytes

    stall.go.set()
    list(events)
    list(second.bring(prepared))
    assert len(registry().read().pairs) == 2
