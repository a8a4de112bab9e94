"""Recorded answers and cost curves of real models and machines, for replays."""

import json
import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.engine.auto.cost_profile import CostProfile
from tests.bench.upper_bound import cost_without_drafts, least_cost, ngram_matches

DATA = Path(__file__).parent / "data"
_FORMAT = 1
_NS = 1e6


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded answer of a target, with a draft at every position.

    Attributes:
        name: Kind and number of the prompt.
        kind: Kind of text.
        prompt: Token ids before the answer.
        text: Token ids of the answer.
        matches: For each position, how many consecutive greedy draft tokens equal the answer.
        confidences: For each position, the draft model's probability of each drafted token.
        has_end: Whether the last token is an end token.
    """

    name: str
    kind: str
    prompt: tuple[int, ...]
    text: tuple[int, ...]
    matches: tuple[int, ...]
    confidences: tuple[tuple[float, ...], ...]
    has_end: bool = False

    def is_end(self, token: int) -> bool:
        return self.has_end and token == self.text[-1]

    def as_json(self) -> dict[str, Any]:
        return {"format": _FORMAT, **asdict(self), "confidences": [[round(q, 3) for q in r] for r in self.confidences]}


def baseline_cost(trace: Trace, costs: CostProfile) -> float:
    """Return the cost of an answer without drafts."""
    return cost_without_drafts(len(trace.prompt), len(trace.text), costs)


def lowest_cost(trace: Trace, costs: CostProfile, *, ngram: bool = False) -> float:
    """Return the lowest cost of an answer with these drafts, with n-gram drafts if `ngram`."""
    matches = ngram_matches(trace.prompt, trace.text) if ngram else None
    return least_cost(len(trace.prompt), trace.matches[: len(trace.text) - 1], matches, costs)


def load_traces(file: Path) -> list[Trace]:
    """Read a file with one trace per line."""
    loaded = []
    for line in file.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        assert raw.pop("format") == _FORMAT, file
        lists = {name: tuple(raw[name]) for name in ("prompt", "text", "matches")}
        loaded.append(Trace(**{**raw, **lists, "confidences": tuple(map(tuple, raw["confidences"]))}))
    return loaded


@cache
def traces() -> list[Trace]:
    """Return answers of Qwen2.5-Coder 1.5B Q4_0 with 0.5B Q4_0, greedy."""
    return load_traces(DATA / "traces.jsonl")


@cache
def other_traces() -> list[Trace]:
    """Return answers of the same pair to twice as many other prompts.

    Only `Trial.FORGETTING` was chosen with these; all other parameters were chosen without them.
    """
    return load_traces(DATA / "other_traces.jsonl")


@cache
def texts() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return prompts and answers of Qwen2.5-Coder 1.5B Q4_K_M, greedy: many kinds of text, without a draft model."""
    with (DATA / "texts.jsonl").open(encoding="utf-8") as file:
        return [(tuple(entry["prompt"]), tuple(entry["text"])) for entry in map(json.loads, file)]


@cache
def curves() -> dict[str, CostProfile]:
    """Return the costs of machines by name; strategies that change them need a copy."""
    with (DATA / "curves.toml").open("rb") as file:
        return {name: _curve(entry) for name, entry in tomllib.load(file).items()}


def _curve(entry: dict[str, Any]) -> CostProfile:
    if "tokens_per_second" in entry:
        batches = {n: n * 1e9 / speed for n, speed in enumerate(entry["tokens_per_second"], start=1)}
        return CostProfile(batches, 1e9 / entry["draft_tokens_per_second"])
    if "cost_per_token" in entry:
        batches = {n: n * cost * 100 * _NS for n, cost in enumerate(entry["cost_per_token"], start=1)}
        return CostProfile(batches, entry["draft"] * 100 * _NS)
    batches = {int(n): ms * _NS for n, ms in entry["milliseconds"].items()}
    return CostProfile(batches, entry["draft"] * _NS, draft_prompt_ns=entry.get("reading", 0.0) * _NS)
