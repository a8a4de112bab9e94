"""Memory of a model by its header, and of a pair by the figures of its catalog entry."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core.units import GB
from app.hardware.recommend import (
    weigh,
)
from app.llama.fitting.machine_room import needs
from app.models.catalog import Catalog, Pair, WorkingMemory, read_pair, shipped_file, write_pair
from app.models.compatibility import PairCheck, check_pair, with_facts
from app.models.gguf import read_header
from app.models.memory_estimate import (
    compute_bytes,
    estimate_memory,
    overlap_bytes,
    round_up,
    with_tensors,
)
from app.models.model_facts import GraphWidths, ModelFacts, model_facts, read_facts
from app.models.pair_info import rounding
from app.models.pair_summary import pair_memory, weights, with_files
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import HubModel
from app.settings.model_params import ContextParams
from app.settings.placement import KV_TYPES
from tests.capacities import in_ram
from tests.llama.params import pair_params
from tests.llama.tiny_heads import write_dense_mtp, write_target
from tests.shapes import SHAPES, facts_of_shape, shape_of

RECORDED = Path(__file__).parents[1] / "data" / "footprints.toml"
SMOL = GraphWidths(embedding=576, feed_forward=1536, query=576, key_value=384, heads=9, vocabulary=49152)


def loads() -> Iterator[Any]:
    for model in tomllib.loads(RECORDED.read_text())["models"]:
        for load in model["loads"]:
            yield pytest.param(model, load, id="-".join([model["file"].removesuffix(".gguf"), *map(str, load[:4])]))


@pytest.mark.parametrize(("model", "load"), loads())
def test_real_models_are_reckoned_within_one_percent(model: dict[str, Any], load: list[Any]) -> None:
    n_ctx, kv_type, flash, n_outputs, *recorded = load
    graph = GraphWidths(**model["graph"])

    weights = model["file_bytes"] - model["header_bytes"]
    kv = model["kv_bytes_per_token"] * round_up(n_ctx) * KV_TYPES[kv_type].n_bytes / KV_TYPES["f16"].n_bytes
    compute = compute_bytes(graph, ContextParams(n_ctx, n_outputs=n_outputs, flash_attention=flash))
    compute += 4 * n_outputs * graph.vocabulary

    assert kv == recorded[1]
    assert weights + kv + compute == pytest.approx(sum(recorded), rel=0.01)


def test_scores_are_written_down_without_flash_attention() -> None:
    grown = compute_bytes(SMOL, ContextParams(8192, flash_attention="off")) - compute_bytes(
        SMOL, ContextParams(2048, flash_attention="off")
    )

    # For each of 9 heads and once for the mask: a float for every token of the batch and every cell.
    assert grown == 10 * 512 * 4 * (8192 - 2048)


@pytest.mark.parametrize(
    ("embedding", "n_ctx", "recorded"), [(576, 2048, 10.53), (576, 8192, 28.53), (896, 16384, 55.03)]
)
def test_batches_overlap_on_several_devices(embedding: int, n_ctx: int, recorded: float) -> None:
    # Recorded on two Vulkan devices: MiB of a compute buffer beside that of one device.
    found = overlap_bytes(replace(SMOL, embedding=embedding), ContextParams(n_ctx))

    assert found / (1 << 20) == pytest.approx(recorded, rel=0.01)


def test_a_context_that_becomes_longer_is_reported() -> None:
    assert rounding(8) == "Context rounded up from 8 to 256 tokens (a multiple of 256)."
    assert "from 10,000 to 10,240" in (rounding(10_000) or "")
    assert rounding(8192) is None


def test_a_short_context_has_short_batches() -> None:
    assert compute_bytes(SMOL, ContextParams(64)) < compute_bytes(SMOL, ContextParams(512)) / 7


def test_the_token_embedding_stays_in_ram_and_is_copied_where_it_is_the_output_too(tmp_path: Path) -> None:
    tied, untied = write_target(tmp_path / "tied.gguf"), write_dense_mtp(tmp_path / "untied.gguf")
    for path, is_tied in ((tied, True), (untied, False)):
        need = with_tensors(estimate_memory(read_facts(path), ContextParams(512)), path)
        header = read_header(path, tensors=True)
        sizes = dict(header.tensor_bytes(path.stat().st_size))

        assert need.embedding == sizes["token_embd.weight"]
        assert need.repeated == (sizes["token_embd.weight"] if is_tied else 0)
        assert need.output - sizes["output_norm.weight"] == sizes["token_embd.weight" if is_tied else "output.weight"]
        assert need.weights == sum(sizes.values())
        assert need.weights == need.embedding + need.output - need.repeated + sum(need.blocks) + sum(need.experts)


def test_mtp_layers_that_are_not_loaded_take_no_memory(tmp_path: Path) -> None:
    path = write_dense_mtp(tmp_path / "model.gguf")
    need = estimate_memory(read_facts(path), ContextParams(512))
    whole, trunk = (with_tensors(need, path, n_unused=n) for n in (0, 1))

    assert trunk.blocks == (*whole.blocks[:-1], 0)
    assert whole.weights - trunk.weights == whole.blocks[-1] + whole.experts[-1]


BY_NAME = Catalog(shipped_file()).pairs
CATALOG = list(BY_NAME.values())
PAIRS = [pytest.param(pair, id=name) for name, pair in BY_NAME.items()]
PAIRS_WITH_SHAPE = [param for param in PAIRS if BY_NAME[str(param.id)].working is not None]
"""Pairs with an estimate; the memory of other pairs is a guess until their headers are read."""
BIG = Pair("big", "Big", HubModel("a/big", size=10 * GB), None, working=WorkingMemory(100_000, GB, GB))


def check_of(pair: Pair) -> PairCheck:
    """Return a check by the published shapes of a pair's models."""
    target, *draft = (facts_of_shape(shape_of(source), 0) for source in pair.sources)
    return check_pair(target, draft[0] if draft else None)


