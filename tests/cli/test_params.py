"""Parameters refuse what cannot be meant, with name, value and range."""

from __future__ import annotations

from typing import Any

import pytest

from app.cli.command_line import parse_args
from app.cli.placement import Placement, read_placement
from app.cli.setting_flags import read_flags
from app.core.errors import UsageError
from app.engine.types import DraftParams, SamplingParams
from app.llama.params import ModelParams
from app.settings.layers import Origin, Resolved


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_max": 65}, "n_max is 65; it must lie between 0 and 64."),
        ({"n_max": -1}, "n_max is -1"),
        ({"n_max": 2, "n_min": 3}, r"n_min is 3; it must lie between 0 and n_max \(2\)"),
        ({"p_min": 1.1}, "p_min is 1.1"),
        ({"p_min": float("nan")}, "p_min is nan"),
    ],
)
def test_draft_params_outside_their_range_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DraftParams(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 1.5),
        ("min_p", float("inf")),
        ("top_k", -1),
        ("repeat_penalty", 0.0),
        ("seed", -1),
        ("seed", 2**32),
        ("repeat_last_n", 10**9),
        ("top_k", 1.5),
        ("seed", 0.5),
    ],
)
def test_sampling_params_outside_their_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is "):
        SamplingParams(**{name: value})  # type: ignore[arg-type]


def test_greedy_means_that_nothing_changes_the_logits() -> None:
    assert SamplingParams(temperature=0).is_greedy
    assert not SamplingParams(temperature=0, repeat_penalty=1.1).is_greedy
    assert SamplingParams(temperature=0, repeat_penalty=1.1, repeat_last_n=0).is_greedy
    assert not SamplingParams().is_greedy


# Where a model goes: what llama.cpp would follow into nowhere


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"devices": ("",)}, "'' is not the name of a device"),
        ({"devices": ("CUDA0\0",)}, "is not the name of a device"),
        ({"devices": (7,)}, "7 is not the name of a device"),
        ({"devices": ("x" * 65,)}, "is not the name of a device"),
        ({"devices": ("CUDA0", "cuda0")}, "named twice"),
        ({"devices": ("cpu", "CUDA0")}, '"cpu" stands alone'),
        ({"devices": tuple(f"D{i}" for i in range(17))}, "at most 16 names"),
        ({"devices": "CUDA0"}, "at most 16 names"),
        ({"tensor_split": (1.0,) * 17}, "at most 16 shares"),
        ({"tensor_split": (1.0, -1.0)}, "not negative"),
        ({"tensor_split": (float("nan"),)}, "not negative"),
        ({"tensor_split": (float("inf"),)}, "not negative"),
        ({"tensor_split": ("1",)}, "not negative"),
        ({"tensor_split": (0.0, 0.0)}, "all 0"),
        ({"tensor_split": (1.0, 2.0), "devices": ("CUDA0",)}, "2 shares for 1 device."),
        ({"split": False, "devices": ("CUDA0", "CUDA1")}, "goes on one device"),
        ({"split": False, "tensor_split": (1.0, 2.0)}, "goes on one device"),
    ],
)
def test_placements_that_cannot_be_meant_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ModelParams(**values)


def test_model_params_that_can_be_meant() -> None:
    assert ModelParams(devices=("cpu",)).on_cpu
    assert ModelParams(n_gpu_layers=0).on_cpu
    assert not ModelParams(devices=("CUDA0", "CUDA1"), tensor_split=(3, 1)).on_cpu
    assert not ModelParams(tensor_split=(0, 1)).on_cpu


# The same from the flags


def placement(*flags: str) -> Placement:
    given = read_flags(parse_args(["run", *flags, "Hi"]))
    return read_placement(Resolved({Origin.FLAG: given}))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--device", "CUDA0,"], '--device is "CUDA0,"; it must be names of devices'),
        (["--device", "cpu,CUDA0"], "stands alone"),
        (["--draft-device", "CUDA0,CUDA1"], '--draft-device is "CUDA0,CUDA1"; it must be the name of one device'),
        (["--gpu-layers", "many"], '--gpu-layers is "many"'),
        (["--draft-gpu-layers", "-1"], '--draft-gpu-layers is "-1"'),
        (["--tensor-split", "3:1"], '--tensor-split is "3:1"'),
        (["--tensor-split", "nan"], "not negative"),
        (["--kv-type", "q3_k"], '--kv-type is "q3_k"; it must be auto or one of f32, f16'),
        (["--draft-kv-type", "i8"], "--draft-kv-type is"),
        (["--flash-attn", "maybe"], "--flash-attn is"),
        (["--kv-type", "q8_0", "--flash-attn", "off"], "--kv-type q8_0 needs flash attention"),
        (["--draft-kv-type", "q4_0", "--flash-attn", "off"], "--draft-kv-type q4_0 needs flash attention"),
        (["--fit", "maybe"], "--fit is"),
    ],
)
def test_placement_flags_that_cannot_be_meant_are_refused(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        placement(*flags)


def test_placement_flags_say_where_each_model_goes() -> None:
    assert placement() == Placement()
    everything = "--device --draft-device --gpu-layers --draft-gpu-layers --tensor-split --kv-type --draft-kv-type"
    autos = [part for flag in [*everything.split(), "--flash-attn", "--fit"] for part in (flag, "auto")]
    assert placement(*autos) == Placement()

    found = placement(
        *("--device", "CUDA0, CUDA1", "--tensor-split", "3,1", "--gpu-layers", "20", "--draft-device", "CPU"),
        *("--draft-gpu-layers", "all", "--kv-type", "q8_0", "--draft-kv-type", "q4_0", "--flash-attn", "on"),
        *("--fit", "off"),
    )
    assert found.model == ModelParams(20, devices=("CUDA0", "CUDA1"), tensor_split=(3.0, 1.0))
    assert found.draft_model == ModelParams(devices=("cpu",), split=False)
    assert (found.kv_type, found.draft_kv_type, found.flash_attention, found.fit) == ("q8_0", "q4_0", "on", False)
