"""The statistics of one answer: a line of text and a JSON object."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.conversations.message import repeated
from app.engine.drafting_report import NO_DRAFT, why_undrafted
from app.engine.fixed import NEVER_MEASURED
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from app.models.pair_info import ModelInfo, PairInfo, why_no_longer
from app.settings.layers import Origin, Resolved, ThinkingSupport, thinking
from app.worker.events import Finished

_MS_PER_NS = 1e-6
_TENTH_S = 0.095
_REASONING_FLAGS = {"answer.thinking": "--thinking", "answer.reasoning_effort": "--reasoning-effort"}


def summary(event: Finished, pair: PairInfo) -> str:
    """Return one line with tokens, speed, speedup, acceptance and TTFT, if measured."""
    parts = [event.stats.pace + _drafts(event), _first_token(event.stats)]
    line = "; ".join(filter(None, (", ".join(filter(None, parts)), _undrafted(event))))
    longer = why_no_longer(pair) if event.at_limit else "--ctx"
    endings = {
        FinishReason.LENGTH: "; cut at --max-tokens",
        FinishReason.CONTEXT: f"; cut, the context of {pair.n_ctx:,} tokens is full ({longer})",
        FinishReason.CANCELLED: "; stopped",
        FinishReason.REPETITION: f"; {repeated(event.repeats)} (--stop-on-repeat off)",
    }
    return line + endings.get(event.reason, "")


def ignored_flags(support: ThinkingSupport, settings: Resolved) -> tuple[str, ...]:
    """Return a sentence for each reasoning flag that the model ignores; settings may be for other models."""
    now, notices = thinking(settings), []
    for name, flag in _REASONING_FLAGS.items():
        if settings.origin(name) is not Origin.FLAG or settings[name] == "auto":
            continue
        if reason := support.why_ignored(name, now):
            notices.append(f"This model {reason}: {flag} changes nothing.")
        elif name == "answer.reasoning_effort" and now.enabled is False:
            notices.append(f"Reasoning is off: {flag} changes nothing.")
    return tuple(notices)


def _drafts(event: Finished) -> str:
    numbers = event.stats
    if numbers.per_step is None:
        return ""
    drafts = f"({numbers.accepted}, {numbers.per_step:.1f} tokens per step)"
    return f", {numbers.speedup} {drafts}" if numbers.speedup is not None else f" {drafts}"


def _undrafted(event: Finished) -> str | None:
    """Return why there are no drafts or no speedup, if that needs an explanation."""
    status = event.drafting
    if event.stats.draft_n:
        unknown = status is not None and status.reason == NEVER_MEASURED
        return "speedup unknown; measure this pair with tandem tune" if unknown else None
    if status is not None or event.draft_params is not None:
        return why_undrafted(event.why_undrafted)
    # An answer that was stopped before its first token says nothing about drafting.
    return NO_DRAFT if event.stats.mode == "off" and event.stats.predicted_n else None


def _first_token(stats: GenerationStats) -> str:
    if not stats.predicted_n:
        return ""
    seconds = stats.first_token_ns / 1e9
    return f"first token after {seconds:.{1 if seconds >= _TENTH_S else 2}f} s"


def as_json(
    event: Finished, pair: PairInfo, notices: list[str], calls: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the answer with all numbers; `timings` uses llama-server's names."""
    stats = event.stats
    params, gain = event.draft_params, stats.speedup
    return {
        "text": event.text,
        "reasoning": event.reasoning,
        "calls": list(calls) or [{"name": call.name, "arguments": call.arguments} for call in event.calls],
        "finish_reason": event.reason.value,
        "seed": event.seed,
        "notices": notices,
        "device": pair.device,
        "timings": {
            **stats.timings,
            "tokens_per_second": stats.tokens_per_second,
            "first_token_ms": stats.first_token_ms,
        },
        "speculation": {
            "mode": stats.mode,
            "drafter": stats.drafter,
            "n_max": params.n_max if params is not None else None,
            "n_min": params.n_min if params is not None else None,
            "p_min": params.p_min if params is not None else None,
            "verify_steps": stats.verify_steps,
            "mean_accepted_length": stats.mean_accepted_length,
            "accepted_by_position": stats.accepted_by_position,
            "draft_n_model": stats.draft_n_model,
            "draft_ms": stats.draft_ns * _MS_PER_NS,
            "verify_ms": stats.verify_ns * _MS_PER_NS,
            "overhead_ms": stats.overhead_ns * _MS_PER_NS,
            "speedup": gain.ratio if gain is not None else None,
            "speedup_measured": gain.measured if gain is not None else None,
            "verdict": gain.verdict if gain is not None else None,
            "reason": event.drafting.reason if event.drafting else None,
        },
        "models": {"target": _model(pair.target), "draft": _model(pair.draft) if pair.draft else None},
    }


def _model(info: ModelInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "file": info.file,
        "quantisation": info.quantization,
        "size": info.size_bytes,
        "vocabulary": info.n_vocab,
    }
