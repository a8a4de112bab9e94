"""Check that the experts of a mixture, and tensors by name, lie where flags send them."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.command_line import parse_args
from app.cli.options import read_params
from app.cli.setting_flags import read_flags
from app.core.errors import UsageError
from app.hardware.devices import Device
from app.hardware.offers import offers
from app.llama import loading
from app.llama.fitting.fit_pair import needs
from app.llama.footprint import measure
from app.llama.library import native
from app.llama.loading import place
from app.llama.params import ModelParams, PairParams
from app.llama.stored_measurements import pair_identity
from app.models.gguf import read_header
from app.settings.layers import Origin, Resolved
from app.settings.placement import MAX_LAYERS, expert_overrides
from tests.llama.tiny_model import EMBEDDING, FORWARD, write_mixture

pytestmark = pytest.mark.native
N_EXPERTS = 4
EXPERTS = 3 * EMBEDDING * FORWARD * N_EXPERTS * 4
"""Bytes of one layer's experts, in f32."""


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    return write_mixture(tmp_path / "mixture.gguf", n_layers=2, n_experts=N_EXPERTS)


def overrides(*flags: str) -> tuple[str, ...]:
    given = read_flags(parse_args(["run", "hello", *flags]))
    return read_params(Resolved({Origin.FLAG: given})).model.overrides


def test_flags_become_patterns_in_llama_cpps_order() -> None:
    assert overrides() == ()
    assert overrides("--cpu-moe") == (r"\.ffn_(up|down|gate|gate_up)_(ch|)exps=cpu",)
    first, second = overrides("--n-cpu-moe", "2")
    assert (first[:8], second[:8]) == (r"blk\.0\.", r"blk\.1\.")
    both = overrides("-ot", "attn_(q|k)=CUDA0,output=CPU", "-ot", "norm=cuda1", "--n-cpu-moe", "1")
    assert both[:3] == ("attn_(q|k)=CUDA0", "output=cpu", "norm=cuda1")
    assert both[3] == first


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
        with pytest.raises(UsageError, match="--override-tensor names CUDA0, which holds no layers"):
            place(raw, ModelParams(devices=devices, overrides=("exps=CUDA0",)))


def test_the_estimate_counts_the_experts_in_ram(mixture: Path) -> None:
    plain = PairParams(mixture, None, 1, 256)
    before, _ = needs(plain)
    for n_layers, expected in ((1, EXPERTS), (MAX_LAYERS, 2 * EXPERTS)):
        params = replace(plain, model=ModelParams(overrides=expert_overrides(n_layers)))
        after, _ = needs(params)
        assert before.weights - after.weights == after.host - before.host == expected
        assert before.total == after.total


def test_llama_cpp_measures_and_loads_with_overrides(mixture: Path) -> None:
    assert len(read_header(mixture, tensors=True).tensors) == 22
    model = ModelParams(devices=("cpu",), overrides=expert_overrides(MAX_LAYERS))
    params = PairParams(mixture, None, 1, 256, model=model)
    before, _ = needs(params)
    assert measure(before, mixture, model, params.target_context(256)) is not before
    handle, kept = loading.load(mixture, model, lambda _: True)
    assert kept
    native.llama_model_free(handle)


def test_measurements_are_kept_apart(mixture: Path) -> None:
    plain = PairParams(mixture, None, 1, 256, model=ModelParams(devices=("cpu",)))
    moved = replace(plain, model=replace(plain.model, overrides=expert_overrides(1)))
    assert pair_identity(plain) != pair_identity(moved)


@pytest.mark.parametrize(("lacking", "expected"), [(1, 1), (EXPERTS, 1), (EXPERTS + 1, 2)])
def test_experts_in_ram_are_the_first_option(mixture: Path, lacking: int, expected: int) -> None:
    target, _ = needs(PairParams(mixture, None, 1, 256))
    assert target.experts == (EXPERTS, EXPERTS)
    ram = Device("cpu", "cpu", "CPU", 64 << 30)
    card = Device("CUDA0", "gpu", "CUDA", 1 << 30).with_room(target.layers + target.compute - lacking)
    first = offers(target, None, (card, ram))[0]
    assert first.what == f"{expected} of 2 layers' experts in RAM"
    assert (first.flags, first.suffices) == (("--n-cpu-moe", str(expected)), True)
