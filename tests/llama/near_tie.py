"""Greedy tokens of one model on two devices, and how near the choice was where they part; run in a process of its own.

`python -m tests.llama.near_tie MODEL DEVICE N` prints one JSON object.
"""

import json
import sys
from pathlib import Path

from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.model import Model
from app.llama.params import ContextParams, ModelParams
from app.settings.placement import CPU

_PROMPT = "The capital of France is Paris, and the capital of Italy is"


def greedy(path: Path, device: str, forced: list[int], n: int) -> tuple[list[int], list[list[float]]]:
    """The prompt, then either given tokens or the device's own; its choices, and the rows that they came from."""
    model = Model(open_model_file(path), ModelParams(devices=(device,), split=False))
    context = Context(model, ContextParams(n_ctx=128, n_threads=1, n_threads_batch=1, n_outputs=1))
    context.decode(model.tokenize(_PROMPT, parse_special=False), 1)
    chosen, rows = [], []
    for i in range(n):
        row = context.logits(0)
        rows.append(row.tolist())
        chosen.append(int(row.argmax()))
        if i + 1 < n:
            context.decode([forced[i] if forced else chosen[-1]], 1)
    context.close()
    model.close()
    return chosen, rows


def main(path: Path, device: str, n: int) -> dict[str, object]:
    """Print the device's choice, the CPU's choice and its margin, and the largest difference of logits."""
    there, rows_there = greedy(path, device, [], n)
    here, rows_here = greedy(path, CPU, there, n)
    pairs = list(zip(here, there, rows_here, rows_there, strict=True))
    return {
        "device": there,
        "cpu": here,
        "margins": [row[mine] - row[theirs] for mine, theirs, row, _ in pairs],
        "largest": max(abs(a - b) for _, _, mine, theirs in pairs for a, b in zip(mine, theirs, strict=True)),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))  # noqa: T201
