"""Runs with given counters, and the rounds of a race."""

from collections.abc import Iterable

from app.compare.race import Round, RoundEnded, Run
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from app.worker.events import Event, JobProgressed


def made(name: str, ns: int, n: int = 11, *, draft_prompt_ns: int = 0, drafted: int = 0, accepted: int = 0) -> Run:
    stats = GenerationStats(predicted_n=n, predicted_ns=ns, draft_prompt_ns=draft_prompt_ns, verify_steps=5)
    stats.draft_n, stats.draft_n_accepted = drafted, accepted
    return Run(name, (1,), "", FinishReason.STOP, stats)


def rounds_of(events: Iterable[Event]) -> list[Round]:
    """Return the rounds of a race."""
    news = [event.what for event in events if isinstance(event, JobProgressed)]
    return [what.runs for what in news if isinstance(what, RoundEnded)]
