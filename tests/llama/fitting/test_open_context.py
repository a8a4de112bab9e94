"""The context if the settings leave its length open: as long as memory easily allows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.hardware.devices import Device
from app.hardware.fit import Rooms
from app.llama.fitting import fit_pair, machine_room
from app.llama.fitting.fit_pair import Fitting, fitting_of, with_open_context
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import ModelFacts
from app.settings.placement import CPU
from tests.llama.params import pair_params
from tests.shapes import facts_of_shape

GB = 1_000_000_000
FACTS = replace(facts_of_shape("Qwen3.5-4B", 3 * GB), n_ctx_train=262_144)
LENGTH = 32_768


def rooms(card: float, ram: float = 64) -> Rooms:
    return Device("CUDA0", "gpu", "CUDA", int(card * GB)), Device(CPU, "cpu", "CPU", int(ram * GB))


def opened(
    monkeypatch: pytest.MonkeyPatch, where: Rooms, facts: ModelFacts = FACTS, **asked: Any
) -> tuple[Fitting, Fitting]:
    """Return the placement with the default context, and with an open context."""

    monkeypatch.setattr(machine_room, "read_facts", lambda _: facts)
    monkeypatch.setattr(machine_room, "with_tensors", lambda need, *_, **__: need)
    monkeypatch.setattr(fit_pair, "measured_needs", lambda _, pair: pair)
    placed = fitting_of(pair_params(Path("big.gguf"), None, n_threads=1, **asked), where)
    return placed, with_open_context(placed)


@pytest.mark.parametrize(
    ("card", "n_ctx"), [(64.0, 65_536), (24.0, 65_536), (10.0, LENGTH), (6.0, 16_384), (4.4, DEFAULT_CONTEXT)]
)
def test_the_longest_context_that_costs_little_is_chosen(
    monkeypatch: pytest.MonkeyPatch, card: float, n_ctx: int
) -> None:
    before, after = opened(monkeypatch, rooms(card))

    assert before.needs.target.n_ctx == DEFAULT_CONTEXT
    assert after.needs.target.n_ctx == after.params.target_context(FACTS.n_ctx_train).n_ctx == n_ctx
    assert after.plan.target == before.plan.target
    assert after.plan.fits
    assert (after.notices == before.notices) == (n_ctx == DEFAULT_CONTEXT)
    # The memory that is shown is the memory of the longer context.
    assert after.params.memory[0].n_bytes == after.plan.loads[0].need_bytes >= before.params.memory[0].n_bytes


def test_the_chosen_context_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _, after = opened(monkeypatch, rooms(24))
    _, whole = opened(monkeypatch, rooms(64), replace(FACTS, n_ctx_train=32_768))

    assert after.notices == ("Context: 65,536 tokens, as many as memory allows (setting ctx).",)
    assert whole.notices == ("Context: 32,768 tokens, as many as the model was trained for (setting ctx).",)


@pytest.mark.parametrize(
    ("n_ctx_train", "n_ctx"), [(8192, DEFAULT_CONTEXT), (2048, 2048), (40_960, 40_960), (0, DEFAULT_CONTEXT)]
)
def test_no_context_is_longer_than_the_trained_one(
    monkeypatch: pytest.MonkeyPatch, n_ctx_train: int, n_ctx: int
) -> None:
    _, after = opened(monkeypatch, rooms(64), replace(FACTS, n_ctx_train=n_ctx_train))

    assert after.needs.target.n_ctx == n_ctx


@pytest.mark.parametrize("asked", [{"n_ctx": 4096}, {"n_ctx": DEFAULT_CONTEXT}, {"n_ctx_auto": DEFAULT_CONTEXT}])
def test_a_context_that_is_set_stays(monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]) -> None:
    before, after = opened(monkeypatch, rooms(64), **asked)

    assert after is before


def test_a_command_may_prefer_a_longer_context_that_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    _, usual = opened(monkeypatch, rooms(6))
    _, preferred = opened(monkeypatch, rooms(6), preferred_ctx=LENGTH)

    assert usual.needs.target.n_ctx < preferred.needs.target.n_ctx == LENGTH
    assert opened(monkeypatch, rooms(4.4), preferred_ctx=LENGTH)[1].needs.target.n_ctx == DEFAULT_CONTEXT


def test_layers_never_move_for_a_longer_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs: the default context fits the fastest, a longer context would need both."""
    two = (Device("CUDA0", "gpu", "CUDA", 6 * GB), Device("CUDA1", "gpu", "CUDA", 50 * GB), rooms(1)[-1])
    before, after = opened(monkeypatch, two, preferred_ctx=65_536)

    assert before.plan.target.devices == after.plan.target.devices == ("CUDA0",)
    assert after.needs.target.n_ctx == LENGTH
