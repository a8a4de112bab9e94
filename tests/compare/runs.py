"""Runs with given counters."""

from app.compare.race import Run
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason


def made(name: str, ns: int, n: int = 11, *, draft_prompt_ns: int = 0, drafted: int = 0, accepted: int = 0) -> Run:
    stats = GenerationStats(predicted_n=n, predicted_ns=ns, draft_prompt_ns=draft_prompt_ns, verify_steps=5)
    stats.draft_n, stats.draft_n_accepted = drafted, accepted
    return Run(name, (1,), (1,), "", FinishReason.STOP, stats)
