"""The numbers of one answer: a line for people and an object for scripts."""

from __future__ import annotations

from typing import Any

from app.chat.ending import repeated
from app.drafted_by import drafted_by, gain
from app.engine.stats import GenerationStats
from app.engine.strategies.fixed import NEVER_MEASURED
from app.engine.types import MODEL_OFF, FinishReason
from app.events import Finished, ModelInfo, PairInfo
from app.overflow import why_no_longer

_MS = 1e-6
_NOTICED_NS = 50_000_000


def summary(event: Finished, pair: PairInfo) -> str:
    """One line: tokens, time, speed, and what drafting did. Only what was measured is said."""
    stats = event.stats
    line = _tokens(stats) + _times(stats)
    parts = []
    status = event.drafting
    gained = f" {gain(status.speedup, status.verdict)}" if status is not None and status.speedup is not None else ""
    if stats.acceptance_rate is not None and stats.mean_accepted_length is not None:
        parts.append(f"{drafted_by(stats.draft_n_model / stats.draft_n)}{gained}, accepted {stats.acceptance_rate:.0%}")
        parts.append(f"{stats.mean_accepted_length:.1f} per check")
        if status is not None and status.reason == NEVER_MEASURED:
            parts.append(f"{NEVER_MEASURED} (tandem tune)")
    elif status is not None or event.plan.draft_params is not None:
        why = event.why_undrafted
        # Drafts that were made and not submitted took their time, and so did the draft's reading of the prompt.
        told = f",{gained}" if gained and status is not None and status.verdict != "break-even" else ""
        nothing = ": ".join(filter(None, (f"nothing drafted{told}", why)))
        parts = [why + told if why.startswith(MODEL_OFF) else nothing]
    elif event.plan.mode == "off" and stats.predicted_n:
        # Of an answer that was stopped before it began nothing was decided either.
        parts = ["no draft"]
    line += "; " + ", ".join(parts) if parts else ""
    longer = why_no_longer(pair) if event.at_limit else "--ctx"
    endings = {
        FinishReason.LENGTH: "; cut at --max-tokens",
        FinishReason.CONTEXT: f"; cut, the context of {pair.n_ctx:,} tokens is full ({longer})",
        FinishReason.CANCELLED: "; stopped",
        FinishReason.REPETITION: f"; {repeated(event.repeats)} (--stop-on-repeat off)",
    }
    return line + endings.get(event.reason, "")


def pace(stats: GenerationStats) -> str:
    """How many tokens, and how fast, where more than the first one tells that."""
    speed = stats.predicted_per_second
    return _tokens(stats) + (f", {speed:.1f} t/s" if speed is not None else "")


def _tokens(stats: GenerationStats) -> str:
    return f"{stats.predicted_n} token{'s' if stats.predicted_n != 1 else ''}"


def _times(stats: GenerationStats) -> str:
    """What the answer took, in parts that add up to what whoever asked has waited for after loading."""
    if not stats.predicted_n:
        return ""
    first = _seconds(stats.measuring_ns + stats.first_token_ns)
    before = f"{first} to the first" if stats.predicted_n > 1 else first
    parts = [before, *(["measuring the pair included"] if stats.measuring_ns else [])]
    if stats.draft_prompt_ns >= _NOTICED_NS:
        parts.append(f"{_seconds(stats.draft_prompt_ns)} for the draft to read the prompt")
    if (speed := stats.predicted_per_second) is None:
        return f" after {', '.join(parts)}"
    parts.append(f"then {_seconds(stats.predicted_ns)} at {speed:.1f} t/s")
    return f": {', '.join(parts)}"


def _seconds(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    return f"{seconds:.{1 if seconds >= 1 else 2}f} s"


def as_json(event: Finished, pair: PairInfo, notices: list[str]) -> dict[str, Any]:
    """The answer with every number; `timings` uses llama-server's names for what that counts, too."""
    stats = event.stats
    prompt_ns = stats.prompt_ns + stats.draft_prompt_ns
    params = event.plan.draft_params
    return {
        "text": event.text,
        "reasoning": event.reasoning,
        "finish_reason": event.reason.value,
        "seed": event.plan.seed,
        "notices": notices,
        "device": pair.device,
        "timings": {
            "cache_n": stats.cache_n,
            "prompt_n": stats.prompt_n,
            "prompt_ms": prompt_ns * _MS,
            "prompt_per_second": stats.prompt_per_second,
            "predicted_n": stats.predicted_n,
            "predicted_ms": stats.predicted_ns * _MS,
            "predicted_per_second": stats.predicted_per_second,
            "draft_n": stats.draft_n,
            "draft_n_accepted": stats.draft_n_accepted,
            "draft_prompt_ms": stats.draft_prompt_ns * _MS,
            "tokens_per_second": stats.tokens_per_second,
            "measuring_ms": stats.measuring_ns * _MS,
            "first_token_ms": stats.first_token_ns * _MS,
        },
        "speculation": {
            "mode": event.plan.mode,
            "drafter": event.plan.drafter,
            "n_max": params.n_max if params is not None else None,
            "n_min": params.n_min if params is not None else None,
            "p_min": params.p_min if params is not None else None,
            "verify_steps": stats.verify_steps,
            "mean_accepted_length": stats.mean_accepted_length,
            "accepted_by_position": stats.accepted_by_position,
            "draft_n_model": stats.draft_n_model,
            "draft_ms": stats.draft_ns * _MS,
            "verify_ms": stats.verify_ns * _MS,
            "overhead_ms": stats.overhead_ns * _MS,
            "speedup": event.drafting.speedup if event.drafting else None,
            "verdict": event.drafting.verdict if event.drafting else None,
            "reason": (event.drafting.reason or None) if event.drafting else None,
        },
        "models": {"target": _model(pair.target), "draft": _model(pair.draft) if pair.draft else None},
    }


def _model(info: ModelInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "file": info.file,
        "quantisation": info.quantisation,
        "size": info.size_bytes,
        "vocabulary": info.n_vocab,
    }
