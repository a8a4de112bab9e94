"""What a model with a running state (Mamba, Qwen3.5, LFM2) takes for it, and whether earlier ones can be kept.

Such a model cannot be cut back to an earlier token. For some architectures llama.cpp keeps the states behind the last
few tokens of a batch besides (`n_rs_seq`), so that a draft as long as these can be rejected.
"""

from __future__ import annotations

from itertools import repeat

from app.models.gguf import GgufHeader

N_SNAPSHOTS = 7
"""Earlier states that are kept, and so the longest draft.

Drafts of so many make batches of eight rows, up to which backends multiply quantised weights row by row. Every state
takes room, and nodes of llama.cpp's graph (`app.llama.params.MAX_SNAPSHOTS`). With layers as Qwen3.5-0.8B has them, in
Q4_0 and on one thread, seven cost a plain token 5% and three 4%, with such as LFM2 has 4%.
"""
_KEPT_BYTES = 512 << 20
_LEAST_KEPT, _MOST_KEPT = 2, 8
_WITH_SNAPSHOTS = frozenset(
    (
        "bailingmoe3",
        "deepseek4",
        "glm5-next",
        "kimi-k3",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
        "qwen4exp",
    )
)
"""Architectures whose earlier states llama.cpp keeps (`llm_arch_supports_rs_rollback` in its src/llama-arch.cpp)."""
_F32 = 4
_INTERVAL = 4
"""Of layers with attention, where llama.cpp expects to be told and is not."""


def keeps_snapshots(header: GgufHeader) -> bool:
    """Whether llama.cpp can keep earlier states of this model."""
    return header.architecture in _WITH_SNAPSHOTS


def state_bytes(header: GgufHeader) -> int:
    """Bytes of one running state, of all layers; 0 for a model without."""
    return _F32 * _values(header) * _recurrent_layers(header)


def n_kept(state: int) -> int:
    """How many states of earlier prompts are kept in main memory, for edits and branches.

    Args:
        state: Bytes of one; 0 for a model without.
    """
    return max(_LEAST_KEPT, min(_MOST_KEPT, _KEPT_BYTES // state)) if state else 0


def _values(header: GgufHeader) -> int:
    """Values of one layer: the last inputs of a convolution, and what is known of all before (llama-hparams.cpp)."""
    width = header.number("embedding_length")
    if cache := header.number("shortconv.l_cache"):
        return width * (cache - 1)
    if head := header.number("wkv.head_size"):
        return width * (head + max(1, header.number("token_shift_count")))
    kernel, state = max(1, header.number("ssm.conv_kernel")), header.number("ssm.state_size")
    if head := header.number("kda.head_dim"):
        inner = head * header.number("attention.head_count")
        return 3 * (kernel - 1) * inner + head * inner
    inner, groups = header.number("ssm.inner_size"), header.number("ssm.group_count")
    return (kernel - 1) * (inner + 2 * groups * state) + state * inner


def _recurrent_layers(header: GgufHeader) -> int:
    layers = header.number("block_count")
    kv_heads, widths = header.of_architecture("attention.head_count_kv"), header.of_architecture("feed_forward_length")
    if isinstance(kv_heads, list):
        # A layer of neither attention nor recurrence is a feed-forward block alone.
        alone = widths if isinstance(widths, list) and header.architecture.startswith("nemotron_h") else repeat(0)
        return sum(not heads and not forward for heads, forward in zip(kv_heads, alone, strict=False))
    marked = header.of_architecture("attention.recurrent_layers")
    if isinstance(marked, list):
        return sum(map(bool, marked))
    if header.architecture.startswith(("qwen35", "qwen3next")):
        return layers - layers // (header.number("full_attention_interval") or _INTERVAL)
    return layers
