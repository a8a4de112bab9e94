"""Experts of a mixture, and tensors by name, are where flags place them."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.command_line import parse_args
from app.cli.setting_flags import read_flags
from app.core.errors import UsageError
from app.hardware.devices import Device
from app.hardware.fit import PairNeeds
from app.hardware.recommend import weigh
from app.llama import loading
from app.llama.fitting import fit_pair
from app.llama.fitting.fit_pair import context_room, fitting_of
from app.llama.fitting.machine_room import needs
from app.llama.footprint import measure
from app.llama.library import native
from app.llama.loading import place
from app.models.catalog import Pair
from app.models.compatibility import check_pair, with_facts
from app.models.gguf import read_header
from app.models.model_facts import read_facts
from app.models.source import LocalModel
from app.settings import layers
from app.settings.layers import Layer, Origin
from app.settings.model_params import ModelParams
from app.settings.placement import MAX_LAYERS, expert_overrides
from tests.capacities import on_gpu
from tests.llama.params import pair_params
from tests.llama.tiny_model import TINY, write_mixture

pytestmark = pytest.mark.native
N_EXPERTS = 4
EXPERTS = 3 * TINY.width * TINY.forward * N_EXPERTS * 4
"""Bytes of one layer's experts, in f32."""
LAYER_GAIN = EXPERTS - EXPERTS // 3
"""Bytes that a device gains by the first layer with experts in RAM: it has a copy of one of three tensors."""


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    return write_mixture(tmp_path / "mixture.gguf")


def model_of(*flags: str) -> ModelParams:
    given = read_flags(parse_args(["run", "hello", *flags]).given)
    return ModelParams.of(layers.Resolved({Origin.FLAG: given}), "model")


def overrides(*flags: str) -> tuple[str, ...]:
    return model_of(*flags).all_overrides


def test_flags_become_patterns_in_llama_cpps_order() -> None:
    assert overrides() == ()
    assert overrides("--cpu-moe") == (r"\.ffn_(up|down|gate|gate_up)_(ch|)exps=cpu",)
    first, second = overrides("--n-cpu-moe", "2")
    assert (first[:8], second[:8]) == (r"blk\.0\.", r"blk\.1\.")
    both = overrides("-ot", "attn_(q|k)=CUDA0,output=CPU", "-ot", "norm=cuda1", "--n-cpu-moe", "1")
    assert both[:3] == ("attn_(q|k)=CUDA0", "output=cpu", "norm=cuda1")
    assert both[3] == first


def test_no_layers_differ_from_as_few_as_fit() -> None:
    assert model_of().cpu_experts is None
    assert model_of("--n-cpu-moe", "auto").cpu_experts is None
    assert model_of("--n-cpu-moe", "0").cpu_experts == 0


@pytest.mark.parametrize("wrong", ["exps", "=CPU", "ffn_(=CPU", "exps=", "(?i)exps=CPU", "(?<=a)b=CPU", "a++=CPU"])
def test_a_wrong_pattern_is_one_sentence(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"--override-tensor is .* it must be regular expressions and devices"):
        overrides("--override-tensor", wrong)


def test_cpu_moe_contradicts_another_number_of_layers() -> None:
    with pytest.raises(UsageError, match="--cpu-moe and --n-cpu-moe 3 exclude each other"):
        overrides("--cpu-moe", "--n-cpu-moe", "3")


def test_llama_cpp_is_given_each_pattern_with_the_memory_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "graphics", lambda **_: {"CUDA0": 0x1000, "CUDA1": 0x2000})
    monkeypatch.setattr(loading, "memory_type", lambda device: (device or 0x500) + 1)
    raw: Any = native.llama_model_default_params()
    kept = place(raw, ModelParams(devices=("CUDA0",), overrides=("exps=cpu", "attn=cuda0")))
    rows = ctypes.cast(raw.tensor_buft_overrides, ctypes.POINTER(loading._Override))
    assert [(rows[i].pattern, rows[i].buffer_type) for i in range(3)] == [
        (b"exps", 0x501),
        (b"attn", 0x1001),
        (None, None),
    ]
    assert kept
    for devices in ("CUDA1",), ("cpu",):
        with pytest.raises(UsageError, match="An override of tensors names CUDA0, which holds no layers"):
            place(raw, ModelParams(devices=devices, overrides=("exps=CUDA0",)))


