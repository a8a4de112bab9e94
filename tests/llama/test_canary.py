"""A file that llama.cpp dies of is a sentence, and one that it has survived costs nothing the next time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.core import child
from app.core.child import ask_python, python_command, python_environment
from app.core.errors import Interrupted, ModelFileError, ModelLoadError
from app.llama import canary, footprint, library
from app.llama.canary import Survivors, send_ahead
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.fitting.fit_pair import fitted
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from app.models.source import LocalModel
from tests.llama.tiny_model import write_deadly_model, write_model

pytestmark = pytest.mark.native
KEPT = "survived.json"


def params(target: Path, folder: Path | None, draft: Path | None = None) -> PairParams:
    return PairParams(target, draft, n_threads=1, n_ctx=64, memory_dir=folder and folder / "drafting")


def load(target: Path, folder: Path | None, draft: Path | None = None) -> list[str]:
    """What anyone who loads it is told."""
    pair = NativePair(params(target, folder, draft), CancelFlag(), lambda what, share: True)
    pair.close()
    return pair.notices


# What llama.cpp dies of


def test_a_deadly_draft_costs_no_answer(tmp_path: Path) -> None:
    deadly, right = write_deadly_model(tmp_path / "m.gguf"), write_model(tmp_path / "right.gguf")

    notice, *_ = load(right, tmp_path, deadly)
    assert notice.startswith(f"Running without a draft. {deadly} cannot be run: llama.cpp ")


def test_a_deadly_file_is_a_sentence(tmp_path: Path) -> None:
    deadly = write_deadly_model(tmp_path / "m.gguf")

    with pytest.raises(ModelFileError) as caught:
        load(deadly, tmp_path)

    assert caught.value.message.startswith(f"{deadly} cannot be run: llama.cpp {library.binding_version} does not ")
    assert "signal ABRT: smallthinker.cpp:" in caught.value.message
    assert "n_expert > 0" in caught.value.message
    assert str(Path.home()) not in caught.value.message.partition("cannot be run")[2]
    assert deadly not in Survivors(tmp_path / KEPT)


def test_the_program_survives_it(tmp_path: Path) -> None:
    path = write_deadly_model(tmp_path / "m.gguf")
    done = subprocess.run(
        python_command("-m", "app", "run", "--target", str(path), "hi"),
        capture_output=True,
        text=True,
        env=python_environment(),
        timeout=120,
        check=False,
    )

    assert done.returncode == 1
    assert f"tandem: {path} cannot be run: llama.cpp" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_orderly_refusal_keeps_its_own_reason(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", tokenizer__ggml__merges=None)

    with pytest.raises(ModelLoadError, match="merges"):
        load(path, tmp_path)
    assert path not in Survivors(tmp_path / KEPT)


def test_one_that_never_ends_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "_SECONDS", 0.2)
    monkeypatch.setattr(child, "python_command", lambda *_: (sys.executable, "-c", "import time; time.sleep(3600)"))

    with pytest.raises(ModelFileError, match="does not finish looking at it"):
        send_ahead(write_model(tmp_path / "m.gguf"), None)


def test_it_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "python_command", lambda *_: (sys.executable, "-c", "import time; time.sleep(3600)"))

    with pytest.raises(Interrupted):
        send_ahead(write_model(tmp_path / "m.gguf"), None, lambda: False)


@pytest.mark.parametrize("command", [("/no/such/python",), (sys.executable, "-c", "1 / 0")])
def test_a_child_that_says_nothing_about_the_file_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    path = write_model(tmp_path / "m.gguf")
    monkeypatch.setattr(child, "python_command", lambda *_: command)

    send_ahead(path, tmp_path / KEPT)
    assert path not in Survivors(tmp_path / KEPT)


# What it remembers


@pytest.mark.parametrize("kept", [True, False])
def test_a_survived_file_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    path, folder = write_model(tmp_path / "m.gguf"), tmp_path / "kept" if kept else None
    load(path, folder)
    assert path in Survivors(folder and folder / KEPT)

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a child was started"))
    load(path, folder)


@pytest.mark.parametrize("name", ["loop.gguf", "x" * 5000, "\0"])
def test_what_cannot_be_a_file_was_never_survived(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    assert tmp_path / name not in Survivors(tmp_path / KEPT)
    with pytest.raises(ModelFileError, match="cannot be read"):
        open_model_file(tmp_path / name)


def test_a_changed_file_is_a_new_one(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf")
    survivors = Survivors(tmp_path / KEPT)
    survivors.add(path)
    time_ns = path.stat().st_mtime_ns
    os.utime(path, ns=(time_ns, time_ns + 1_000_000))
    assert path not in survivors

    survivors.add(path)
    path.write_bytes(path.read_bytes() + b"\0")
    os.utime(path, ns=(time_ns, time_ns + 1_000_000))
    assert path not in survivors


def test_another_llama_cpp_is_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.gguf")
    Survivors(tmp_path / KEPT).add(path)
    monkeypatch.setattr(library, "binding_version", "0.4.0")

    assert path not in Survivors(tmp_path / KEPT)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": 1}', '{"format": 9, "files": {}}', "\0", '{"format": 1, "files": 3}']
)
def test_a_damaged_memory_is_begun_anew(tmp_path: Path, content: str) -> None:
    path = write_model(tmp_path / "m.gguf")
    (tmp_path / KEPT).write_text(content)
    assert path not in Survivors(tmp_path / KEPT)

    Survivors(tmp_path / KEPT).add(path)
    assert path in Survivors(tmp_path / KEPT)


def test_only_so_many_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "_MAX_FILES", 2)
    paths = [write_model(tmp_path / f"{i}.gguf") for i in range(3)]
    for path in (*paths[:2], paths[0], paths[2]):
        Survivors(tmp_path / KEPT).add(path)

    assert [path in Survivors(tmp_path / KEPT) for path in paths] == [True, False, True]


def test_a_folder_that_refuses_stops_nothing(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf")
    (tmp_path / "file").write_text("")

    Survivors(tmp_path / "file" / KEPT).add(path)
    assert path not in Survivors(tmp_path / "file" / KEPT)


def test_a_new_file_is_counted_exactly_and_is_no_new_one_for_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(tmp_path / "m.gguf")
    wanted = params(path, tmp_path)
    asked: list[Any] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        return ask_python(*arguments, **options)

    monkeypatch.setattr(footprint, "ask_python", counted)

    for _ in range(2):
        fitted(wanted, (LocalModel(path), None), [])

    assert len(asked) == 1
    assert path in Survivors(tmp_path / KEPT)
    assert json.loads((tmp_path / KEPT).read_text())["format"] == canary.FORMAT


def test_a_deadly_file_is_counted_by_its_header_and_told_by_the_load(tmp_path: Path) -> None:
    path = write_deadly_model(tmp_path / "m.gguf")
    placed = fitted(params(path, tmp_path), (LocalModel(path), None), [])

    with pytest.raises(ModelFileError, match="does not survive it"):
        NativePair(placed, CancelFlag(), lambda what, share: True)
