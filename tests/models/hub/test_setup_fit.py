"""`tandem setup` held against the memory and the disk there are, against the loopback hub."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli import loading, main
from app.cli.known_pairs import registry
from app.core.errors import CacheError
from app.hardware.device_room import main_memory_room
from app.llama.fitting.place import Place
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.prepared import KEEP_FREE, Underway
from app.models.recommend import Room
from app.models.registry import Registry
from app.models.setup import Setup
from app.models.source import parse_source
from tests.models.hub.faults import Stall
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, DRAFT, TARGET, no_demo
from tests.models.hub.pairs_setting import WAIT_S

pytestmark = pytest.mark.usefixtures("home")
Usage = namedtuple("Usage", "total used free")
Free = Callable[[int], None]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Free:
    """A function that gives this machine so many bytes for models."""

    def give(n_bytes: int) -> None:
        here = Place(Room(n_bytes, "a card"), "a machine")
        monkeypatch.setattr("app.cli.setup.place", lambda **_: here)
        monkeypatch.setattr(loading, "memory_rooms", lambda: (main_memory_room(n_bytes),))

    return give


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Free:
    """A function that leaves so many bytes of the disk free."""

    def leave(n_bytes: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, n_bytes))

    return leave


def test_that_a_pair_does_not_fit_is_said_before_it_comes_and_what_does(
    pair: LoopbackHub, room: Free, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.setup._agrees", lambda status: False)
    room(1000)
    assert main(["setup", *BOTH]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "note It does not fit here: it needs" in said
    assert " demo does: tandem setup demo" in said
    assert said.endswith("Nothing was set up.")
    assert not list(cache.folder().rglob("*.gguf"))

    room(10**9)
    assert main(["setup", *BOTH]) == 0
    assert "does not fit" not in capsys.readouterr().err


def test_a_pair_that_does_not_fit_is_not_offered_in_its_own_place(
    pair: LoopbackHub, home: Path, room: Free, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.setup._agrees", lambda status: False)
    (home / "config").mkdir()
    models = f'target = {{ repo = "{TARGET}", quant = "q4_k_m", size = 10 }}\ndraft = {{ repo = "{DRAFT}", size = 10 }}'
    (home / "config" / "models.toml").write_text(f"[pairs.same]\n{models}\nmemory_gb = 1\n", encoding="utf-8")
    room(1000)
    assert main(["setup", *BOTH]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "note It does not fit here: it needs" in said
    assert "same does" not in said
    assert " demo does: tandem setup demo" in said


def test_a_pair_is_held_against_memory_with_the_context_that_the_settings_give_it(
    hub: LoopbackHub, room: Free, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    monkeypatch.setattr("app.cli.options.settings_file", lambda: settings)
    monkeypatch.setattr("app.cli.pairs.place", lambda: Place(Room(6 * 10**9, "a card"), "a machine"))
    room(6 * 10**9)

    def found() -> tuple[str, str]:
        assert main(["setup"]) == 2
        proposed = " ".join(capsys.readouterr().err.split())
        assert main(["pairs", "show", "coder-7b-q3"]) == 0
        return proposed, capsys.readouterr().out

    proposed, shown = found()
    assert " 1 coder-7b-q3 " in proposed
    assert "fits: " in shown
    settings.write_text("[model]\nctx = 32768\n")
    proposed, shown = found()
    assert " 1 qwen2.5-3b " in proposed
    assert "too big: needs 6.9 GB" in shown


def test_a_pair_that_does_not_fit_is_on_this_machine_all_the_same_and_told_how_to_open(
    pair: LoopbackHub, room: Free, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *BOTH, "--name", "first", "--yes", "--no-trial"]) == 0
    # Enough for the target alone.
    room(1_100_000)
    capsys.readouterr()
    assert main(["setup", *BOTH, "--name", "mine", "--yes"]) == 1

    said = capsys.readouterr().err
    assert "mine is set up. big with small does not fit: it takes" in said
    assert "tandem --pair mine --no-draft: no draft" in said
    assert "tandem --pair mine --fit off: as it is" in said
    assert "or load it still" not in said
    known = registry().read()
    assert known.pairs["mine"].is_here
    assert known.default == "first"
    # It is not said to be missing, whatever it is opened with.
    room(10**9)
    assert main(["run", "--pair", "mine", "--no-draft", "--max-tokens", "2", "hi"]) == 0


def test_the_trial_is_that_of_the_pair_as_the_chat_will_load_it(
    pair: LoopbackHub, room: Free, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[model]\nfit = "off"\n')
    monkeypatch.setattr("app.cli.options.settings_file", lambda: settings)
    room(1000)
    assert main(["setup", *BOTH, "--name", "mine", "--yes"]) == 0
    assert "mine is set up. Tried:" in capsys.readouterr().err


def test_a_pair_that_the_disk_has_no_room_for_is_not_proposed_first(
    hub: LoopbackHub, room: Free, disk: Free, capsys: pytest.CaptureFixture[str]
) -> None:
    room(16 * 10**9)
    disk(2 * 10**9)
    assert main(["setup"]) == 2, "no one is there to be asked"

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
    same = parse_source(f"{TARGET}:big-Q4_K_M.gguf")
    assert second.prepare(replace(other, target=one.target)).free_bytes > KEEP_FREE + prepared.download_bytes
    assert second.prepare(replace(other, target=same)).free_bytes > KEEP_FREE + prepared.download_bytes
    assert second.prepare(replace(one, draft=same)).download_bytes == wanted.download_bytes

    stall.go.set()
    list(events)
    list(second.bring(prepared))
    assert len(registry().read().pairs) == 2
