"""A comparison as a job for the worker, in whatever thread or process holds the pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.compare.difference import Difference, explain, first_difference
from app.compare.race import WARM_UP, Round, RoundEnded, Side, check_sides, race
from app.compare.report import Comparison
from app.core.errors import AppError, Interrupted
from app.engine.cache import common_prefix
from app.engine.events import PromptProgress, Step
from app.engine.interfaces import Controls
from app.engine.pictures import whole_pictures
from app.worker.events import Event, JobEnded, JobProgressed, Measuring
from app.worker.jobs import Job
from app.worker.request import AnswerRequest, LoadedPair, readable_by

EXPLAINING = "explaining the difference"
"""Progress text while the cause of a difference is computed."""


@dataclass(frozen=True, slots=True)
class CompareJob(Job):
    """One prompt, answered by every side in turn; see `app.compare.race`.

    Both models read the earlier messages first, once for all sides.

    Attributes:
        request: What to answer. Sampling needs a seed.
        first: Number of the first round; each side warms up before round 1.
    """

    request: AnswerRequest
    sides: tuple[Side, ...]
    rounds: int
    first: int = 1
    explains: bool = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        """Yield progress and, as `JobProgressed`, `RunBegan`, `RunEnded` and `EXPLAINING`; end with a `Comparison`.

        A stop ends the job early and is no failure. Raises AppError if the pair lacks what a side needs, or the first
        round failed.
        """
        cancelled = controls.cancelled
        check_sides(pair, self.sides)
        request = readable_by(pair, self.request)
        prefix = conversation_prefix(pair, request)
        # Save the KV cache that the comparison replaces, as for another conversation.
        pair.caches.prepare(prefix, self.request.conversation or "")
        rounds: list[Round] = []
        broken: AppError | None = None
        numbers = range(self.first if self.first > 1 else WARM_UP, self.first + self.rounds)
        try:
            for event in race(pair, self.sides, request, numbers, cancelled, prefix=prefix, number=number):
                if isinstance(event, JobProgressed) and isinstance(event.what, RoundEnded):
                    rounds.append(event.what.runs)
                # `Run` has the end of an answer and its notices.
                elif isinstance(event, JobProgressed | Measuring | PromptProgress | Step):
                    yield event
        except AppError as error:
            if not rounds:
                raise
            broken = error
        differences: dict[str, Difference | None] = {}
        if self.explains and rounds and broken is None and not cancelled():
            plain, *others = rounds[0].values()
            if any(first_difference(plain, other) is not None for other in others):
                yield JobProgressed(number, EXPLAINING)
            try:
                for other in others:
                    differences[other.contender] = explain(pair, request, plain, other, cancelled)
            except Interrupted:
                pass
            except AppError as error:
                broken = error
        yield JobEnded(number, Comparison(tuple(rounds), differences, cancelled(), broken))


def conversation_prefix(pair: LoadedPair, request: AnswerRequest) -> tuple[int, ...]:
    """Return the tokens of a conversation before its last message, or () if it does not fit the context.

    Only the chat template knows what comes between two messages, so two prompts with different last messages are built;
    the prefix is what they share.
    """
    *before, last = request.messages
    other = replace(last, content="b" if last.content.startswith("a") else "a")
    tokens = pair.prompts.build(request.messages, None, request.thinking).tokens
    if len(tokens) > pair.target.n_ctx:
        return ()
    changed = pair.prompts.build((*before, other), None, request.thinking).tokens
    return tuple(tokens[: whole_pictures(tokens, min(common_prefix(tokens, changed), len(tokens) - 1))])
