"""Which models keep a running state that their cache cannot be cut out of, told before anything is downloaded."""

from __future__ import annotations

_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
_HYBRID = frozenset(
    {
        "bailingmoe3",
        "deepseek4",
        "falcon-h1",
        "glm5-next",
        "granitehybrid",
        "jamba",
        "kimi-k3",
        "kimi-linear",
        "lfm2",
        "lfm2moe",
        "minimax-01",
        "nemotron_h",
        "nemotron_h_moe",
        "plamo2",
        "qwen35",
        "qwen35moe",
        "qwen3next",
        "qwen4exp",
    }
)
"""Attention in some layers only."""


def keeps_running_state(architecture: str) -> bool:
    """Whether llama.cpp counts an architecture among the recurrent or the hybrid ones (its src/llama-arch.cpp).

    Args:
        architecture: As a model file names it.
    """
    return architecture in _RECURRENT or architecture in _HYBRID
