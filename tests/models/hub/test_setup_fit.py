"""`tandem setup` held against the memory and the disk there are, against the loopback hub."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main
from app.cli.known_pairs import registry
from app.hardware.fit import main_memory_room
from app.llama.fitting import fit_pair
from app.models.hub import cache
from app.models.recommend import Room
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH

pytestmark = pytest.mark.usefixtures("home")
Usage = namedtuple("Usage", "total used free")
Free = Callable[[int], None]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Free:
    """A function that gives this machine so many bytes for models."""

    def give(n_bytes: int) -> None:
        room = Room(n_bytes, "a card")
        monkeypatch.setattr("app.cli.setup.machine_room", lambda **_: ("a machine", room))
        monkeypatch.setattr(fit_pair, "memory_rooms", lambda: (main_memory_room(n_bytes),))

    return give


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Free:
    """A function that leaves so many bytes of the disk free."""

    def leave(n_bytes: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, n_bytes))

    return leave


def test_setup_warns_before_downloading_a_pair_that_does_not_fit(
    pair: LoopbackHub, room: Free, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.output.ProgressLine.can_ask", True)
    monkeypatch.setattr("app.cli.output.ProgressLine.ask", lambda *_: "n")
    room(1000)
    assert main(["setup", *BOTH]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "note It does not fit here: it needs" in said
    assert "To see pairs that fit: tandem setup" in said
    assert said.endswith("Nothing was set up.")
    assert not list(cache.folder().rglob("*.gguf"))

    room(10**9)
    assert main(["setup", *BOTH]) == 0
    assert "does not fit" not in capsys.readouterr().err


def test_setup_weighs_a_pair_with_the_context_of_the_settings(
    hub: LoopbackHub, room: Free, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    monkeypatch.setattr("app.cli.options.settings_file", lambda: settings)
    monkeypatch.setattr("app.cli.pairs.machine_room", lambda: ("a machine", Room(6 * 10**9, "a card")))
    room(6 * 10**9)

    def found() -> tuple[str, str]:
        assert main(["setup"]) == 2
        proposed = " ".join(capsys.readouterr().err.split())
        assert main(["pairs", "show", "qwen3.5-4b"]) == 0
        return proposed, capsys.readouterr().out

    proposed, shown = found()
    assert " 1 qwen3.5-4b " in proposed
    assert "fits: " in shown
    settings.write_text("[model]\nctx = 32768\n")
    proposed, shown = found()
    assert " 1 qwen2.5-3b " in proposed
    assert "too big: needs about 10.9 GB" in shown


def test_a_pair_that_does_not_fit_stays_set_up(
    pair: LoopbackHub, room: Free, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *BOTH, "--name", "first", "--yes", "--no-trial"]) == 0
    # Enough for the target alone.
    room(1_100_000)
    capsys.readouterr()
    assert main(["setup", *BOTH, "--name", "mine", "--yes"]) == 1

    said = capsys.readouterr().err
    assert "big with small does not fit: it needs" in said
    assert "--no-draft: no draft" in said
    assert "mine is set up; to open it: tandem --pair mine; to remove it: tandem pairs remove mine" in said
    known = registry().read()
    assert known.pairs["mine"].is_here
    assert known.default == "first"
    # It is not said to be missing, whatever it is opened with.
    room(10**9)
    assert main(["run", "--pair", "mine", "--no-draft", "--max-tokens", "2", "hi"]) == 0


def test_the_trial_loads_the_pair_as_the_chat_does(
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
