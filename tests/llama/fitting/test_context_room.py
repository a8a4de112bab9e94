"""The longest context that memory has room for: never more than fits, and nothing is read where it is plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from app.hardware.device_room import MAIN, DeviceRoom
from app.hardware.fit import plan
from app.llama.fitting import context_room as module
from app.llama.fitting.context_room import context_room
from app.llama.fitting.weighing import Fitting
from app.llama.pair_params import PairParams
from app.models.memory_estimate import CELLS, ModelMemory

MB = 1_000_000
TARGET = ModelMemory("Big", 100 * MB, 8192 * 1000, 40 * MB, 0, n_layers=4, n_ctx=8192, n_ctx_train=32768)
DRAFT = ModelMemory("Small", 10 * MB, 8192 * 500, 4 * MB, 0, n_layers=2, n_ctx=8192, n_ctx_train=2048)


def grown(need: ModelMemory, n_ctx: int) -> ModelMemory:
    """Buffers hardly grow."""
    return replace(need.with_context(n_ctx), compute=need.compute + n_ctx)


class Headers:
    """Counts what is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_read = 0
        monkeypatch.setattr(module, "needs", self._needs)

    def _needs(self, params: PairParams, sources: Sequence[object]) -> tuple[ModelMemory, ModelMemory | None]:
        self.n_read += 1
        assert params.n_ctx is not None
        return grown(TARGET, params.n_ctx), grown(DRAFT, params.n_ctx) if params.draft is not None else None


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> Headers:
    return Headers(monkeypatch)


def fitting(room_bytes: int, *, draft: bool = True) -> Fitting:
    rooms = (DeviceRoom(MAIN, "cpu", "CPU", room_bytes),)
    behind = DRAFT if draft else None
    params = PairParams(Path("big.gguf"), Path("small.gguf") if draft else None, n_threads=1)
    return Fitting(params, plan(TARGET, behind, rooms), TARGET, behind, rooms, measured=False)


def test_with_memory_to_spare_it_is_what_the_target_was_trained_for_and_nothing_is_read(headers: Headers) -> None:
    assert context_room(fitting(64_000 * MB), (None, None)) == 32768
    assert headers.n_read == 0


@pytest.mark.parametrize("draft", [True, False])
@pytest.mark.parametrize("mb", range(190, 260, 10))
def test_it_fits_and_one_block_more_does_not(headers: Headers, mb: int, draft: bool) -> None:
    found = fitting(mb * MB, draft=draft)
    assert found.plan.fits

    n_ctx = context_room(found, (None, None))

    def fits(n_ctx: int) -> bool:
        return found.holds(grown(TARGET, n_ctx), grown(DRAFT, n_ctx) if draft else None)

    assert n_ctx % CELLS == 0
    assert n_ctx == 8192 or fits(n_ctx)
    assert n_ctx == 32768 or not fits(n_ctx + 3 * CELLS)
    assert 8192 <= n_ctx <= 32768


def test_a_target_that_was_trained_for_no_more_has_what_it_has(headers: Headers) -> None:
    found = fitting(64_000 * MB)
    found = replace(found, target=replace(found.target, n_ctx_train=8192))
    assert context_room(found, (None, None)) == 8192
    assert headers.n_read == 0
