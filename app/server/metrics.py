"""Counters of the server, for Prometheus and for the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.drafting_report import speedup_of
from app.engine.events import Step
from app.engine.stats import GenerationStats
from app.models.pair_info import PairInfo
from app.worker.events import Event, Failed, Finished

_SECONDS_PER_NS = 1e-9


@dataclass(slots=True)
class Metrics:
    """Counters since the start; rates are those of the last answer.

    Attributes:
        pair: None while it is loading.
        current: Counters of the running answer, or of the last one.
        longest: Most tokens of a prompt and its answer.
    """

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
    current: GenerationStats | None = None
    n_steps: int = 0
    n_drafted_steps: int = 0
    longest: int = 0
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
            self.prompt_seconds += (stats.prompt_ns + stats.draft_prompt_ns) * _SECONDS_PER_NS
            self.predicted_tokens += stats.predicted_n
            self.predicted_seconds += stats.predicted_ns * _SECONDS_PER_NS
            self.drafted_tokens += stats.draft_n
            self.accepted_tokens += stats.draft_n_accepted
            self.n_steps += 1 + stats.verify_steps
            self.n_drafted_steps += stats.drafted_steps
            self.longest = max(self.longest, stats.cache_n + stats.prompt_n + stats.predicted_n)
            self._show(event)

    def _show(self, event: Step | Finished) -> None:
        self.current = event.stats
        self.tokens_per_second = event.stats.tokens_per_second or self.tokens_per_second
        speedup = speedup_of(event.stats, event.drafting)
        self.speedup = str(speedup) if speedup is not None else ""

    def as_prometheus(self) -> str:
        """Return the counters in Prometheus' text format, with llama-server's names where it has one."""
        prompt_rate = self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0
        values = (
            ("llamacpp:prompt_tokens_total", "counter", "Prompt tokens evaluated", self.prompt_tokens),
            ("llamacpp:prompt_tokens_cached_total", "counter", "Prompt tokens from the cache", self.cached_tokens),
            ("llamacpp:prompt_seconds_total", "counter", "Seconds of prompt processing", self.prompt_seconds),
            ("llamacpp:tokens_predicted_total", "counter", "Generated tokens", self.predicted_tokens),
            ("llamacpp:tokens_predicted_seconds_total", "counter", "Seconds of generation", self.predicted_seconds),
            ("llamacpp:n_decode_total", "counter", "Steps of the target", self.n_steps),
            ("llamacpp:n_tokens_max", "counter", "Most tokens of a prompt and its answer", self.longest),
            ("llamacpp:spec_decode_num_drafts_total", "counter", "Steps with a draft", self.n_drafted_steps),
            ("llamacpp:spec_decode_num_draft_tokens_total", "counter", "Drafted tokens", self.drafted_tokens),
            ("llamacpp:spec_decode_num_accepted_tokens_total", "counter", "Accepted tokens", self.accepted_tokens),
            ("llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens per second", prompt_rate),
            ("llamacpp:predicted_tokens_seconds", "gauge", "Generated tokens per second", self.tokens_per_second or 0),
            ("llamacpp:requests_processing", "gauge", "Requests being answered", self.n_running),
            ("llamacpp:requests_deferred", "gauge", "Requests waiting", self.n_waiting),
            ("llamacpp:n_busy_slots_per_decode", "gauge", "Busy slots in a step", int(self.n_steps > 0)),
            ("tandem:requests_answered_total", "counter", "Requests answered", self.n_answered),
            ("tandem:requests_failed_total", "counter", "Requests failed", self.n_failed),
        )
        return "".join(
            f"# HELP {name} {text}.\n# TYPE {name} {kind}\n{name} {value}\n" for name, kind, text, value in values
        )
