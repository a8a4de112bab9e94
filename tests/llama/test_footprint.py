"""The predicted memory of a load compared with the memory used."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.llama.fitting.machine_room import needs
from app.llama.footprint import corrected, load_nothing, measure
from app.llama.library import native
from app.llama.params import PairParams
from app.models.memory_estimate import ModelMemory, draft_memory, estimate_memory
from app.models.model_facts import read_facts
from app.settings.model_params import ContextParams, ModelParams
from tests.llama.params import pair_params
from tests.llama.tiny_heads import write_dense_mtp, write_mtp
from tests.llama.tiny_hybrid import write_gemma3
from tests.llama.tiny_model import Size, write_model

pytestmark = pytest.mark.native
MIB = 1 << 20
NEED = ModelMemory("Big", 0, 0, 0, MIB, n_layers=1, n_ctx=256, states=MIB, snapshots=2 * MIB)
CUDA_LOG = """
llama_kv_cache: size =   96.00 MiB (  8192 cells,  24 layers,  1/1 seqs), K (f16):   48.00 MiB, V (f16):   48.00 MiB
llama_memory_recurrent: size =    4.00 MiB (     1 cells,   4 layers,  1 seqs)
sched_reserve:      CUDA0 compute buffer size =   40.00 MiB
sched_reserve:      CUDA1 compute buffer size =   50.00 MiB
sched_reserve:  CUDA_Host compute buffer size =   10.00 MiB
"""


def params(path: Path, kv_type: str = "f16", n_ctx: int = 4096) -> PairParams:
    return pair_params(path, None, n_threads=1, n_ctx=n_ctx, settings={"model.kv_type": kv_type})


def test_buffers_in_ram_and_on_devices_are_counted_apart() -> None:
    def read(log: str) -> tuple[int, int, int]:
        found = corrected(NEED, log)
        return found.kv, found.compute, found.host

    assert read(CUDA_LOG) == (97 * MIB, 50 * MIB, 11 * MIB)
    assert read(CUDA_LOG.replace("CUDA", "CPU")) == (97 * MIB, 100 * MIB, MIB)
    assert corrected(NEED, "") is NEED


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_a_small_window_cache_is_estimated_as_llama_cpp_does(kv_type: str, tmp_path: Path) -> None:
    wanted = params(write_gemma3(tmp_path / "model.gguf", context_length=8192), kv_type, 8192).over(
        {"model.swa_full": "off"}
    )
    full = needs(wanted.over({"model.swa_full": "auto"}), ()).target
    small = needs(wanted, ()).target
    exact = measure(small, wanted.target, ModelParams(), wanted.target_context(8192))

    assert exact is not small
    # The log has hundredths of a MiB.
    assert small.kv == pytest.approx(exact.kv, rel=0.005)
    assert small.window_gain == 0
    # One of the two layers has 768 cells for the window and a batch.
    assert full.window_gain == full.kv - small.kv == full.kv // 2 * (8192 - 768) // 8192


@pytest.mark.parametrize("write", [write_mtp, write_dense_mtp])
def test_recurrent_and_mtp_layers_take_no_kv_cache(write: Callable[[Path, Size], Path], tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", Size(n_heads=8, head=64, n_repeats=2))
    facts = read_facts(path)
    need = estimate_memory(facts, ContextParams(1024))
    exact = measure(need, path, ModelParams(), params(path, n_ctx=1024).target_context(1024))

    assert exact is not need
    # Minus the estimated states, which would be wrong by 3% for one more layer.
    assert need.kv == pytest.approx(exact.kv, rel=0.01)
    # Keys and values of 512 numbers in 16 bits for each token.
    assert draft_memory(facts, None, ContextParams(1024)).kv == 2 * MIB


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_the_estimate_from_the_header_is_close(demo_target: Path, kv_type: str) -> None:
    wanted = params(demo_target, kv_type)
    need = needs(wanted, ()).target
    exact = measure(need, demo_target, ModelParams(), wanted.target_context(8192))

    assert exact is not need
    assert need.n_ctx == 4096
    assert need.kv == pytest.approx(exact.kv, rel=0.001)
    assert need.total == pytest.approx(exact.total, rel=0.01)


# Models that cannot be measured


def test_a_model_that_llama_cpp_refuses_or_aborts_on_has_no_footprint(tmp_path: Path, demo_target: Path) -> None:
    wanted = ContextParams(64)
    (tmp_path / "text.gguf").write_text("no model")
    assert measure(NEED, tmp_path / "text.gguf", ModelParams(), wanted) is NEED
    # More layers than llama.cpp allows would abort.
    aborts = write_model(tmp_path / "aborts.gguf", llama__block_count=10_000)
    assert measure(NEED, aborts, ModelParams(), wanted) is NEED
    assert measure(NEED, demo_target, ModelParams(devices=("CUDA7",)), wanted) is NEED


def test_measuring_the_footprint_reads_no_weights(demo_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, int]] = []
    monkeypatch.setattr(native, "llama_model_load_from_file", lambda _, raw: seen.append((raw.no_alloc, raw.load_mode)))
    assert not load_nothing(demo_target, ModelParams(), params(demo_target).target_context(4096))
    # A mapped file would abort.
    assert seen == [(True, 0)]
