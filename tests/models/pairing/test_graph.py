"""The arithmetic of a model's memory against what llama.cpp reckoned for real models."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.models.pairing.cells import round_up, rounding
from app.models.pairing.graph import Graph
from app.settings.placement import KV_TYPES

RECORDED = Path(__file__).parents[2] / "data" / "footprints.toml"
SMOL = Graph(embedding=576, feed_forward=1536, query=576, key_value=384, heads=9, vocabulary=49152)


def loads() -> Iterator[Any]:
    for model in tomllib.loads(RECORDED.read_text())["models"]:
        for load in model["loads"]:
            yield pytest.param(model, load, id="-".join([model["file"].removesuffix(".gguf"), *map(str, load[:4])]))


@pytest.mark.parametrize(("model", "load"), loads())
def test_real_models_are_reckoned_within_one_percent(model: dict[str, Any], load: list[Any]) -> None:
    n_ctx, kv_type, flash, n_outputs, *recorded = load
    graph = Graph(**model["graph"])

    weights = model["file_bytes"] - model["header_bytes"]
    kv = model["kv_bytes_per_token"] * round_up(n_ctx) * KV_TYPES[kv_type].n_bytes / KV_TYPES["f16"].n_bytes
    compute = graph.compute_bytes(n_ctx, n_outputs, flash_attention=flash != "off") + graph.rows_bytes(n_outputs)

    assert kv == recorded[1]
    assert weights + kv + compute == pytest.approx(sum(recorded), rel=0.01)


def test_scores_are_written_down_without_flash_attention() -> None:
    grown = SMOL.compute_bytes(8192, flash_attention=False) - SMOL.compute_bytes(2048, flash_attention=False)

    # For each of 9 heads and once for the mask: a float for every token of the batch and every cell.
    assert grown == 10 * 512 * 4 * (8192 - 2048)


def test_the_cells_of_the_cache_come_in_blocks() -> None:
    assert [round_up(n) for n in (1, 256, 257)] == [256, 256, 512]


def test_a_context_that_becomes_longer_is_told() -> None:
    assert rounding(8) == "A context comes in steps of 256 tokens: 8 were asked for, 256 are used."
    assert rounding(10_000).endswith("10,000 were asked for, 10,240 are used.")
    assert rounding(8192) == ""


def test_a_short_context_has_short_batches() -> None:
    assert SMOL.compute_bytes(64) < SMOL.compute_bytes(512) / 7
