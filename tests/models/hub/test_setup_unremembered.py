"""A pair is brought and answers where the list of pairs cannot be written: a home that is full, or may only be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import main
from app.cli.known_pairs import registry
from app.core.errors import CatalogError, Interrupted, PairError
from app.core.shell import command
from app.hardware.offers import Offer
from app.llama.fitting.does_not_fit import DoesNotFitError
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
    assert f"Until then, chat with it: tandem --target {home / 'mine' / 't.gguf'}" in said


@pytest.mark.parametrize(
    ("failure", "code"), [(PairError("The pair loads but says nothing.", "Choose another."), 1), (Interrupted(), 130)]
)
def test_a_trial_that_fails_hides_not_that_its_pair_cannot_be_remembered(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, failure: Exception, code: int
) -> None:
    def fail(*_: object) -> str:
        raise failure

    monkeypatch.setattr(Registry, "add", _refuse)
    monkeypatch.setattr("app.cli.setup.trial", fail)
    tiny(home / "mine", "t.gguf", general__name="Own")
    assert main(["setup", "--target", str(home / "mine" / "t.gguf")]) == code
    said = " ".join(capsys.readouterr().err.split())
    until_then = f"Until then, chat with it: {command(['tandem', '--target', str(home / 'mine' / 't.gguf')])}"
    assert f"Read-only file system. Check the disk. {until_then}" in said
    assert str(failure) in said
    assert "is in the list" not in said


def test_a_pair_that_does_not_fit_and_cannot_be_remembered_is_opened_by_its_files(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object) -> str:
        offers = (
            Offer("no draft", 1, "slower", ("--no-draft",), suffices=True),
            Offer("smaller is a smaller pair", 1, "other answers", ("--pair", "smaller"), suffices=True),
            Offer("less context", 1, "forgets", ("--ctx", "512"), suffices=False),
        )
        raise DoesNotFitError("t does not fit.", "", offers)

    monkeypatch.setattr(Registry, "add", _refuse)
    monkeypatch.setattr("app.cli.setup.trial", too_large)
    tiny(home / "mine", "t.gguf", general__name="Own")
    assert main(["setup", "--target", str(home / "mine" / "t.gguf"), "--name", "mine"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    opened = command(["tandem", "--target", str(home / "mine" / "t.gguf")])
    assert f"{opened} --no-draft: no draft (slower) tandem setup smaller: smaller is a smaller pair" in said
    assert f"{opened} --fit off: as it is" in said
    assert said.endswith(
        "It is not in the list of pairs. pairs.toml cannot be written: Read-only file system. Check the disk."
    )
    assert "--ctx" not in said
    assert "mine is set up" not in said
    assert "--pair mine" not in said


@pytest.mark.parametrize("broken", ["claim", "read"])
def test_files_come_whole_where_nothing_can_be_remembered(
    pair: LoopbackHub, home: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    steps = _steps(home)
    prepared = steps.prepare(_pair())

    for step in {broken, "claim", "add"}:
        monkeypatch.setattr(Registry, step, _refuse)
    *_, last = steps.bring(prepared)

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
    *_, last = steps.bring(steps.prepare(_pair()))

    assert isinstance(last, Ready)
    assert all(model.ours for model in registry().read().pairs["mine"].models)


def _refuse(*_: object, **__: object) -> None:
    raise CatalogError("pairs.toml cannot be written: Read-only file system.", "Check the disk.")


def _pair() -> Pair:
    return Pair("mine", "Mine", parse_source(f"{TARGET}:q4_k_m"), parse_source(DRAFT))


def _steps(home: Path) -> Setup:
    return Setup(Registry(home / "data" / "pairs.toml"), no_demo)