def real_facts(path: Path) -> ModelFacts:
    return model_facts(read_header(path, tensors=True), file=path.name, size=path.stat().st_size)


@pytest.mark.parametrize("pair", PAIRS_WITH_SHAPE)
def test_the_catalog_has_the_memory_that_the_headers_give(pair: Pair) -> None:
    assert pair.working == check_of(pair).overhead


@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_fits_into_its_memory_class(pair: Pair) -> None:
    memory = pair_memory(pair, 8192)
    assert memory.total - memory.always_ram <= pair.memory_gb * GB


def same_shape(real: ModelFacts, shape: str) -> bool:
    published = facts_of_shape(shape, 0)
    return (real.kv_bytes_per_token, real.graph, real.n_layers) == (
        published.kv_bytes_per_token,
        published.graph,
        published.n_layers,
    )


def test_a_header_has_the_published_shape(demo_target: Path) -> None:
    assert same_shape(real_facts(demo_target), "SmolLM2-135M")


def test_every_shape_is_used() -> None:
    of_pairs = {shape_of(source) for pair in CATALOG if pair.working for source in pair.sources}
    # tests/hardware/test_fit.py plans these two.
    assert of_pairs | {"Qwen3-0.6B", "Qwen3-32B"} == set(SHAPES)


def test_a_check_and_a_load_estimate_the_same_memory(demo_target: Path, demo_draft: Path) -> None:
    check = check_pair(real_facts(demo_target), real_facts(demo_draft))
    loaded = needs(pair_params(demo_target, demo_draft, 1, 4096), ())

    assert check.memory_bytes(4096) == loaded.total


@pytest.mark.parametrize("pair", PAIRS_WITH_SHAPE)
@pytest.mark.parametrize("n_ctx", [8192, 16384, 65536])
def test_the_catalog_estimates_longer_contexts_within_two_percent(pair: Pair, n_ctx: int) -> None:
    memory = pair_memory(replace(pair, context=0), n_ctx)

    expected = check_of(pair).memory_bytes(n_ctx)
    assert memory.total - memory.weights == pytest.approx(expected, rel=0 if n_ctx <= 16384 else 0.02)


@pytest.mark.parametrize("swa_full", [True, False])
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_memory_grows_with_the_context_as_an_estimate_of_that_length(shape: str, swa_full: bool) -> None:
    facts = facts_of_shape(shape, 0)
    short, long = (estimate_memory(facts, ContextParams(n, swa_full=swa_full)) for n in (8192, 65_536))

    assert short.with_context(65_536).total == pytest.approx(long.total, rel=0.001)
    assert long.with_context(8192).total == pytest.approx(short.total, rel=0.02)
    assert short.with_context(65_536).overlap == pytest.approx(long.overlap, rel=0.001)


def test_overlapping_batches_grow_with_the_context_on_each_of_several_measured_devices() -> None:
    short, long = (estimate_memory(facts_of_shape(sorted(SHAPES)[0], 0), ContextParams(n)) for n in (8192, 65_536))

    def grown(*names: str) -> list[int]:
        measured = replace(short, compute_on=tuple((name, short.compute) for name in names))
        return [n - short.compute for _, n in measured.with_context(65_536).compute_on]

    more = long.compute - short.compute
    assert grown("cuda0") == [more]
    assert grown("cuda0", "cuda1") == [more + long.overlap - short.overlap] * 2


@pytest.mark.parametrize("name", sorted(name for name, pair in BY_NAME.items() if name != "demo" and pair.working))
def test_a_guess_is_marked_and_near_the_estimate(name: str) -> None:
    pair = BY_NAME[name]
    guessed = replace(pair, working=None)

    assert 0.6 < pair_memory(guessed, 8192).total / pair_memory(pair, 8192).total < 1.5
    assert weigh(guessed, in_ram(999 * GB)).reason.startswith("about ")


# Facts of the headers


def test_facts_of_the_headers_replace_those_of_the_catalog_and_are_stored(tmp_path: Path) -> None:
    check = check_of(BY_NAME["qwen3.5-4b"])
    known = with_facts(replace(BIG, working=WorkingMemory(1, 2, 3)), check)

    assert known.working == check.overhead
    assert read_pair("big", write_pair(known), tmp_path / "pairs.toml") == known
    file = ModelOnDisk(tmp_path / "big.gguf", 9 * GB)
    assert weights(with_files(BIG, SetUp(known, file))) == 9 * GB
    assert with_files(BIG, SetUp(known, file)).working == check.overhead
    assert with_files(BIG, SetUp(replace(known, working=None), file)).working == BIG.working


def test_the_header_limits_the_context_of_a_pair() -> None:
    check = check_of(BY_NAME["qwen3.5-4b"])
    short = replace(check, target=replace(check.target, n_ctx_train=2000))

    assert with_facts(BIG, short).context == 2048
    assert with_facts(replace(BIG, context=4096), short).context == 4096
    assert with_facts(BIG, check).context == 0, "its file does not say"


def test_absurd_header_sizes_are_not_registered() -> None:
    vast = check_of(BY_NAME["qwen3.5-4b"])
    vast = replace(vast, target=replace(vast.target, kv_bytes_per_token=1 << 64))

    assert with_facts(BIG, vast).working == BIG.working
