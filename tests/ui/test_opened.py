"""Which pair of the list the chat has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import DemoModel, HubModel, LocalModel
from app.ui.models.opened import Opened

DEMO = Pair("demo", "A demo", DemoModel("target"), DemoModel("draft"))
MINE = Pair("mine", "Mine", HubModel("a/big", quant="Q8_0"), HubModel("a/small"))
KNOWN = {"demo": DEMO, "mine": MINE}


class Chat:
    """What the chat has."""

    def __init__(self) -> None:
        self.pair: Pair | None = None
        self.files: SetUp | None = None
        self.is_unloaded = False
        self.opened = Opened(
            lambda: (self.pair, self.files) if self.pair is not None else None, lambda: self.is_unloaded
        )

    def join(self, known: dict[str, Pair] | None = None) -> list[str]:
        self.opened.look()
        return list(self.opened.join(KNOWN if known is None else known))


def by_files(folder: Path) -> Pair:
    for name in ("Big-Q4_0.gguf", "small.gguf"):
        (folder / name).write_bytes(b"x" * 100)
    return Pair("files", "Big", LocalModel(folder / "Big-Q4_0.gguf"), LocalModel(folder / "small.gguf"))


def test_a_known_pair_is_found_by_its_name_and_another_one_looked_for_only_then() -> None:
    chat = Chat()
    assert (chat.join(), chat.opened.name) == (["demo", "mine"], "")
    chat.pair = DEMO
    assert chat.opened.look()
    assert not chat.opened.look()
    assert (chat.join(), chat.opened.name) == (["demo", "mine"], "demo")


def test_a_link_to_itself_and_a_name_that_no_file_can_have_are_other_files(tmp_path: Path) -> None:
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop.name)
    odd = [Pair(str(n), "", LocalModel(path), None) for n, path in enumerate([loop, tmp_path / "\0", Path("x" * 5000)])]
    chat = Chat()
    chat.pair = by_files(tmp_path)
    assert chat.join({pair.name: pair for pair in odd}) == ["big-q4-0", "0", "1", "2"]
    chat.pair = odd[0]
    assert (chat.join({pair.name: pair for pair in odd}), chat.opened.name) == (["big-q4-0", "0", "1", "2"], "0")


def test_a_pair_that_was_opened_by_its_files_is_listed_and_stays_when_another_is_opened(tmp_path: Path) -> None:
    chat = Chat()
    chat.pair = by_files(tmp_path)
    assert chat.join() == ["big-q4-0", "demo", "mine"]
    assert chat.opened.name == "big-q4-0"
    files = chat.opened.files("big-q4-0")
    assert files is not None
    assert [(model.path.name, model.size) for model in files.models] == [("Big-Q4_0.gguf", 100), ("small.gguf", 100)]

    chat.pair = DEMO
    assert (chat.join(), chat.opened.name) == (["big-q4-0", "demo", "mine"], "demo")
    chat.pair = files.pair
    assert (chat.join(), chat.opened.name) == (["big-q4-0", "demo", "mine"], "big-q4-0")


def test_a_pair_that_could_not_be_loaded_is_listed_and_not_open(tmp_path: Path) -> None:
    chat = Chat()
    chat.pair, chat.is_unloaded = by_files(tmp_path), True
    assert (chat.join(), chat.opened.name) == (["big-q4-0", "demo", "mine"], "")
    assert chat.opened.files("big-q4-0") is not None
    assert not chat.opened.look()

    chat.is_unloaded = False
    assert chat.opened.look()
    assert (chat.join(), chat.opened.name) == (["big-q4-0", "demo", "mine"], "big-q4-0")


def test_files_that_stand_in_the_list_by_a_name_or_come_into_it_stand_there_once(tmp_path: Path) -> None:
    chat = Chat()
    chat.pair = by_files(tmp_path)
    chat.join()
    target = LocalModel(tmp_path / "elsewhere" / ".." / "Big-Q4_0.gguf")
    (tmp_path / "elsewhere").mkdir()
    written = replace(chat.pair, name="own", target=target)

    assert chat.join({**KNOWN, "own": written}) == ["demo", "mine", "own"]
    assert chat.opened.name == "own"
    twice = {"own": written, "twin": replace(written, name="twin")}
    chat.pair = twice["twin"]
    assert (chat.join(twice), chat.opened.name) == (["own", "twin"], "twin"), "of two names, the one it was opened by"


def test_a_name_that_is_taken_is_not_taken_again(tmp_path: Path) -> None:
    chat = Chat()
    chat.pair = by_files(tmp_path)
    taken = {"big-q4-0": replace(MINE, name="big-q4-0")}

    assert chat.join(taken) == ["big-q4-0-2", "big-q4-0"]


def test_a_pair_that_another_program_has_forgotten_stays_with_its_files(tmp_path: Path) -> None:
    chat = Chat()
    file = tmp_path / "big.gguf"
    file.write_bytes(b"x")
    chat.pair, chat.files = MINE, SetUp(MINE, ModelOnDisk(file, 1))

    assert chat.join({"demo": DEMO}) == ["mine", "demo"]
    assert chat.opened.files("mine") == chat.files


def test_what_has_no_files_here_is_listed_without_them() -> None:
    chat = Chat()
    chat.pair = DEMO

    assert (chat.join({}), chat.opened.name, chat.opened.files("demo-target")) == (["demo-target"], "demo-target", None)
