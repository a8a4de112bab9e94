"""Records traces of a real pair for replays.

python -m tests.bench.record --target T.gguf --draft D.gguf --out tests/data/traces.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Generator, Sequence
from pathlib import Path

from app.compare.upper_bound import Trace, teacher_forced
from app.conversations.message import Message, Role
from app.core.errors import Interrupted, UsageError
from app.engine.generator import Generator as AnswerGenerator
from app.engine.generator import Request
from app.engine.interfaces import Cancelled, Controls
from app.engine.no_draft import NoDrafting
from app.engine.types import FinishReason, Origin, SamplingParams, Step
from app.hardware.cpu import default_threads
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from app.settings.thinking import AS_TRAINED, Thinking
from app.worker.request import LoadedPair
from tests.bench.prompts import PROMPTS


def record(
    pair: LoadedPair,
    messages: Sequence[Message],
    *,
    name: str,
    kind: str,
    n_tokens: int,
    depth: int,
    cancelled: Cancelled,
    thinking: Thinking = AS_TRAINED,
) -> Generator[float, None, Trace]:
    """Answer a prompt greedily and plainly, then let the draft model follow the answer place by place.

    Args:
        pair: A pair with a draft model.
        messages: What to ask, ending with the user.
        name: What the trace is called.
        kind: Its kind of text.
        n_tokens: Longest answer.
        depth: How far to draft at each place.
        cancelled: Stops between two tokens.
        thinking: Whether the target is to think before it answers.

    Yields:
        The share done.

    Raises:
        UsageError: There is no draft model.
        Interrupted: Cancelled.
    """
    if pair.drafter is None or pair.info.draft is None:
        raise UsageError("A trace needs a draft model.", "Name one with --draft, or choose a pair that has one.")
    tokens = pair.build_prompt(messages, thinking=thinking).tokens
    text: list[int] = []

    def observe(token: int, _: Origin) -> FinishReason | None:
        text.append(token)
        return None

    sampler = pair.new_sampler(SamplingParams(temperature=0))
    try:
        answer = AnswerGenerator(pair.target, NoDrafting(), sampler)
        for event in answer.run(Request(tokens, pair.is_end, n_tokens, observe, Controls(cancelled))):
            if isinstance(event, Step):
                yield 0.5 * len(text) / n_tokens
    finally:
        sampler.close()
    if answer.finish is FinishReason.CANCELLED:
        raise Interrupted
    n_vocab = min(pair.info.target.n_vocab, pair.info.draft.n_vocab)
    views = []
    for view in teacher_forced(pair.drafter.cache, n_vocab, tokens, text, depth):
        if cancelled():
            raise Interrupted
        views.append(view)
        yield 0.5 + 0.5 * len(views) / len(text)
    matches, confidences = tuple(m for m, _ in views), tuple(q for _, q in views)
    return Trace(name, kind, tuple(tokens), tuple(text), matches, confidences, pair.is_end(text[-1]))


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
