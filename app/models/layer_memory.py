"""Estimate from a header what each layer stores of the context: keys and values, sliding windows, recurrent state."""

from __future__ import annotations

from itertools import repeat

from app.models.gguf import GgufHeader

_F16_BYTES = 2
"""Bytes of a value in the KV cache."""
_FULL_EVERY = {"gemma3": 6, "gemma3n": 5, "cohere2": 4, "olmo2": 4, "exaone4": 4}
"""Period of the layers without a sliding window if the file lacks it; 2 in other architectures."""
SHARED_SHARE = 0.05
"""Usual share of a mixture of experts outside its experts; small models with a large vocabulary have up to 0.16."""
_ATTENTION_INTERVAL = 4
"""Every fourth layer of Qwen3.5 has attention if the file does not say."""


def head_widths(header: GgufHeader) -> tuple[int, int, int]:
    """Return the number of query heads and the widths of a key and of a value."""
    heads, width = max(1, header.number("attention.head_count")), header.number("embedding_length")
    key = header.number("attention.key_length") or width // heads
    return heads, key, header.number("attention.value_length") or width // heads


def kv_bytes(header: GgufHeader) -> int:
    """Return the bytes of keys and values of a token in all layers except MTP layers; sliding windows count in full."""
    if by_layer := _kv_widths(header):
        return _F16_BYTES * sum(values for values, _ in by_layer)
    heads, key, value = head_widths(header)
    kv_heads, layers = header.of_architecture("attention.head_count_kv"), _trunk(header)
    if isinstance(kv_heads, list):
        total = sum(n for n in kv_heads[:layers] if isinstance(n, int) and n > 0)
    else:
        layers -= recurrent_layers(header) if _alternates(header) else 0
        total = layers * (kv_heads if isinstance(kv_heads, int) and kv_heads > 0 else heads)
    return _F16_BYTES * total * (key + value)


def cached_layers(header: GgufHeader) -> int:
    """Return how many leading layers store a part of the context; the last layers of Gemma 4 share theirs."""
    return max(0, _trunk(header) - header.number("attention.shared_kv_layers"))


def _kv_widths(header: GgufHeader) -> list[tuple[int, bool]]:
    """Return the values in the KV cache of each layer, and whether it has a sliding window; [] if all layers are alike.

    Gemma 4 has narrower heads in layers with a window.
    """
    pattern, narrow = header.of_architecture("attention.sliding_window_pattern"), "attention.key_length_swa"
    if not isinstance(pattern, list) or not header.number(narrow):
        return []
    n_layers = cached_layers(header)
    kv_heads, (heads, key, value) = header.of_architecture("attention.head_count_kv"), head_widths(header)
    by_layer = kv_heads if isinstance(kv_heads, list) else repeat(header.number("attention.head_count_kv") or heads)
    in_window = header.number(narrow) + (header.number("attention.value_length_swa") or header.number(narrow))
    layers = zip(by_layer, pattern[:n_layers], strict=False)
    counted = ((n, bool(is_window)) for n, is_window in layers if isinstance(n, int) and n > 0)
    return [(n * (in_window if is_window else key + value), is_window) for n, is_window in counted]


def _trunk(header: GgufHeader) -> int:
    """Return the number of layers without MTP layers, which have a separate context."""
    return max(0, header.number("block_count") - header.number("nextn_predict_layers"))


def _alternates(header: GgufHeader) -> bool:
    """Return whether each layer has either attention or recurrence, at a fixed interval."""
    return header.architecture.startswith(("qwen35", "qwen3next"))


def state_values(header: GgufHeader) -> int:
    """Return the values of a recurrent layer: convolution inputs and state (llama.cpp's llama-hparams.cpp)."""
    width = header.number("embedding_length")
    if cache := header.number("shortconv.l_cache"):
        return width * (cache - 1)
    kernel, state = max(1, header.number("ssm.conv_kernel")), header.number("ssm.state_size")
    inner, groups = header.number("ssm.inner_size"), header.number("ssm.group_count")
    return (kernel - 1) * (inner + 2 * groups * state) + state * inner


def recurrent_layers(header: GgufHeader) -> int:
    """Return the number of layers with recurrent state."""
    layers = _trunk(header)
    kv_heads, widths = header.of_architecture("attention.head_count_kv"), header.of_architecture("feed_forward_length")
    if isinstance(kv_heads, list):
        # In Nemotron-H a layer with neither attention nor recurrence is a feed-forward block.
        forward = widths if isinstance(widths, list) and header.architecture.startswith("nemotron_h") else repeat(0)
        return sum(not heads and not width for heads, width in zip(kv_heads[:layers], forward, strict=False))
    marked = header.of_architecture("attention.recurrent_layers")
    if isinstance(marked, list):
        return sum(map(bool, marked))
    if _alternates(header):
        return layers - layers // (header.number("full_attention_interval") or _ATTENTION_INTERVAL)
    return layers


def window_share(header: GgufHeader) -> float:
    """Return the share of the KV cache with a sliding window; by default, llama.cpp's own pattern."""
    if layers := _kv_widths(header):
        return sum(values for values, is_window in layers if is_window) / max(1, sum(values for values, _ in layers))
    pattern = header.of_architecture("attention.sliding_window_pattern")
    if isinstance(pattern, list) and pattern:
        return sum(map(bool, pattern)) / len(pattern)
    every = pattern if isinstance(pattern, int) and pattern > 0 else _FULL_EVERY.get(header.architecture, 2)
    return 1 - 1 / every
