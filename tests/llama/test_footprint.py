"""What a load will take, told before it, against what it takes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.core.child import python_command, python_environment
from app.hardware.device_room import DeviceRoom
from app.llama import footprint, library
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.fitting.needs import by_parts, need_of
from app.llama.fitting.weighing import weighed
from app.llama.footprint import MAIN, Part, breakdown, can_measure, measure
from app.llama.library import native
from app.llama.model import Model
from app.llama.pair_params import PairParams
from app.llama.params import ContextParams, ModelParams
from tests.llama.tiny_model import write_model

pytestmark = pytest.mark.native
MIB = 1 << 20
measured_here = pytest.mark.skipif(not can_measure(), reason="this build of llama.cpp cannot be asked")


def params(path: Path, kv_type: str = "f16", n_ctx: int = 4096) -> PairParams:
    return PairParams(path, None, n_threads=1, n_ctx=n_ctx, kv_type=kv_type)


def real(path: Path, wanted: ContextParams) -> tuple[Part, ...]:
    """Load a model for good and read what it took."""
    model = Model(open_model_file(path))
    try:
        context = Context(model, wanted)
        return breakdown(context._handle, wanted.n_outputs * model.n_vocab * 4)
    finally:
        model.close()


@measured_here
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_the_prediction_is_what_a_load_takes(demo_target: Path, kv_type: str) -> None:
    wanted = params(demo_target, kv_type).target_context(8192)

    predicted = measure(demo_target, ModelParams(), wanted)
    assert predicted is not None
    (before,) = predicted
    (after,) = real(demo_target, wanted)

    assert before.device == after.device == MAIN
    assert before.kv == pytest.approx(after.kv, rel=0.001)
    assert before.compute == pytest.approx(after.compute, rel=0.001)
    # 30 layers, 3 heads of 64 for keys and as many for values.
    assert before.kv == 4096 * 30 * 2 * 3 * 64 * {"f16": 64, "q8_0": 34}[kv_type] // 32
    assert before.weights == pytest.approx(demo_target.stat().st_size, rel=0.05)


@measured_here
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
    assert sum(part.kv for part in predicted) == pytest.approx(grown, rel=0.05)


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


@measured_here
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_the_arithmetic_from_the_header_comes_near(demo_target: Path, kv_type: str) -> None:
    wanted = params(demo_target, kv_type)
    need, n_ctx = need_of(wanted, demo_target, None, None)
    predicted = measure(demo_target, ModelParams(), wanted.target_context(8192))
    assert predicted is not None
    exact = by_parts(need, predicted)

    assert n_ctx == 4096
    assert need.kv == exact.kv
    assert need.weights == pytest.approx(exact.weights, rel=0.001)
    assert need.total == pytest.approx(exact.total, rel=0.01)
    assert exact.host == 0


@pytest.mark.real_pair
@measured_here
def test_a_real_model_that_is_repacked(real_model: Callable[[str], Path]) -> None:
    path = real_model("qwen2.5-coder-0.5b-instruct-q4_0.gguf")
    wanted = params(path, "q8_0").target_context(32768)

    predicted = measure(path, ModelParams(), wanted)
    assert predicted is not None
    (before,), (after,) = predicted, real(path, wanted)

    assert (before.kv, before.compute) == pytest.approx((after.kv, after.compute), rel=0.001)
    # What is mapped and then repacked is counted twice after the load, and given back when it is needed.
    assert before.weights == pytest.approx(path.stat().st_size, rel=0.05)
    assert after.weights > before.weights


def test_what_is_on_a_card_and_what_stays_in_main_memory(demo_target: Path) -> None:
    need, _ = need_of(params(demo_target), demo_target, None, None)
    parts = (Part(MAIN, 30 * MIB, 0, 5 * MIB), Part("CUDA0", 60 * MIB, 80 * MIB, 20 * MIB), Part("CUDA1", 40, 2, 3))

    found = by_parts(need, parts)

    assert (found.weights, found.kv) == (60 * MIB + 40, 80 * MIB + 2)
    assert (found.compute, found.host) == (20 * MIB, 35 * MIB)


# What it does when it cannot know


@measured_here
def test_a_model_that_llama_cpp_refuses_or_dies_of_has_no_prediction(tmp_path: Path, demo_target: Path) -> None:
    wanted = ContextParams(n_ctx=64, n_threads=1, n_threads_batch=1)
    (tmp_path / "text.gguf").write_text("no model")
    assert measure(tmp_path / "text.gguf", ModelParams(), wanted) is None
    # More layers than llama.cpp takes is an abort there.
    aborts = write_model(tmp_path / "aborts.gguf", llama__block_count=10_000)
    assert measure(aborts, ModelParams(), wanted) is None
    assert measure(demo_target, ModelParams(devices=("CUDA7",)), wanted) is None


@pytest.mark.parametrize("code", ["", "import os; os.abort()", "print('[1]')", "print('[{}]')", "print('rubbish')"])
def test_a_child_that_says_nonsense_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, demo_target: Path, code: str
) -> None:
    monkeypatch.setattr(footprint, "can_measure", lambda: True)
    monkeypatch.setattr("app.core.child.python_command", lambda *_: (sys.executable, "-c", code))
    wanted = ContextParams(n_ctx=64, n_threads=1, n_threads_batch=1)

    assert measure(demo_target, ModelParams(), wanted) is None


def test_another_platform_or_release_is_not_asked(monkeypatch: pytest.MonkeyPatch, demo_target: Path) -> None:
    monkeypatch.setattr(library, "binding_version", "0.4.0")
    monkeypatch.setattr(footprint, "ask_python", lambda *_: pytest.fail("it was asked"))

    assert not can_measure()
    assert measure(demo_target, ModelParams(), ContextParams(n_ctx=64, n_threads=1, n_threads_batch=1)) is None


def test_the_settings_reach_the_child_unchanged(demo_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(footprint, "can_measure", lambda: True)

    def answer(code: str, seconds: float, question: bytes) -> Any:
        seen.append(question)
        return subprocess.CompletedProcess([], 0, stdout=b'[{"device": "CPU", "weights": 1, "kv": 2, "compute": 3}]\n')

    monkeypatch.setattr(footprint, "ask_python", answer)
    model = ModelParams(7, devices=("CUDA0", "CUDA1"), tensor_split=(3, 1))
    context = replace(params(demo_target).target_context(4096), kv_type="q8_0")

    assert measure(demo_target, model, context) == (Part("CPU", 1, 2, 3),)

    planned: list[Any] = []

    def plan(*arguments: Any) -> tuple[Part, ...]:
        planned.extend(arguments)
        raise SystemExit(0)

    monkeypatch.setattr(footprint, "_planned", plan)
    monkeypatch.setattr("sys.stdin", io.StringIO(seen[0].decode()))
    with pytest.raises(SystemExit):
        footprint._tell()
    assert planned == [demo_target, model, context]


def test_no_weight_is_read_for_a_prediction(demo_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, int]] = []
    monkeypatch.setattr(native, "llama_model_load_from_file", lambda _, raw: seen.append((raw.no_alloc, raw.load_mode)))
    with pytest.raises(SystemExit):
        footprint._planned(demo_target, ModelParams(), params(demo_target).target_context(4096))
    # Mapped, it is an abort.
    assert seen == [(True, 0)]
