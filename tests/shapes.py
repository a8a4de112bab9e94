"""Published dimensions of the catalog's models, as GGUF metadata."""

import re
import tomllib
from pathlib import Path
from typing import Any

from app.models.gguf import TOKENS_KEY, GgufHeader
from app.models.model_facts import ModelFacts, model_facts
from app.models.source import DemoModel, HubModel, ModelSource

SHAPES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "data" / "shapes.toml").read_text("utf-8"))
_SAME_SHAPE = {"Qwen3-Coder-30B-A3B": "Qwen3-30B-A3B", "Qwen3.8-27B": "Qwen3.6-27B"}


def shape_of(source: ModelSource) -> str:
    """Return the name of a model's entry in shapes.toml."""
    if isinstance(source, DemoModel):
        return "SmolLM2-135M"
    assert isinstance(source, HubModel)
    name = source.repo.partition("/")[2]
    for long, short in _SAME_SHAPE.items():
        name = name.replace(long, short)
    found = [shape for shape in SHAPES if re.search(rf"(?:^|_){re.escape(shape)}(?![\w.])", name, re.IGNORECASE)]
    return max(found, key=len)


def facts_of_shape(name: str, size: int) -> ModelFacts:
    """Return the facts of a GGUF file with these dimensions."""
    shape = SHAPES[name]
    values = {
        "block_count": shape["layers"],
        "embedding_length": shape["hidden"],
        "attention.head_count": shape["heads"],
        "attention.head_count_kv": shape["kv_heads"],
        "attention.key_length": shape["head"],
        "attention.value_length": shape["head"],
        "attention.sliding_window": shape.get("window"),
    }
    if "experts_used" in shape:
        values |= {"expert_feed_forward_length": shape["feed_forward"], "expert_used_count": shape["experts_used"]}
    else:
        values["feed_forward_length"] = shape["feed_forward"]
    architecture = "llama"
    if "linear_values" in shape:
        architecture = "qwen35"
        values |= {
            "block_count": shape["layers"] + shape["mtp"],
            "nextn_predict_layers": shape["mtp"],
            "full_attention_interval": 4,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 128,
            "ssm.group_count": 16,
            "ssm.inner_size": 128 * shape["linear_values"],
        }
    metadata = {f"{architecture}.{key}": value for key, value in values.items() if value is not None}
    metadata |= {"general.architecture": architecture, TOKENS_KEY: [b"a"] * shape["vocabulary"]}
    return model_facts(GgufHeader(metadata), file=f"{name}.gguf", size=size)
