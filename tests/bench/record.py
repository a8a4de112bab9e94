"""Records traces of a real pair for replays.

python -m tests.bench.record --target T.gguf --draft D.gguf --out tests/data/traces.jsonl
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from app.chat.message import Message, Role
from app.engine.cache import TokenCache
from app.engine.drafters import ModelDrafter
from app.engine.generator import Generator, Request
from app.engine.strategies import PlainDecoding
from app.engine.tuning.trace import Trace, teacher_forced
from app.engine.types import FinishReason, Origin, SamplingParams
from app.hardware.cpu import default_threads
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair, PairParams
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
    assert isinstance(pair.drafter, ModelDrafter)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", encoding="utf-8") as out:
        for kind, prompts in PROMPTS.items():
            for number, prompt in enumerate(prompts, start=1):
                trace = _record(pair, pair.drafter.cache, f"{kind} {number}", kind, prompt, args.tokens, args.depth)
                out.write(json.dumps(trace.as_json(), separators=(",", ":")) + "\n")
                print(
                    f"{trace.name}: {len(trace.text)} tokens, mean match {sum(trace.matches) / len(trace.matches):.1f}"
                )


def _record(pair: NativePair, draft: TokenCache, name: str, kind: str, prompt: str, n_tokens: int, depth: int) -> Trace:
    """The target's greedy answer, and the draft's view of every place of it."""
    tokens = pair.build_prompt((Message(Role.USER, prompt),)).tokens
    text: list[int] = []

    def observe(token: int, _: Origin) -> FinishReason | None:
        text.append(token)
        return None

    sampler = pair.new_sampler(SamplingParams(temperature=0))
    generator = Generator(pair.target, PlainDecoding(), sampler)
    for _ in generator.run(Request(tokens, pair.is_end, n_tokens, observe, lambda: False)):
        pass
    views = list(teacher_forced(draft, draft_vocabulary(pair), tokens, text, depth))
    return Trace(name, kind, tokens, tuple(text), tuple(m for m, _ in views), tuple(q for _, q in views))


def draft_vocabulary(pair: NativePair) -> int:
    """Ids that both models share."""
    assert pair.info.draft is not None
    return min(pair.info.target.n_vocab, pair.info.draft.n_vocab)


if __name__ == "__main__":
    main()
