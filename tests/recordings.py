"""The recorded traces and curves that ship as test data."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from app.compare.upper_bound import cost_without_drafts, least_cost, ngram_matches
from app.engine.auto.curve import MAX_ROWS, CostProfile
from app.engine.auto.interpolation import expand

DATA = Path(__file__).parent / "data"
_FORMAT = 1
_NS = 1e6


@dataclass(frozen=True, slots=True)
class Trace:
    """One answer of a target model, and the drafts at each of its positions.

    Attributes:
        name: Kind and number of the prompt.
        kind: Kind of text.
        prompt: Token ids before the answer.
        text: Token ids of the answer.
        matches: Per position: how many greedy draft tokens in a row equal the answer from there.
        confidences: Per position: the draft model's probability of each drafted token.
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
        return {
            "format": _FORMAT,
            "name": self.name,
            "kind": self.kind,
            "prompt": self.prompt,
            "text": self.text,
            "matches": self.matches,
            "confidences": [[round(q, 3) for q in row] for row in self.confidences],
            "has_end": self.has_end,
        }


@dataclass(frozen=True, slots=True)
class Curve:
    """The costs of a machine, in any unit; see `CostProfile`.

    Attributes:
        reading: Cost of a prompt token for the draft model; 0 if it has read the prompt.
    """

    name: str
    rows: dict[int, float]
    draft: float
    cells: dict[int, float] = field(default_factory=dict)
    reading: float = 0.0
    widest: int = MAX_ROWS

    def profile(self) -> CostProfile:
        """Return what a first calibration of the machine finds; a copy to learn into."""
        cells = dict(self.cells)
        return CostProfile(dict(self.rows), self.draft, draft_prompt_ns=self.reading, cells=cells, widest=self.widest)

    def costs(self) -> list[float]:
        """Return the cost of every batch size up to `MAX_ROWS`; index 0 is unused."""
        return expand(self.rows, MAX_ROWS)

    def cell_costs(self) -> list[float]:
        """Return what a cached token adds to every batch size; index 0 is unused."""
        return expand(self.cells, MAX_ROWS) if self.cells else [0.0] * (MAX_ROWS + 1)


def plain_cost(trace: Trace, curve: Curve) -> float:
    """Return the cost of an answer with no draft."""
    return cost_without_drafts(len(trace.prompt), len(trace.text), curve.profile())


def oracle_cost(trace: Trace, curve: Curve, *, lookup: bool = False) -> float:
    """Return the least cost of an answer with these drafts, with n-gram drafts if `lookup`."""
    looked_up = ngram_matches(trace.prompt, trace.text) if lookup else None
    return least_cost(len(trace.prompt), trace.matches[: len(trace.text) - 1], looked_up, curve.profile())


def load_traces(file: Path) -> list[Trace]:
    """Read a file with one trace per line."""
    loaded = []
    for line in file.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        assert raw["format"] == _FORMAT, file
        loaded.append(
            Trace(
                name=raw["name"],
                kind=raw["kind"],
                prompt=tuple(raw["prompt"]),
                text=tuple(raw["text"]),
                matches=tuple(raw["matches"]),
                confidences=tuple(map(tuple, raw["confidences"])),
                has_end=raw["has_end"],
            )
        )
    return loaded


@cache
def traces() -> list[Trace]:
    """Qwen2.5-Coder 1.5B Q4_0 with 0.5B Q4_0, greedy."""
    return load_traces(DATA / "traces.jsonl")


@cache
def other_traces() -> list[Trace]:
    """The same pair on twice as many other texts; only how long a trial remembers was chosen by these as well."""
    return load_traces(DATA / "other_traces.jsonl")


@cache
def texts() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompts and answers of Qwen2.5-Coder 1.5B Q4_K_M, greedy: many kinds of text, without a draft model."""
    with (DATA / "texts.jsonl").open(encoding="utf-8") as file:
        return [(tuple(entry["prompt"]), tuple(entry["text"])) for entry in map(json.loads, file)]


@cache
def curves() -> dict[str, Curve]:
    """Machines by name, in nanoseconds."""
    with (DATA / "curves.toml").open("rb") as file:
        return {name: _curve(entry) for name, entry in tomllib.load(file).items()}


def _curve(entry: dict[str, Any]) -> Curve:
    if "tokens_per_second" in entry:
        rows = {n: n * 1e9 / speed for n, speed in enumerate(entry["tokens_per_second"], start=1)}
        return Curve(entry["title"], rows, 1e9 / entry["draft_tokens_per_second"])
    if "cost_per_token" in entry:
        rows = {n: n * cost * 100 * _NS for n, cost in enumerate(entry["cost_per_token"], start=1)}
        return Curve(entry["title"], rows, entry["draft"] * 100 * _NS)
    rows = {int(n): ms * _NS for n, ms in entry["milliseconds"].items()}
    return Curve(entry["title"], rows, entry["draft"] * _NS, reading=entry.get("reading", 0.0) * _NS)
