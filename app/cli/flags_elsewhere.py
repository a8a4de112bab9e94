"""What llama.cpp's programs, and others, call the flags that Tandem has under another name."""

from __future__ import annotations

ELSEWHERE = {
    "-n": "--max-tokens",
    "--predict": "--max-tokens",
    "--n-predict": "--max-tokens",
    "-c": "--ctx",
    "--ctx-size": "--ctx",
    "--num-ctx": "--ctx",
    "-t": "--threads",
    "-m": "--target",
    "--model": "--target",
    "-md": "--draft",
    "--model-draft": "--draft",
    "-ngl": "--gpu-layers",
    "--n-gpu-layers": "--gpu-layers",
    "-ngld": "--draft-gpu-layers",
    "--n-gpu-layers-draft": "--draft-gpu-layers",
    "-dev": "--device",
    "-devd": "--draft-device",
    "--device-draft": "--draft-device",
    "-ts": "--tensor-split",
    "-fa": "--flash-attn",
    "-ctk": "--kv-type",
    "--cache-type-k": "--kv-type",
    "-ctkd": "--draft-kv-type",
    "--cache-type-k-draft": "--draft-kv-type",
    "--draft-max": "--draft-n-max",
    "--draft-min": "--draft-n-min",
    "-s": "--seed",
    "-f": "--prompt-file",
    "-sys": "--system",
    "--system-prompt": "--system",
    "--temperature": "--temp",
    "-o": "--output",
}
"""Theirs to ours; a command has only some of these."""
