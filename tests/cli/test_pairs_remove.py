"""Check what `tandem pairs remove` reports and deletes."""

import io
from pathlib import Path

import pytest

from app.cli import main
from app.core.errors import CacheError
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import DemoModel, LocalModel
from app.worker.known_pairs import registry
from tests.tandem import Tandem

pytestmark = pytest.mark.usefixtures("folders")


def written(file: Path) -> ModelOnDisk:
    file.write_bytes(b"x" * 10)
    return ModelOnDisk(file, 10)


def test_the_draft_that_was_made_here_is_deleted_and_the_package_keeps_its_target(
    folders: Path, tandem: Tandem
) -> None:
    target, draft = written(folders / "t.gguf"), written(folders / "d.gguf")
    registry().add(SetUp(Pair("demo", "Demo", DemoModel("target"), DemoModel("draft")), target, draft), default=True)

    said = tandem("pairs", "remove", "demo", "--yes").err
    assert f"{draft.path}  (Tandem made it, and makes it again when needed)" in said
    assert f"{target.path}  (it belongs to the demo's Python package)" in said
    assert "your own file" not in said
    assert (target.path.exists(), draft.path.exists()) == (True, False)


@pytest.mark.parametrize(("reply", "left"), [("y\n", False), ("\n", True), ("", True)])
def test_files_go_only_after_a_yes_to_a_question_that_is_no_part_of_the_output(
    folders: Path, monkeypatch: pytest.MonkeyPatch, tandem: Tandem, reply: str, left: bool
) -> None:
    target, draft = written(folders / "t.gguf"), written(folders / "d.gguf")
    registry().add(SetUp(Pair("demo", "Demo", DemoModel("target"), DemoModel("draft")), target, draft), default=True)
    monkeypatch.setattr("sys.stdin", typed := io.StringIO(reply))
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    said = tandem("pairs", "remove", "demo")
    assert (said.out, "Delete these files? [y/N] " in said.err) == ("", True)
    assert draft.path.exists() == left


def test_a_pair_whose_file_is_in_use_is_not_forgotten(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = written(folders / "t.gguf"), written(folders / "d.gguf")
    registry().add(SetUp(Pair("demo", "Demo", DemoModel("target"), DemoModel("draft")), target, draft), default=True)

    def refuse(path: Path) -> int:
        raise CacheError(f"{path} is in use.")

    with monkeypatch.context() as patch:
        patch.setattr("app.cli.pairs_remove.delete_file", refuse)
        assert main(["pairs", "remove", "demo", "--yes"]) == 1
    assert main(["pairs", "remove", "demo", "--yes"]) == 0

    assert not draft.path.exists()


def test_a_draft_that_was_made_here_stays_while_another_pair_uses_it(folders: Path, tandem: Tandem) -> None:
    target, draft = written(folders / "t.gguf"), written(folders / "d.gguf")
    registry().add(SetUp(Pair("demo", "Demo", DemoModel("target"), DemoModel("draft")), target, draft), default=True)
    mine = Pair("mine", "Mine", LocalModel(target.path), LocalModel(draft.path))
    registry().add(SetUp(mine, target, draft))

    assert f"{draft.path}  (another pair uses it)" in tandem("pairs", "remove", "demo", "--yes").err
    assert draft.path.exists()


def test_files_of_the_users_own_stay_even_with_all_files(folders: Path, tandem: Tandem) -> None:
    target = written(folders / "t.gguf")
    registry().add(SetUp(Pair("mine", "Mine", LocalModel(target.path), None), target), default=True)

    assert f"{target.path}  (it is your own file)" in tandem("pairs", "remove", "mine", "--yes", "--all-files").err
    assert target.path.exists()
