"""A file that llama.cpp dies of is a sentence, and one that it has survived costs nothing the next time."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import Interrupted, ModelFileError, ModelLoadError
from app.llama import canary, library
from app.llama.canary import Survivors, send_ahead
from app.llama.cancel import CancelFlag
from app.llama.child import ChildError
from app.llama.fitting.fit_pair import fitted
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from tests.llama.tiny_model import write_deadly_model, write_model

pytestmark = pytest.mark.native
KEPT = "survived.json"


def params(target: Path, folder: Path | None, draft: Path | None = None) -> PairParams:
    return PairParams(target, draft, n_threads=1, n_ctx=64, memory_dir=folder and folder / "drafting")


def load(target: Path, folder: Path | None, draft: Path | None = None) -> list[str]:
    """Load a file and return the error."""
    pair = NativePair(params(target, folder, draft), CancelFlag(), lambda what, share: True)
    pair.close()
    return pair.notices


# What llama.cpp dies of


def test_a_deadly_draft_costs_no_answer(tmp_path: Path) -> None:
    deadly, right = write_deadly_model(tmp_path / "m.gguf"), write_model(tmp_path / "right.gguf")

    notice, *_ = load(right, tmp_path, deadly)
    assert notice.startswith(f"Running without a draft. {deadly} cannot be run: llama.cpp ")


def test_a_deadly_file_is_an_error(tmp_path: Path) -> None:
    deadly = write_deadly_model(tmp_path / "m.gguf")

    with pytest.raises(ModelFileError) as caught:
        load(deadly, tmp_path)

    assert caught.value.message.startswith(f"{deadly} cannot be run: llama.cpp {library.binding_version} does not ")
    assert "signal ABRT: smallthinker.cpp:" in caught.value.message
    assert "n_expert > 0" in caught.value.message
    assert str(Path.home()) not in caught.value.message.partition("cannot be run")[2]
    assert deadly not in Survivors(tmp_path / KEPT)


def test_an_orderly_refusal_keeps_its_own_reason(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", tokenizer__ggml__merges=None)

    with pytest.raises(ModelLoadError, match="merges"):
        load(path, tmp_path)
    assert path not in Survivors(tmp_path / KEPT)


def test_it_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "app.llama.child.python_command", lambda *_: (sys.executable, "-c", "import time; time.sleep(3600)")
    )

    with pytest.raises(Interrupted):
        send_ahead(write_model(tmp_path / "m.gguf"), None, lambda: False)


@pytest.mark.parametrize(("crashed", "refused"), [(True, True), (False, False)])
def test_only_a_child_that_crashed_shows_something_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashed: bool, refused: bool
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ChildError("took longer than 60 seconds", crashed=crashed)

    monkeypatch.setattr(canary, "ask", fail)
    path = write_model(tmp_path / "m.gguf")

    with pytest.raises(ModelFileError, match="took longer") if refused else nullcontext():
        send_ahead(path, tmp_path / KEPT)
    assert path not in Survivors(tmp_path / KEPT)


# What it remembers


def test_a_survived_file_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.gguf")
    load(path, tmp_path)
    assert path in Survivors(tmp_path / KEPT)

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a child was started"))
    load(path, tmp_path)


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


@pytest.mark.parametrize("content", ["", '{"format": 9, "files": {}}', '{"format": 2, "files": 3}'])
def test_a_damaged_memory_is_begun_again(tmp_path: Path, content: str) -> None:
    path = write_model(tmp_path / "m.gguf")
    (tmp_path / KEPT).write_text(content)
    assert path not in Survivors(tmp_path / KEPT)

    Survivors(tmp_path / KEPT).add(path)
    assert path in Survivors(tmp_path / KEPT)


def test_a_new_file_is_counted_exactly_and_is_no_new_one_for_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(tmp_path / "m.gguf")
    fitted(params(path, tmp_path), [])
    assert path in Survivors(tmp_path / KEPT)

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a child was started"))
    fitted(params(path, tmp_path), [])
