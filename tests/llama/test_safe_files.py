"""A file that crashes llama.cpp is an error, and a file that loaded once is not tried again."""

import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core.child import ChildError
from app.core.errors import Interrupted, ModelFileError, ModelLoadError
from app.hardware.fit import main_memory_room
from app.llama import child as llama_child
from app.llama.child import SafeFiles, try_file
from app.llama.fitting import fit_pair
from app.llama.fitting.fit_pair import fitted
from app.llama.params import PairParams
from app.settings.model_params import ModelParams
from tests.llama.conftest import OpenPair
from tests.llama.params import pair_params
from tests.llama.tiny_heads import write_dflash, write_target
from tests.llama.tiny_model import write_aborting_model, write_model

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("trial_loads")]
FILE_NAME = "survived.json"


def params(target: Path, folder: Path | None, draft: Path | None = None) -> PairParams:
    return pair_params(target, draft, n_threads=1, n_ctx=64, memory_dir=folder and folder / "drafting")


# Files that crash llama.cpp


def test_a_file_that_aborts_llama_cpp_is_an_error(open_pair: OpenPair, tmp_path: Path) -> None:
    aborting = write_aborting_model(tmp_path / "m.gguf")

    with pytest.raises(ModelFileError) as caught:
        open_pair(params(aborting, tmp_path))

    assert caught.value.message.startswith(f"{aborting} cannot be run: the installed llama.cpp does not ")
    assert "crashed: smallthinker.cpp:" in caught.value.message
    assert "n_expert > 0" in caught.value.message
    assert str(Path.home()) not in caught.value.message.partition("cannot be run")[2]
    assert not SafeFiles(tmp_path / FILE_NAME).survived(aborting)


@pytest.mark.parametrize("layers", [0, 513])
def test_a_number_of_layers_that_aborts_llama_cpp_is_an_error(open_pair: OpenPair, tmp_path: Path, layers: int) -> None:
    with pytest.raises(ModelFileError, match="does not survive it"):
        open_pair(params(write_model(tmp_path / "m.gguf", llama__block_count=layers), tmp_path))


def test_a_refused_file_keeps_the_reason_of_llama_cpp(open_pair: OpenPair, tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", tokenizer__ggml__merges=None)

    with pytest.raises(ModelLoadError, match="merges"):
        open_pair(params(path, tmp_path))
    assert not SafeFiles(tmp_path / FILE_NAME).survived(path)


def test_a_trial_load_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "app.core.child.python_command", lambda *_: (sys.executable, "-c", "import time; time.sleep(3600)")
    )

    with pytest.raises(Interrupted):
        try_file(write_model(tmp_path / "m.gguf"), SafeFiles(None), lambda: False)


@pytest.mark.parametrize(("crashed", "refused"), [(True, True), (False, False)])
def test_only_a_crash_makes_a_file_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashed: bool, refused: bool
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ChildError("took longer than 60 seconds", crashed=crashed)

    monkeypatch.setattr(llama_child, "ask", fail)
    path = write_model(tmp_path / "m.gguf")

    with pytest.raises(ModelFileError, match="took longer") if refused else nullcontext():
        try_file(path, SafeFiles(tmp_path / FILE_NAME))
    assert not SafeFiles(tmp_path / FILE_NAME).survived(path)


def test_draft_layers_are_tried_on_the_devices_of_the_plan(
    open_pair: OpenPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def ask(*question: Any, **_: Any) -> bool:
        asked.append(question)
        return True

    monkeypatch.setattr(llama_child, "ask", ask)
    target, draft = write_target(tmp_path / "target.gguf"), write_dflash(tmp_path / "draft.gguf")
    wanted = replace(params(target, tmp_path, draft), model=ModelParams(devices=("cpu",)))
    open_pair(wanted)

    (tried,) = [pair for function, _, *rest in asked for pair in rest if function == "llama.footprint.try_head"]
    assert (tried.model.devices, tried.draft_model.devices) == (("cpu",), ("cpu",))
    safe = SafeFiles(tmp_path / FILE_NAME)
    assert safe.survived(draft, tried)
    assert not safe.survived(draft, replace(tried, model=ModelParams(devices=("CUDA0",))))
    assert not safe.survived(draft, replace(tried, draft_model=ModelParams(devices=("CUDA0",))))


# Safe files


def test_a_safe_file_is_not_tried_again(open_pair: OpenPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.gguf")
    open_pair(params(path, tmp_path))
    assert SafeFiles(tmp_path / FILE_NAME).survived(path)

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a child was started"))
    open_pair(params(path, tmp_path))


def test_a_changed_file_is_a_new_one(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf")
    safe = SafeFiles(tmp_path / FILE_NAME)
    safe.add(path)
    time_ns = path.stat().st_mtime_ns
    os.utime(path, ns=(time_ns, time_ns + 1_000_000))
    assert not safe.survived(path)

    safe.add(path)
    path.write_bytes(path.read_bytes() + b"\0")
    os.utime(path, ns=(time_ns, time_ns + 1_000_000))
    assert not safe.survived(path)


@pytest.mark.parametrize("content", ["", '{"format": 9, "files": {}}', '{"format": 2, "files": 3}'])
def test_a_damaged_list_is_replaced(tmp_path: Path, content: str) -> None:
    path = write_model(tmp_path / "m.gguf")
    (tmp_path / FILE_NAME).write_text(content)
    assert not SafeFiles(tmp_path / FILE_NAME).survived(path)

    SafeFiles(tmp_path / FILE_NAME).add(path)
    assert SafeFiles(tmp_path / FILE_NAME).survived(path)


def test_measuring_a_new_file_counts_as_its_trial_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A build with GPUs lists them in a child process.
    monkeypatch.setattr(fit_pair, "memory_rooms", lambda: (main_memory_room(1 << 34),))
    path = write_model(tmp_path / "m.gguf")
    fitted(params(path, tmp_path), [])
    assert SafeFiles(tmp_path / FILE_NAME).survived(path)

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a child was started"))
    fitted(params(path, tmp_path), [])
