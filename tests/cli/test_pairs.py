"""`tandem pairs`: list, show, check and remove pairs."""

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from app.cli import main
from app.core.columns import width
from app.core.errors import CacheError, HubError
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import DemoModel, LocalModel
from app.worker.known_pairs import registry
from tests.capacities import in_ram
from tests.llama.tiny_heads import write_chain, write_dflash, write_eagle3, write_mtp, write_target
from tests.tandem import Tandem

pytestmark = pytest.mark.usefixtures("folders")
Models = tuple[ModelOnDisk, ModelOnDisk]


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """List pairs for a machine with 16 GB of RAM."""
    monkeypatch.setattr("app.compare.measured_pairs.machine_capacity", lambda _: ("a machine", in_ram(16_000_000_000)))


@pytest.mark.usefixtures("small_machine")
@pytest.mark.parametrize("name", ["mine", "中文模型", "中" * 12, "a-long-name-" * 5])
def test_columns_align_with_wide_names(name: str, folders: Path, tandem: Tandem) -> None:
    model = written(folders / "t.gguf")
    registry().add(SetUp(Pair(name, "Title of mine", LocalModel(model.path), None), model), default=True)

    lines = tandem("pairs", "list").out.splitlines()
    assert lines[0].startswith(f"*+ {name}"), "the default has the mark of the pairs on this machine too"
    mine = next(line for line in lines if line.endswith("Title of mine"))
    other = next(line for line in lines if "Muse Glimmer 30B" in line)
    assert width(mine.removesuffix("Title of mine")) == width(other[: other.index("Muse Glimmer")])


@pytest.mark.usefixtures("small_machine")
def test_a_narrow_terminal_gets_titles_without_their_last_clause(
    monkeypatch: pytest.MonkeyPatch, tandem: Tandem
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    lines = tandem("pairs", "list").out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert any(line.endswith(" Gemma 4 26B-A4B QAT with its MTP layers") for line in lines), "and not that it is fast"
    assert any(line.endswith(", for 4 GB") for line in lines), "where there is room for it"


def test_a_check_names_the_kind_of_draft(tmp_path: Path, tandem: Tandem) -> None:
    mtp, target = write_mtp(tmp_path / "mtp.gguf"), write_target(tmp_path / "target.gguf")
    head, block = write_eagle3(tmp_path / "head.gguf"), write_dflash(tmp_path / "block.gguf")
    for paths, code, line in (
        ([mtp], 0, "draft   MTP layer in the same file"),
        ([write_chain(tmp_path / "chain.gguf")], 0, "draft   3 MTP layers in the same file"),
        ([target, head], 0, "Compatible: the draft is an EAGLE-3 head for this target."),
        ([target, block], 0, "device  the target's: these draft layers share tensors with it"),
        ([mtp, head], 1, "problem head cannot be used as a draft: it was made for another target; it reads layer 3"),
    ):
        assert line in tandem("pairs", "check", *map(str, paths), code=code).out


def test_a_draft_that_is_cut_short_is_not_called_compatible(tmp_path: Path, tandem: Tandem) -> None:
    target, draft = write_target(tmp_path / "target.gguf"), write_eagle3(tmp_path / "eagle.gguf")
    draft.write_bytes(draft.read_bytes()[: draft.stat().st_size // 2])

    assert (
        "eagle.gguf is cut short: it ends before its last tensor."
        in tandem("pairs", "check", str(target), str(draft), code=1).err
    )


def test_find_names_the_mtp_layer_without_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tandem: Tandem
) -> None:
    def offline(*_: object) -> NoReturn:
        raise HubError("huggingface.co cannot be found.")

    monkeypatch.setattr("app.cli.pairs_check.find_drafts", offline)
    mtp = write_mtp(tmp_path / "mtp.gguf")
    assert "MTP layer in the same file: no other draft is needed" in tandem("pairs", "find", str(mtp)).out
    tandem("pairs", "find", str(write_target(tmp_path / "target.gguf")), code=1)
    compared: list[tuple[str, Sequence[str]]] = []

    def compare(given: Mapping[str, str], drafts: Sequence[str], **_: object) -> int:
        compared.append((given["target"], drafts))
        return 0

    monkeypatch.setattr("app.cli.draft_comparison.compare_drafts", compare)
    tandem("pairs", "find", str(mtp), "--measure")
    assert compared == [(str(mtp), [])]


@pytest.mark.skipif(sys.platform == "win32", reason="reads commands as the shells of other systems do")
def test_a_missing_model_is_reported_with_the_command_that_downloads_it(tandem: Tandem) -> None:
    for words, code, command in (
        (["run", "--target", "owner/repo:a model.gguf", "hi"], 1, "tandem setup --target 'owner/repo:a model.gguf'"),
        (["setup", "owner/repo:a model.gguf"], 2, "tandem setup --target 'owner/repo:a model.gguf'"),
        (["run", "--pair", "qwen3.8-27b", "hi"], 1, "Download it: tandem setup qwen3.8-27b"),
    ):
        assert tandem(*words, code=code).err.endswith(f"{command}\n")


def written(file: Path) -> ModelOnDisk:
    file.write_bytes(b"x" * 10)
    return ModelOnDisk(file, 10)


@pytest.fixture
def made(folders: Path) -> Models:
    """The target and the draft of the demo, which is set up."""
    target, draft = written(folders / "t.gguf"), written(folders / "d.gguf")
    registry().add(SetUp(Pair("demo", "Demo", DemoModel("target"), DemoModel("draft")), target, draft), default=True)
    return target, draft


def test_the_draft_that_was_made_here_is_deleted_and_the_package_keeps_its_target(made: Models, tandem: Tandem) -> None:
    target, draft = made
    said = tandem("pairs", "remove", "demo", "--yes").err
    assert f"{draft.path}  (Tandem created it, and creates it again when needed)" in said
    assert f"{target.path}  (it belongs to the demo's Python package)" in said
    assert "your own file" not in said
    assert (target.path.exists(), draft.path.exists()) == (True, False)


@pytest.mark.parametrize(("reply", "left"), [("y\n", False), ("\n", True), ("", True)])
def test_files_go_only_after_a_yes_to_a_question_that_is_no_part_of_the_output(
    made: Models, monkeypatch: pytest.MonkeyPatch, tandem: Tandem, reply: str, left: bool
) -> None:
    _, draft = made
    monkeypatch.setattr("sys.stdin", typed := io.StringIO(reply))
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    said = tandem("pairs", "remove", "demo")
    assert (said.out, "Delete these files? [y/N] " in said.err) == ("", True)
    assert draft.path.exists() == left


def test_a_pair_whose_file_is_in_use_is_not_forgotten(made: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    _, draft = made

    def refuse(path: Path) -> int:
        raise CacheError(f"{path} is in use.")

    with monkeypatch.context() as patch:
        patch.setattr("app.models.hub.cache.delete_file", refuse)
        assert main(["pairs", "remove", "demo", "--yes"]) == 1
    assert main(["pairs", "remove", "demo", "--yes"]) == 0

    assert not draft.path.exists()


def test_files_of_the_users_own_stay_even_with_all_files(folders: Path, tandem: Tandem) -> None:
    target = written(folders / "t.gguf")
    registry().add(SetUp(Pair("mine", "Mine", LocalModel(target.path), None), target), default=True)

    assert f"{target.path}  (it is your own file)" in tandem("pairs", "remove", "mine", "--yes", "--all-files").err
    assert target.path.exists()
