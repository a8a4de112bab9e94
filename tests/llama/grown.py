"""What a process grows by when it loads a pair and uses it: `python -m tests.llama.grown TARGET DRAFT KV_TYPE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil

from app.llama import library
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from app.llama.params import ModelParams


def grown(target: Path, draft: Path, kv_type: str) -> int:
    """Bytes, with files that are read: of mapped ones what is repacked is there twice until it is needed elsewhere."""
    library.start()
    before = psutil.Process().memory_info().rss
    params = PairParams(
        target,
        draft,
        n_threads=1,
        kv_type=kv_type,
        draft_kv_type=kv_type,
        model=ModelParams(use_mmap=False),
        draft_model=ModelParams(use_mmap=False, split=False),
    )
    pair = NativePair(params, CancelFlag(), lambda what, share: True)
    # Buffers are only reserved until they are used.
    for context in pair._contexts:
        context.decode([1] * context.n_batch, 1)
        context.clear()
        context.decode([1] * context._n_outputs, context._n_outputs)
    return int(psutil.Process().memory_info().rss - before)


if __name__ == "__main__":
    json.dump(grown(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]), sys.stdout)
