"""Records traces of a real pair for replays.

python -m tests.bench.record --target T.gguf --draft D.gguf --out tests/data/traces.jsonl
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from app.compare.recording import record
from app.compare.replay import Trace
from app.conversations.message import Message, Role
from app.hardware.cpu import default_threads
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from tests.bench.prompts import PROMPTS


def main() -> None:
    """Record one trace a prompt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--depth", type=int, default=16)
    args = parser.parse_args()
    params = PairParams(args.target, args.draft, n_threads=default_threads(), n_ctx=4096)
    pair = NativePair(params, CancelFlag(), lambda what, share: True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", encoding="utf-8") as out:
        for kind, prompts in PROMPTS.items():
            for number, prompt in enumerate(prompts, start=1):
                trace = record_all(pair, f"{kind} {number}", kind, prompt, args.tokens, args.depth)
                out.write(json.dumps(trace.as_json(), separators=(",", ":")) + "\n")
                print(
                    f"{trace.name}: {len(trace.text)} tokens, mean match {sum(trace.matches) / len(trace.matches):.1f}"
                )


def record_all(pair: NativePair, name: str, kind: str, prompt: str, n_tokens: int, depth: int) -> Trace:
    """Record a trace to its end."""
    asked = (Message(Role.USER, prompt),)
    recording = record(pair, asked, name=name, kind=kind, n_tokens=n_tokens, depth=depth, cancelled=lambda: False)
    while True:
        try:
            next(recording)
        except StopIteration as done:
            trace: Trace = done.value
            return trace


if __name__ == "__main__":
    main()
