"""Run the engine on native pairs."""

import random
from collections.abc import Iterator, Sequence

from app.engine.draft_source import DraftSource
from app.engine.events import DraftLost, Step
from app.engine.fixed import FixedDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Logits, Strategy
from app.engine.types import Draft, DraftParams, SamplingParams
from app.llama.context import Context
from app.llama.pair import NativePair
from tests.llama.tiny_model import N_VOCAB

GREEDY = SamplingParams(temperature=0)


def events_of(
    pair: NativePair, strategy: Strategy, prompt: Sequence[int], n_tokens: int, sampling: SamplingParams = GREEDY
) -> tuple[list[object], Generator]:
    """Return the events of an answer of `n` tokens, and its generator."""
    chain = pair.new_sampler(sampling)
    generator = Generator(pair.target, strategy, chain, drafter=pair.drafter)
    request = Request(prompt, lambda token: False, n_tokens, lambda *_: None)
    events: list[object] = list(generator.run(request))
    chain.close()
    return events, generator


def answer(
    pair: NativePair, strategy: Strategy, prompt: Sequence[int], n_tokens: int, sampling: SamplingParams = GREEDY
) -> tuple[list[int], list[Step]]:
    """Return the tokens and the steps of an answer in which no draft fails."""
    events, _ = events_of(pair, strategy, prompt, n_tokens, sampling)
    assert not [event for event in events if isinstance(event, DraftLost)]
    steps = [event for event in events if isinstance(event, Step)]
    return [token for step in steps for token in step.tokens], steps


class Oracle(FixedDrafting):
    """Let a source draft, and submit as many tokens of the known answer to a prompt, some of them wrong."""

    def __init__(self, source: DraftSource, params: DraftParams, text: Sequence[int], wrong: float) -> None:
        super().__init__(source, params)
        self._source, self._text, self._wrong = source, text, wrong
        self._random = random.Random(7)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        n = len(super().propose(sequence, limit))
        known = self._text[len(sequence) : len(sequence) + n]
        tokens = tuple(t if self._random.random() >= self._wrong else (t + 7) % N_VOCAB for t in known)
        return Draft.of(self._source.kind, tokens, (0.5,) * len(tokens))


def rows_alone(context: Context, tokens: Sequence[int], first: int) -> Iterator[Logits]:
    """Yield the logits after each token from `first`, each evaluated alone in a fresh cache."""
    context.clear()
    if first:
        context.decode(tokens[:first], 0)
    for token in tokens[first:]:
        context.decode((token,), 1)
        yield context.logits(0)
