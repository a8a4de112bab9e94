"""Invalid parameters are refused with name, value and range."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.cli.command_line import parse_args
from app.cli.setting_flags import read_flags
from app.core.errors import UsageError
from app.engine.types import DraftParams, SamplingParams
from app.llama.params import PairParams
from app.settings.layers import DEFAULTS
from app.settings.model_params import ModelParams
from tests.llama.tiny_heads import write_eagle3, write_target


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DraftParams(n_max=63), "n_max is 63; it must lie between 0 and 62."),
        (lambda: DraftParams(n_max=2, n_min=3), r"n_min is 3; it must lie between 0 and n_max \(2\)"),
        (lambda: DraftParams(p_min=float("nan")), "p_min is nan"),
        (lambda: SamplingParams(temperature=-0.1), "temperature is -0.1"),
        (lambda: SamplingParams(min_p=float("inf")), "min_p is inf"),
        (lambda: SamplingParams(repeat_penalty=0.0), "repeat_penalty is 0"),
        (lambda: SamplingParams(seed=2**32), "seed is 4294967296"),
        (lambda: SamplingParams(top_k=1.5), "top_k is 1.5"),  # type: ignore[arg-type]
        (lambda: ModelParams(devices=("CUDA0", "cuda0")), "named twice"),
        (lambda: ModelParams(devices=("cpu", "CUDA0")), '"cpu" cannot be combined'),
        (lambda: ModelParams(tensor_split=(0.0, 0.0)), "all 0"),
        (lambda: ModelParams(tensor_split=(1.0, 2.0), devices=("CUDA0",)), "2 shares for 1 device."),
    ],
)
def test_value_outside_range_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_greedy_means_that_nothing_changes_the_logits() -> None:
    assert SamplingParams(temperature=0).is_greedy
    assert not SamplingParams(temperature=0, repeat_penalty=1.1).is_greedy
    assert SamplingParams(temperature=0, repeat_penalty=1.1, repeat_last_n=0).is_greedy
    assert not SamplingParams().is_greedy


def test_a_model_is_on_the_cpu_by_device_or_without_gpu_layers() -> None:
    assert ModelParams(devices=("cpu",)).on_cpu
    assert ModelParams(n_gpu_layers=0).on_cpu
    assert not ModelParams(devices=("CUDA0", "CUDA1"), tensor_split=(3, 1)).on_cpu


def params(*flags: str) -> PairParams:
    return PairParams.of(DEFAULTS.over(read_flags(parse_args(["run", *flags, "Hi"]).given)))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--device", "x" * 65], "--device is"),
        (["--device", ",".join(f"D{i}" for i in range(17))], "--device is"),
        (["--tensor-split", ",".join("1" * 17)], "--tensor-split is"),
        (["--device", "CUDA0,"], '--device is "CUDA0,"; it must be names of devices'),
        (["--device", "cpu,CUDA0"], "cannot be combined"),
        (["--draft-device", "CUDA0,CUDA1"], '--draft-device is "CUDA0,CUDA1"; it must be the name of one device'),
        (["--gpu-layers", "many"], '--gpu-layers is "many"'),
        (["--draft-gpu-layers", "-1"], '--draft-gpu-layers is "-1"'),
        (["--tensor-split", "3:1"], '--tensor-split is "3:1"'),
        (["--tensor-split", "nan"], "not negative"),
        (["--kv-type", "q3_k"], '--kv-type is "q3_k"; it must be auto or one of f32, f16'),
        (["--draft-kv-type", "i8"], "--draft-kv-type is"),
        (["--flash-attn", "maybe"], "--flash-attn is"),
        (["--kv-type", "q8_0", "--flash-attn", "off"], "The KV type q8_0 needs flash attention"),
        (["--draft-kv-type", "q4_0", "--flash-attn", "off"], "The KV type q4_0 needs flash attention"),
        (["--fit", "maybe"], "--fit is"),
    ],
)
def test_invalid_placement_flag_is_refused(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        params(*flags)


def test_placement_flags_say_where_each_model_goes() -> None:
    usual = params()
    assert (usual.model, usual.draft_model, usual.yields_cpu) == (ModelParams(), ModelParams(split=False), True)
    assert (usual.kv_type, usual.draft_kv_type) == ("f16", "f16")
    everything = "--device --draft-device --gpu-layers --draft-gpu-layers --tensor-split --kv-type --draft-kv-type"
    autos = [part for flag in [*everything.split(), "--flash-attn", "--fit"] for part in (flag, "auto")]
    assert params(*autos) == usual

    found = params(
        *("--device", "CUDA0, CUDA1", "--tensor-split", "3,1", "--gpu-layers", "20", "--draft-device", "CPU"),
        *("--draft-gpu-layers", "all", "--kv-type", "q8_0", "--draft-kv-type", "q4_0", "--flash-attn", "on"),
        *("--threads", "3"),
    )
    assert found.model == ModelParams(20, devices=("CUDA0", "CUDA1"), tensor_split=(3.0, 1.0))
    assert found.draft_model == ModelParams(devices=("cpu",), split=False)
    assert (found.kv_type, found.draft_kv_type) == ("q8_0", "q4_0")
    assert found.target_context(512).flash_attention == "on"
    assert (found.n_threads, found.yields_cpu) == (3, False)


def test_fixed_drafting_with_n_grams_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, draft = write_target(tmp_path / "target.gguf"), write_eagle3(tmp_path / "eagle.gguf")
    words = ["run", "--target", str(target), "--draft", str(draft), "--draft-type", "ngram", "--draft-n-max", "5", "hi"]

    assert main(words) == 2
    assert "Add --draft FILE, or use --drafting auto for n-grams." in capsys.readouterr().err
