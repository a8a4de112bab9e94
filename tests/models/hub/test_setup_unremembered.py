"""Set up a pair whose registry cannot be written: it is downloaded and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import main
from app.cli.known_pairs import registry
from app.core.errors import CatalogError
from app.models.catalog import Pair
from app.models.registry import Registry
from app.models.setup import Ready, Setup
from app.models.source import parse_source
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, no_demo, tiny

pytestmark = pytest.mark.usefixtures("home")


def test_a_pair_that_cannot_be_remembered_is_a_failure(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Registry, "add", _refuse)
    tiny(home / "mine", "t.gguf", general__name="Own")
    assert main(["setup", "--target", str(home / "mine" / "t.gguf"), "--no-trial"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "Read-only file system" in said


@pytest.mark.parametrize("broken", ["claim", "read"])
def test_files_come_whole_where_nothing_can_be_remembered(
    pair: LoopbackHub, home: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    steps = _steps(home)
    prepared = steps.prepare(_pair())

    for step in {broken, "claim", "add"}:
        monkeypatch.setattr(Registry, step, _refuse)
    *_, last = steps.install(prepared)

    assert isinstance(last, Ready)
    assert last.pair.is_here
    assert last.unkept is not None
    assert "Read-only" in last.unkept.message
    assert all(model.ours for model in last.pair.models)


def test_a_file_that_could_not_be_claimed_is_ours_once_the_pair_is_remembered(
    pair: LoopbackHub, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise CatalogError("Another program holds pairs.toml.")

    monkeypatch.setattr(Registry, "claim", busy)
    steps = _steps(home)
    *_, last = steps.install(steps.prepare(_pair()))

    assert isinstance(last, Ready)
    assert all(model.ours for model in registry().read().pairs["mine"].models)


def _refuse(*_: object, **__: object) -> None:
    raise CatalogError("pairs.toml cannot be written: Read-only file system.", "Check the disk.")


def _pair() -> Pair:
    return Pair("mine", "Mine", parse_source(f"{TARGET}:q4_k_m"), parse_source(DRAFT))


def _steps(home: Path) -> Setup:
    return Setup(Registry(home / "data" / "pairs.toml"), no_demo)
