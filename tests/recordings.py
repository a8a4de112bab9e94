"""The recorded traces and curves that ship as test data."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from app.compare.upper_bound import FORMAT, Curve, Trace

DATA = Path(__file__).parent / "data"
_NS = 1e6


def load_traces(file: Path) -> list[Trace]:
    """A file with one trace a line."""
    loaded = []
    for line in file.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        assert raw["format"] == FORMAT, file
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
