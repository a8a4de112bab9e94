"""What a load will take, told before it, against what it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.core.child import python_command, python_environment
from app.hardware.device_room import DeviceRoom
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.fitting.needs import corrected, need_of
from app.llama.fitting.weighing import weighed
from app.llama.footprint import Footprint, load_nothing, measure, read_log
from app.llama.library import native
from app.llama.model import Model
from app.llama.pair_params import PairParams
from app.llama.params import ContextParams, ModelParams
from tests.llama.tiny_model import write_model

pytestmark = pytest.mark.native
MIB = 1 << 20
CUDA_LOG = """
llama_kv_cache: size =   96.00 MiB (  8192 cells,  24 layers,  1/1 seqs), K (f16):   48.00 MiB, V (f16):   48.00 MiB
llama_memory_recurrent: size =    4.00 MiB (     1 cells,   4 layers,  1 seqs)
sched_reserve:      CUDA0 compute buffer size =   40.00 MiB
sched_reserve:      CUDA1 compute buffer size =   50.00 MiB
sched_reserve:  CUDA_Host compute buffer size =   10.00 MiB
"""


def params(path: Path, kv_type: str = "f16", n_ctx: int = 4096) -> PairParams:
    return PairParams(path, None, n_threads=1, n_ctx=n_ctx, kv_type=kv_type)


def test_buffers_in_ram_are_told_from_those_of_devices() -> None:
    assert read_log(CUDA_LOG) == Footprint(100 * MIB, 50 * MIB, 10 * MIB)
    assert read_log(CUDA_LOG.replace("CUDA", "CPU")) == Footprint(100 * MIB, 100 * MIB, 0)


@pytest.mark.parametrize("missing", ["_cache: size", "recurrent: size", "compute buffer"])
def test_a_log_of_another_form_is_not_believed(missing: str) -> None:
    lines = [line for line in CUDA_LOG.splitlines() if missing in line]
    assert read_log("\n".join(lines)) is None


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_the_kv_cache_is_what_its_type_takes(demo_target: Path, kv_type: str) -> None:
    found = measure(demo_target, ModelParams(), params(demo_target, kv_type).target_context(8192))

    assert found is not None
    # 30 layers, 3 heads of 64 for keys and as many for values.
    assert found.kv == pytest.approx(4096 * 30 * 2 * 3 * 64 * {"f16": 64, "q8_0": 34}[kv_type] // 32, rel=0.001)


def test_the_kv_cache_is_what_the_process_grows_by(demo_target: Path) -> None:
    wanted = params(demo_target, n_ctx=8192).target_context(8192)
    predicted = measure(demo_target, ModelParams(), wanted)
    assert predicted is not None
    model = Model(open_model_file(demo_target))
    before = psutil.Process().memory_info().rss
    context = Context(model, wanted)
    grown = psutil.Process().memory_info().rss - before
    context.close()
    model.close()

    # The cache is cleared when it is made; compute buffers are only reserved until they are used.
    assert predicted.kv == pytest.approx(grown, rel=0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count the memory of a process in other ways")
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_what_a_pair_was_counted_to_take_is_what_the_process_grows_by(
    demo_target: Path, demo_draft: Path, kv_type: str
) -> None:
    wanted = PairParams(demo_target, demo_draft, n_threads=1, kv_type=kv_type, draft_kv_type=kv_type)
    counted = weighed(wanted, (None, None), (DeviceRoom("cpu", "cpu", "CPU", 1 << 40),)).plan.loads
    done = subprocess.run(
        python_command("-m", "tests.llama.grown", str(demo_target), str(demo_draft), kv_type),
        env=python_environment(),
        capture_output=True,
        check=True,
    )

    assert sum(load.need_bytes for load in counted) == pytest.approx(json.loads(done.stdout), rel=0.05)


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_the_arithmetic_from_the_header_comes_near(demo_target: Path, kv_type: str) -> None:
    wanted = params(demo_target, kv_type)
    need, n_ctx = need_of(wanted, demo_target, None, None)
    predicted = measure(demo_target, ModelParams(), wanted.target_context(8192))
    assert predicted is not None
    exact = corrected(need, predicted)

    assert n_ctx == 4096
    assert need.kv == pytest.approx(exact.kv, rel=0.001)
    assert need.total == pytest.approx(exact.total, rel=0.01)


# What it does when it cannot know


def test_a_model_that_llama_cpp_refuses_or_dies_of_has_no_prediction(tmp_path: Path, demo_target: Path) -> None:
    wanted = ContextParams(n_ctx=64, n_threads=1, n_threads_batch=1)
    (tmp_path / "text.gguf").write_text("no model")
    assert measure(tmp_path / "text.gguf", ModelParams(), wanted) is None
    # More layers than llama.cpp takes is an abort there.
    aborts = write_model(tmp_path / "aborts.gguf", llama__block_count=10_000)
    assert measure(aborts, ModelParams(), wanted) is None
    assert measure(demo_target, ModelParams(devices=("CUDA7",)), wanted) is None


@pytest.mark.parametrize("code", ["", "import os; os.abort()", "print('[1]')", "print('{}')", "print('rubbish')"])
def test_a_child_that_says_nonsense_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, demo_target: Path, code: str
) -> None:
    monkeypatch.setattr("app.core.child.python_command", lambda *_: (sys.executable, "-c", code))
    wanted = ContextParams(n_ctx=64, n_threads=1, n_threads_batch=1)

    assert measure(demo_target, ModelParams(), wanted) is None


def test_no_weight_is_read_for_a_prediction(demo_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, int]] = []
    monkeypatch.setattr(native, "llama_model_load_from_file", lambda _, raw: seen.append((raw.no_alloc, raw.load_mode)))
    with pytest.raises(SystemExit):
        load_nothing(demo_target, ModelParams(), params(demo_target).target_context(4096))
    # Mapped, it is an abort.
    assert seen == [(True, 0)]