def test_the_estimate_counts_the_experts_in_ram(mixture: Path) -> None:
    plain = pair_params(mixture, None, 1, 256)
    before = needs(plain, ()).target
    assert (before.experts, before.expert_copy) == ((EXPERTS, EXPERTS), EXPERTS // 3)
    for n_layers, left in ((1, (0, EXPERTS)), (MAX_LAYERS, ())):
        params = replace(plain, model=ModelParams(overrides=expert_overrides(n_layers)))
        after = needs(params, ()).target
        assert before.weights - after.weights == after.host - before.host == 2 * EXPERTS - sum(left)
        assert before.total == after.total
        assert after.experts == left


def test_a_proposal_moves_as_many_experts_as_the_loader(mixture: Path) -> None:
    facts = read_facts(mixture)
    assert (facts.expert_bytes, facts.expert_layers) == (2 * EXPERTS, 2)
    assert facts.bytes_per_token == facts.weight_bytes - int(2 * EXPERTS * (1 - facts.expert_share))
    source = LocalModel(mixture)
    pair = with_facts(Pair("tiny", "", source, None), check_pair(facts, None))
    need = weigh(pair, on_gpu(1 << 40)).need_bytes
    for lacking, expected in ((0, 0), (1, 1), (LAYER_GAIN, 1), (LAYER_GAIN + 1, 2)):
        assert weigh(pair, on_gpu(need - lacking, 1 << 30)).layers_in_ram == expected


def test_llama_cpp_measures_and_loads_with_overrides(mixture: Path) -> None:
    assert len(read_header(mixture, tensors=True).tensors) == 22
    model = ModelParams(devices=("cpu",), overrides=expert_overrides(MAX_LAYERS))
    params = pair_params(mixture, None, 1, 256, model=model)
    before = needs(params, ()).target
    assert measure(before, mixture, model, params.target_context(256)) is not before
    handle, kept = loading.load(mixture, model, lambda _: True)
    assert kept
    native.llama_model_free(handle)


@pytest.mark.parametrize(("lacking", "expected"), [(0, 0), (1, 1), (LAYER_GAIN, 1), (LAYER_GAIN + 1, 2)])
def test_the_experts_of_as_few_layers_as_fit_go_to_ram(
    mixture: Path, monkeypatch: pytest.MonkeyPatch, lacking: int, expected: int
) -> None:
    monkeypatch.setattr(fit_pair, "measured_needs", lambda _, pair: pair)
    params = pair_params(mixture, None, 1, 256)
    target = needs(params, ()).target
    ram = Device("cpu", "cpu", "CPU", 64 << 30)
    rooms = (Device("CUDA0", "gpu", "CUDA", 1 << 30).with_room(target.layers + target.compute - lacking), ram)
    found = fitting_of(params, rooms)
    assert found.plan.fits
    assert found.params.model.cpu_experts == expected
    assert found.params.model.all_overrides == expert_overrides(expected)
    assert found.notices == ((f"{expected} of 2 layers' experts in RAM.",) if expected else ())

    def offered(**changes: object) -> list[tuple[Layer, bool]]:
        model = replace(params.model, **changes)  # type: ignore[arg-type]
        options = fitting_of(replace(params, model=model), rooms).offers(())
        return [(offer.settings, offer.suffices) for offer in options if "model.n_cpu_moe" in offer.settings]

    # A chosen number stays, and so do tensors placed by name.
    right = [({"model.n_cpu_moe": expected}, True)] if expected else []
    assert offered(cpu_experts=0) == right
    if expected:
        assert fitting_of(replace(params, model=ModelParams(overrides=("norm=cpu",))), rooms).plan.n_in_ram == 0


def test_a_longer_context_moves_no_experts_that_are_on_a_gpu(mixture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_pair, "measured_needs", lambda _, pair: pair)
    params, ram = pair_params(mixture, None, 1, 256), Device("cpu", "cpu", "CPU", 64 << 30)
    target = replace(needs(params, (ram,)).target, n_ctx_train=4096, compute=0, compute_growing=0)
    monkeypatch.setattr(fit_pair, "needs", lambda _, rooms: PairNeeds(target, None, rooms))

    def room(n_bytes: int) -> int:
        card = Device("CUDA0", "gpu", "CUDA", 1 << 30).with_room(n_bytes)
        return context_room(fitting_of(params, (card, ram)))

    assert room(target.layers) == 256
    assert room(target.layers - 1) > 256
