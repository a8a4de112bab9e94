"""`tandem pairs`: list and show pairs; Ctrl+C ends every action."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from app.cli import main
from app.cli.known_pairs import registry
from app.conversations.titles import width
from app.core.errors import INTERRUPTED, CatalogError
from app.llama.fitting.place import Place
from app.llama.installed import computes_on_processors_only
from app.models.catalog import Pair
from app.models.compatibility import check_pair
from app.models.recommend import Room
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import LocalModel

LONG = "qwen2.5-coder-32b-instruct-with-the-half-billion-one"


@pytest.mark.parametrize("name", ["mine", LONG, "中文模型", "中" * 12, "中" * 13])
def test_columns_stay_where_they_are_and_a_name_is_whole(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    monkeypatch.setattr("app.cli.pairs.place", lambda: Place(Room(16_000_000_000), "a machine"))
    file = tmp_path / "t.gguf"
    file.write_bytes(b"x")
    registry().add(SetUp(Pair(name, "Title of mine", LocalModel(file), None), ModelOnDisk(file, 1)), default=True)

    assert main(["pairs", "list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"* {name}")
    mine = next(line for line in lines if line.endswith("Title of mine"))
    other = next(line for line in lines if "Qwen3 4B with 0.6B" in line)
    assert width(mine.removesuffix("Title of mine")) == width(other[: other.index("Qwen3 4B")])


def test_a_narrow_terminal_gets_titles_without_their_last_clause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("app.cli.pairs.place", lambda: Place(Room(16_000_000_000), "a machine"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    assert main(["pairs", "list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert any(line.endswith(" Qwen3 4B with 0.6B") for line in lines), "and not that it thinks first"
    assert any(line.endswith(", answers at once") for line in lines), "where there is room for it"


@pytest.mark.parametrize("busy", [True, False])
def test_speeds_that_were_measured_beside_other_programs_are_not_given_without_a_word(
    busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    room = Room(16_000_000_000, bytes_per_s=5e9, at_least=busy)
    monkeypatch.setattr("app.cli.pairs.place", lambda: Place(room, "a machine"))

    assert main(["pairs", "list"]) == 0
    assert ("Other programs used the processor" in capsys.readouterr().out) == busy


@pytest.mark.parametrize("command", ["list", "show demo"])
def test_it_says_what_it_is_at_before_it_looks_at_anything(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def slowly(_: object) -> NoReturn:
        assert said
        raise CatalogError("a disk that is far away")

    monkeypatch.setattr("app.cli.output.StatusLine.show", lambda _, text: said.append(text))
    monkeypatch.setattr("app.models.registry.Registry.read", slowly)
    assert main(["pairs", *command.split()]) == 1


@pytest.mark.parametrize("command", ["list", "show demo"])
def test_it_loads_neither_llama_cpp_nor_the_hubs_client(command: str) -> None:
    assert loaded_beside(command) == "[]\n"


def test_what_was_measured_of_pairs_is_found_without_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not computes_on_processors_only():
        pytest.skip("where layers go is llama.cpp's to tell")
    for folder in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    target, draft = tmp_path / "t.gguf", tmp_path / "d.gguf"
    for file in (target, draft):
        file.write_bytes(b"x")
    pair = Pair("mine", "Mine", LocalModel(target), LocalModel(draft))
    registry().add(SetUp(pair, ModelOnDisk(target, 1), ModelOnDisk(draft, 1)), default=True)

    assert loaded_beside("list") == "[]\n"


def loaded_beside(command: str) -> str:
    code = (
        f"import sys; from app.cli import main; main(['pairs', *{command!r}.split()]); "
        "print(sorted({'llama_cpp', 'numpy', 'huggingface_hub', 'httpx2'} & sys.modules.keys()), file=sys.stderr)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr


def interrupted(*_: Any) -> NoReturn:
    signal.raise_signal(signal.SIGINT)
    pytest.fail("it went on")


@pytest.mark.parametrize("command", [["list"], ["show", "demo"], ["default", "demo"]])
def test_what_does_not_look_whether_to_stop_is_stopped(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setattr("app.models.registry.Registry.read", interrupted)
    assert main(["pairs", *command]) == INTERRUPTED


def test_a_check_that_had_nothing_left_to_stop_was_interrupted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return check_pair(*args)

    monkeypatch.setattr("app.cli.pairs_check.check_pair", late)
    assert main(["pairs", "check", "demo"]) == INTERRUPTED
