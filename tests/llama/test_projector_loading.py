"""Trials of projectors in a child process, and their memory in the plan."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.conversations.message import Message, Role
from app.core.child import ChildError
from app.core.errors import AppError, DamagedFileError, DoesNotFitError, ModelFileError, ModelLoadError
from app.core.pictures import MARK
from app.hardware.fit import main_memory_room
from app.llama import draft_slot, projector_loading
from app.llama.fitting import fit_pair
from app.llama.fitting.machine_room import needs
from app.llama.params import PairParams
from app.settings.placement import CPU
from tests.llama.conftest import OpenPair
from tests.llama.params import pair_params
from tests.llama.tiny_projector import KINDS, picture, write_projector

pytestmark = pytest.mark.native


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PairParams]:
    """Return a function that writes a target with a projector, and returns the pair."""
    monkeypatch.setattr(PairParams, "safe_files", tmp_path / "survived.json")
    # The target is intact; each child takes a second.
    monkeypatch.setattr(draft_slot, "try_file", lambda *_, **__: None)

    def write(name: str = "causal", *, mmproj: str = "auto", **changes: Any) -> PairParams:
        target, encoder = tmp_path / f"{name}.gguf", tmp_path / "mmproj.gguf"
        KINDS[name].write_target(target)
        write_projector(encoder, KINDS[name].projector, **changes)
        return pair_params(target, None, n_ctx=256, projector=encoder, settings={"model.mmproj": mmproj})

    return write


def test_a_projector_that_ends_the_process_is_left_out_and_tried_once(
    open_pair: OpenPair, params: Callable[..., PairParams], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = params(clip__vision__attention__head_count=7)
    for is_first in (True, False):
        pair = open_pair(broken)
        assert pair.pictures is None is pair.info.projector
        (notice,) = (notice for notice in pair.notices if "Pictures cannot be read" in notice)
        assert "does not survive" in notice
        if is_first:
            monkeypatch.setattr(projector_loading, "ask", lambda *_, **__: pytest.fail("a second child was started"))
    monkeypatch.undo()
    with pytest.raises(DamagedFileError, match="does not survive"):
        open_pair(broken.over({"model.mmproj": str(broken.projector)}))


def test_a_file_that_is_refused_by_its_header_needs_no_child(
    open_pair: OpenPair, params: Callable[..., PairParams], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector_loading, "ask", lambda *_, **__: pytest.fail("a child was started"))
    named = params(mmproj="mmproj.gguf", clip__vision__projection_dim=64)
    with pytest.raises(ModelFileError, match="is for another model"):
        open_pair(named)
    assert named.projector is not None
    named.projector.unlink()
    with pytest.raises(ModelFileError, match="There is no file"):
        open_pair(named)


@pytest.mark.parametrize(("name", "n_pixels"), [("causal", 56**2), ("m-rope", 2048**2)])
def test_a_trial_measures_the_largest_picture(name: str, n_pixels: int, params: Callable[..., PairParams]) -> None:
    asked = params(name)
    assert asked.projector is not None
    # In a child, because here memory freed by earlier tests would be used again.
    on_device, host = projector_loading.projector_bytes(asked)
    assert asked.projector.stat().st_size < on_device < 1 << 28
    # Three floats a pixel, and less than that in bytes of the picture.
    assert 0.95 * 12 * n_pixels < host < 24 * n_pixels + (16 << 20)


def test_a_projector_is_not_tried_without_its_target(params: Callable[..., PairParams]) -> None:
    asked = params()
    assert asked.projector is not None
    asked.target.write_bytes(b"GGUF")
    with pytest.raises(ModelLoadError, match=r"causal\.gguf cannot be loaded, so its projector was not tried"):
        projector_loading.measure(asked.projector, asked)


def test_a_projector_is_tried_once_and_counts_in_the_plan(
    open_pair: OpenPair, params: Callable[..., PairParams], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = params()
    assert asked.projector is not None
    questions: list[str] = []

    def ask(function: str, path: Path, *_: object, **__: object) -> tuple[int, int]:
        questions.append(function)
        return 1_000_000, 500_000

    monkeypatch.setattr(projector_loading, "ask", ask)
    without = needs(replace(asked, projector=None), ()).target
    need = needs(asked, ()).target
    size = asked.projector.stat().st_size
    assert 1_000_000 < need.projector < 1_000_000 + size
    assert need.total == without.total + need.projector + 500_000
    assert needs(asked, ()).target == need
    open_pair(asked)
    assert questions == ["llama.projector_loading.measure"]
    asked.projector.write_bytes(asked.projector.read_bytes() + b"\0" * 32)
    needs(asked, ())
    assert len(questions) == 2


def test_a_projector_without_room_is_left_out_unless_it_is_named(
    params: Callable[..., PairParams], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = params()
    monkeypatch.setattr(projector_loading, "ask", lambda *_, **__: (8 << 30, 0))
    monkeypatch.setattr(fit_pair, "measured_needs", lambda _, pair: pair)
    monkeypatch.setattr(fit_pair, "memory_rooms", lambda: (main_memory_room(4 << 30),))
    found = fit_pair.fitted(asked, [])
    assert found.projector is None
    assert [load.device for load in found.memory] == [CPU]
    assert "memory has no room for the projector" in found.notices[0]
    with pytest.raises(DoesNotFitError):
        fit_pair.fitted(asked.over({"model.mmproj": str(asked.projector)}), [])


def test_a_pair_with_a_tried_projector_reads_pictures(open_pair: OpenPair, params: Callable[..., PairParams]) -> None:
    pair = open_pair(params("m-rope"))
    assert not pair.notices
    prompt = pair.prompts.build([Message(Role.USER, f"{MARK}?", pictures=(picture(56, 56),))])
    list(pair.target.read(prompt.tokens, lambda: False))


def test_a_child_that_cannot_start_is_no_fault_of_the_file(
    open_pair: OpenPair, params: Callable[..., PairParams], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> int:
        raise ChildError("could not be started: no memory")

    monkeypatch.setattr(projector_loading, "ask", fails)
    with pytest.raises(AppError, match="could not be tried: the child could not be started"):
        open_pair(params(mmproj="mmproj.gguf"))
