"""Recording traces: an answer of a loaded pair, and what its draft model would have said at every place of it."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from app.compare.replay import Trace, teacher_forced
from app.conversations.message import Message
from app.core.errors import Interrupted, UsageError
from app.engine.generator import Generator as AnswerGenerator
from app.engine.generator import Request
from app.engine.interfaces import Cancelled, Controls
from app.engine.no_draft import NoDrafting
from app.engine.types import FinishReason, Origin, SamplingParams, Step
from app.settings.thinking import AS_TRAINED, Thinking
from app.worker.request import LoadedPair


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
