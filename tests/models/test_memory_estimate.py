"""The arithmetic of a model's memory against what llama.cpp estimated for real models."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.models.gguf import read_header
from app.models.memory_estimate import (
    ContextShape,
    compute_bytes,
    estimate_memory,
    overlap_bytes,
    round_up,
    with_tensors,
)
from app.models.model_facts import GraphWidths, read_facts
from app.models.pair_info import rounding
from app.settings.placement import KV_TYPES
from tests.llama.tiny_heads import write_dense_mtp, write_target

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
    compute = compute_bytes(graph, ContextShape(n_ctx, n_outputs=n_outputs, flash_attention=flash != "off"))
    compute += 4 * n_outputs * graph.vocabulary

    assert kv == recorded[1]
    assert weights + kv + compute == pytest.approx(sum(recorded), rel=0.01)


def test_scores_are_written_down_without_flash_attention() -> None:
    grown = compute_bytes(SMOL, ContextShape(8192, flash_attention=False)) - compute_bytes(
        SMOL, ContextShape(2048, flash_attention=False)
    )

    # For each of 9 heads and once for the mask: a float for every token of the batch and every cell.
    assert grown == 10 * 512 * 4 * (8192 - 2048)


@pytest.mark.parametrize(
    ("embedding", "n_ctx", "recorded"), [(576, 2048, 10.53), (576, 8192, 28.53), (896, 16384, 55.03)]
)
def test_batches_overlap_on_several_devices(embedding: int, n_ctx: int, recorded: float) -> None:
    # Recorded on two Vulkan devices: MiB of a compute buffer beside that of one device.
    found = overlap_bytes(replace(SMOL, embedding=embedding), ContextShape(n_ctx))

    assert found / (1 << 20) == pytest.approx(recorded, rel=0.01)


def test_a_context_that_becomes_longer_is_reported() -> None:
    assert rounding(8) == "Context rounded up from 8 to 256 tokens (a multiple of 256)."
    assert "from 10,000 to 10,240" in rounding(10_000)
    assert rounding(8192) == ""


def test_a_short_context_has_short_batches() -> None:
    assert compute_bytes(SMOL, ContextShape(64)) < compute_bytes(SMOL, ContextShape(512)) / 7


def test_the_token_embedding_stays_in_ram_and_is_copied_where_it_is_the_output_too(tmp_path: Path) -> None:
    tied, untied = write_target(tmp_path / "tied.gguf"), write_dense_mtp(tmp_path / "untied.gguf")
    for path, is_tied in ((tied, True), (untied, False)):
        need = with_tensors(estimate_memory(read_facts(path), ContextShape(512)), path)
        header = read_header(path, tensors=True)
        sizes = dict(header.tensor_bytes(path.stat().st_size))

        assert need.embedding == sizes["token_embd.weight"]
        assert need.repeated == (sizes["token_embd.weight"] if is_tied else 0)
        assert need.output - sizes["output_norm.weight"] == sizes["token_embd.weight" if is_tied else "output.weight"]
        assert need.weights == sum(sizes.values())
        assert need.weights == need.embedding + need.output - need.repeated + sum(need.blocks) + sum(need.experts)


def test_mtp_layers_that_are_not_loaded_take_no_memory(tmp_path: Path) -> None:
    path = write_dense_mtp(tmp_path / "model.gguf")
    need = estimate_memory(read_facts(path), ContextShape(512))
    whole, trunk = (with_tensors(need, path, n_unused=n) for n in (0, 1))

    assert trunk.blocks == (*whole.blocks[:-1], 0)
    assert whole.weights - trunk.weights == whole.blocks[-1] + whole.experts[-1]
