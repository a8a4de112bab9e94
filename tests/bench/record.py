"""Record greedy answers of a real model for replays.

    python -m tests.bench.record --target T.gguf --draft D.gguf --out tests/data/traces.jsonl
    python -m tests.bench.record --target T.gguf --out tests/data/texts.jsonl

With a draft model, the draft at every position of each answer is recorded, too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from app.conversations.message import Message, Role
from app.engine.events import Step
from app.llama.pair import NativePair
from app.worker.responder import answer
from tests.bench.lanes import greedy, load
from tests.bench.prompts import PROMPTS
from tests.bench.upper_bound import teacher_forced
from tests.recordings import Trace


def record(pair: NativePair, name: str, kind: str, prompt: str, n_tokens: int, depth: int) -> dict[str, Any]:
    """Return an answer as JSON, with a draft model as a `Trace`."""
    tokens = tuple(pair.prompts.build((Message(Role.USER, prompt),)).tokens)
    events = answer(pair, 0, greedy(prompt, None, n_tokens))
    text = tuple(token for event in events if isinstance(event, Step) for token in event.tokens)
    cache = pair.drafter.cache if pair.drafter is not None else None
    if cache is None or pair.info.draft is None:
        return {"prompt": tokens, "text": text}
    n_vocab = min(pair.info.target.n_vocab, pair.info.draft.n_vocab)
    views = list(teacher_forced(cache, n_vocab, tokens, text, depth))
    matches, confidences = tuple(m for m, _ in views), tuple(q for _, q in views)
    return Trace(name, kind, tokens, text, matches, confidences, pair.model.is_end(text[-1])).as_json()


def main() -> None:
    """Record one answer per prompt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--depth", type=int, default=16)
    args = parser.parse_args()
    pair = load(args.target, args.draft)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", encoding="utf-8") as out:
        for kind, prompts in PROMPTS.items():
            for number, prompt in enumerate(prompts, start=1):
                found = record(pair, f"{kind} {number}", kind, prompt, args.tokens, args.depth)
                out.write(json.dumps(found, separators=(",", ":")) + "\n")
                print(f"{kind} {number}: {len(found['text'])} tokens")


if __name__ == "__main__":
    main()
