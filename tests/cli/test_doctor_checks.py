"""Check `tandem doctor` for a pair: placement, problems, and the files of Tandem."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli import doctor_checks
from app.cli.doctor_checks import PairReport, check_pair, own_files
from app.core.errors import ModelLoadError
from app.core.paths import config_dir, conversations_file, pairs_file
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.hardware.checks import Check, Facts, worst
from app.hardware.devices import Device
from app.hardware.rpc import RpcServer
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.source import LocalModel
from app.settings.placement import CPU
from tests.cli.doctor_facts import FACTS, line
from tests.llama.tiny_heads import write_dflash
from tests.llama.tiny_model import write_model

GB = 1_000_000_000
ROOMS = (Device("CUDA0", "gpu", "CUDA", 24 * GB), Device(CPU, "cpu", "CPU", 32 * GB))


pytestmark = pytest.mark.usefixtures("folders")


def look(facts: Facts = FACTS, **flags: str | tuple[str, ...]) -> PairReport:
    return check_pair(flags, facts)


def written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.native
def test_truncated_draft_is_a_warning_and_target_is_checked(folders: Path) -> None:
    target, draft = write_model(folders / "t.gguf"), write_model(folders / "d.gguf")
    draft.write_bytes(draft.read_bytes()[:300])

    found = look(target=str(target), draft=str(draft))

    assert [model["role"] for model in found.facts["models"]] == ["target"]
    note = line(found.sections["the pair"], "note")
    assert (note.state, note.text.startswith(f"Running without this draft. {draft} is cut short")) == ("warning", True)


@pytest.mark.native
def test_draft_layers_are_checked_against_the_target(folders: Path) -> None:
    target, block = write_model(folders / "t.gguf"), write_dflash(folders / "block.gguf")

    note = line(look(target=str(target), draft=str(block)).sections["the pair"], "note")
    assert note.text.startswith("Running without this draft. block cannot be used as a draft: it was made for another")

    found = look(target=str(block))
    assert found.facts["trouble"] == "block is a DFlash block, which drafts for a target."
    assert len(found.sections) == 1


@pytest.mark.native
def test_recommended_sampling_is_read_from_target_file(folders: Path) -> None:
    found = look(target=str(write_model(folders / "m.gguf", general__sampling__temp=0.6)))

    assert line(found.sections["the pair"], "sampling") == Check(
        "ok", "sampling", "temp 0.6, recommended by the model file"
    )
    assert (found.facts["recommended"], found.facts["offers"]) == ({"sampling.temp": 0.6}, ())


# Problems of the pair


@pytest.mark.native
def test_default_without_pairs_is_the_demo(demo_target: Path) -> None:
    found = look()

    assert (found.facts["name"], found.facts["trouble"]) == ("demo", None)
    assert "no pair is set up yet: tandem setup" in found.facts["why"]
    assert found.facts["models"][0]["device"] == CPU
    assert line(found.sections["speed and causes"], "measured").hint == ("  ⟨tune⟩",)
    assert {cause.label for cause in found.causes} <= {"load", "clock", "quota"}


@pytest.mark.native
def test_stored_measurements_are_read(demo_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def load(file: Path) -> PairStatistics:
        asked.append(file)
        return PairStatistics(CostModel(CostProfile({1: 1e6, 4: 2e6})))

    monkeypatch.setattr("app.llama.stored_measurements.load_statistics", load)
    found = look(target=str(demo_target))

    assert line(found.sections["speed and causes"], "measured").text.startswith("1000 tok/s without drafts")
    assert [file.suffix for file in asked] == [".json"]


@pytest.mark.parametrize(
    ("card", "fit", "is_said"), [(True, "off", True), (True, "auto", False), (False, "off", False)]
)
def test_fit_off_is_noted_with_a_gpu(
    folders: Path, monkeypatch: pytest.MonkeyPatch, card: bool, fit: str, is_said: bool
) -> None:
    target = write_model(folders / "t.gguf")
    monkeypatch.setattr(doctor_checks, "memory_rooms", lambda _: ROOMS if card else ROOMS[1:])
    section = look(target=str(target), fit=fit).sections["the pair"]

    notes = [one.text for one in section if one.label == "note"]
    assert any(note.startswith("fit is off: llama.cpp places the layers by itself") for note in notes) == is_said


@pytest.mark.parametrize(
    ("flags", "state", "told"),
    [
        ({"target": "none.gguf"}, "problem", "none.gguf"),
        ({"device": ("CUDA7",)}, "warning", "no device CUDA7"),
        ({"rpc": ("not a server URL",)}, "warning", "must be a host and a port"),
    ],
)
def test_wrong_flags_are_reported(demo_target: Path, flags: dict[str, Any], state: str, told: str) -> None:
    trouble = line(check_pair(flags, FACTS).sections["the pair"], "trouble")

    assert trouble.state == state
    assert told in trouble.text


def test_pairs_without_a_default_are_reported(folders: Path) -> None:
    alone = Pair("mine", "Mine", LocalModel(folders / "t.gguf"), None)
    Registry(pairs_file()).add(SetUp(alone, ModelOnDisk(folders / "t.gguf", 1)), default=True)
    Registry(pairs_file()).add(SetUp(replace(alone, name="other"), ModelOnDisk(folders / "t.gguf", 1)))
    Registry(pairs_file()).remove("mine")

    found = look(replace(FACTS, failure=ModelLoadError("No library."))).facts
    assert (found["name"], found["why"].partition(";")[0]) == (
        "demo",
        "no pair is the default: tandem pairs default NAME",
    )


def test_missing_demo_package_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.llama.demo.PACKAGE", "no_such_package")

    (section,) = look().sections.values()

    assert line(section, "trouble").state == "warning"
    assert "pip install" in line(section, "trouble").hint[0]


def set_up(folder: Path) -> Path:
    file = written(folder / "models" / "big.gguf", "x")
    pair = Pair("mine", "Mine", LocalModel(file), None)
    Registry(pairs_file()).add(SetUp(pair, ModelOnDisk(file, 1)), default=True)
    return file


def test_missing_and_invalid_files_of_a_pair_are_reported(folders: Path) -> None:
    file = set_up(folders)
    assert "cut short" in line(look().sections["the pair"], "trouble").text

    file.unlink()
    found = look()
    trouble = line(found.sections["the pair"], "trouble")
    assert (found.facts["name"], trouble.state) == ("mine", "problem")
    assert "⟨pairs.remove=mine⟩" in trouble.hint[0]
    gone = line(own_files(), "pairs.toml")
    assert (gone.state, gone.hint) == ("warning", trouble.hint)


def test_broken_library_is_reported_once() -> None:
    found = look(replace(FACTS, build=None, devices=(), failure=ModelLoadError("Broken.")))

    assert "see llama.cpp above" in found.facts["why"]
    assert worst(found.sections["the pair"]) == "ok"


@pytest.mark.native
def test_rpc_devices_hold_the_target_and_draft_stays_local(
    demo_target: Path, demo_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = RpcServer("10.0.0.1:1", (24 * GB,))
    monkeypatch.setattr("app.worker.loading.query_servers", lambda addresses: (server,) if addresses else ())
    found = check_pair({"rpc": ("far:1",)}, FACTS).facts

    assert [model["device"] for model in found["models"]] == ["RPC0", CPU]
    assert [need["device"] for need in found["needs"]] == ["RPC0", CPU]


# Tandem's own files


def states(section: list[Check]) -> dict[str, str]:
    return {line.label: line.state for line in section}


@pytest.fixture
def own_cache(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a cache without states of other tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folders / "cache"))


@pytest.mark.usefixtures("own_cache")
def test_missing_files_are_ok() -> None:
    assert states(own_files()) == {"models.toml": "ok", "pairs.toml": "ok", "chats": "ok"}
    assert not pairs_file().exists()


@pytest.mark.usefixtures("own_cache")
def test_broken_files_have_a_fix() -> None:
    written(config_dir() / "models.toml", "[pairs.x]\ntargett = 1\n")
    written(pairs_file(), "not toml")
    written(conversations_file(), "no database at all" * 100)

    section = own_files()

    assert set(states(section).values()) == {"problem"}
    assert all(found.hint for found in section)
    assert "targett" in line(section, "models.toml").text
    assert "Move it away" in line(section, "pairs.toml").hint[0]
    assert "damaged" in line(section, "chats").text
    # The pair also reports it instead of a traceback.
    assert look().facts["trouble"] is not None


def test_readable_files_are_counted(folders: Path, demo_target: Path) -> None:
    set_up(folders)
    written(config_dir() / "models.toml", f'[pairs.own]\ntarget = "{demo_target}"\n')

    assert "1 pair of your own" in line(own_files(), "models.toml").text
    assert line(own_files(), "pairs.toml") == Check("ok", "pairs.toml", "set up: mine")
