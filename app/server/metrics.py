"""Counters of the server, for Prometheus and for the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.drafting_report import speedup_of
from app.models.pair_info import PairInfo
from app.worker.events import Event, Failed, Finished, Step

_SECOND = 1e-9


@dataclass(slots=True)
class Metrics:
    """Counters since the start; rates are those of the last answer, and the pair is None while it is loading."""

    pair: PairInfo | None = None
    n_running: int = 0
    n_waiting: int = 0
    n_answered: int = 0
    n_failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_seconds: float = 0.0
    predicted_tokens: int = 0
    predicted_seconds: float = 0.0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    tokens_per_second: float | None = None
    speedup: str = ""
    last_error: str = ""

    def observe(self, event: Event) -> None:
        """Count an event of a request."""
        if isinstance(event, Step):
            self._show(event)
        elif isinstance(event, Failed):
            self.n_failed += 1
            self.last_error = event.error.sentences
        elif isinstance(event, Finished):
            stats = event.stats
            self.n_answered += 1
            self.prompt_tokens += stats.prompt_n
            self.cached_tokens += stats.cache_n
            self.prompt_seconds += (stats.prompt_ns + stats.draft_prompt_ns) * _SECOND
            self.predicted_tokens += stats.predicted_n
            self.predicted_seconds += stats.predicted_ns * _SECOND
            self.drafted_tokens += stats.draft_n
            self.accepted_tokens += stats.draft_n_accepted
            self._show(event)

    def _show(self, event: Step | Finished) -> None:
        self.tokens_per_second = event.stats.tokens_per_second or self.tokens_per_second
        speedup = speedup_of(event.stats, event.drafting)
        self.speedup = speedup.brief if speedup is not None else ""

    def as_prometheus(self) -> str:
        """Return the counters in Prometheus' text format, with llama-server's names where it has one."""
        values = (
            ("llamacpp:prompt_tokens_total", "counter", "Prompt tokens evaluated", self.prompt_tokens),
            ("llamacpp:prompt_seconds_total", "counter", "Seconds of prompt processing", self.prompt_seconds),
            ("llamacpp:tokens_predicted_total", "counter", "Generated tokens", self.predicted_tokens),
            ("llamacpp:tokens_predicted_seconds_total", "counter", "Seconds of generation", self.predicted_seconds),
            ("llamacpp:predicted_tokens_seconds", "gauge", "Generated tokens per second", self.tokens_per_second or 0),
            ("llamacpp:requests_processing", "gauge", "Requests being answered", self.n_running),
            ("llamacpp:requests_deferred", "gauge", "Requests waiting", self.n_waiting),
            ("tandem:prompt_tokens_cached_total", "counter", "Prompt tokens from the cache", self.cached_tokens),
            ("tandem:draft_tokens_total", "counter", "Drafted tokens", self.drafted_tokens),
            ("tandem:draft_tokens_accepted_total", "counter", "Accepted drafted tokens", self.accepted_tokens),
            ("tandem:requests_answered_total", "counter", "Requests answered", self.n_answered),
            ("tandem:requests_failed_total", "counter", "Requests failed", self.n_failed),
        )
        return "".join(
            f"# HELP {name} {text}.\n# TYPE {name} {kind}\n{name} {value}\n" for name, kind, text, value in values
        )
