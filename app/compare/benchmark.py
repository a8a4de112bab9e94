"""A suite of prompts by kind of text, and its races."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any

from app.compare.measure import WHOLE, SideFigures, measure
from app.compare.race import WARM_UP, Round, RoundEnded, Side, race
from app.compare.report import run_json
from app.conversations.message import Message, Role
from app.core.errors import UsageError
from app.core.printable import printable
from app.core.regular_file import marked_encoding, with_line_feeds
from app.engine.interfaces import Cancelled
from app.worker.events import Event, JobProgressed
from app.worker.request import AnswerRequest, LoadedPair

_BUILT_IN_PROMPTS = Path(__file__).with_name("prompts.toml")
_MAX_PROMPT_CHARACTERS = 100_000
_PROMPTS_FIX = 'Write one prompt per line, or TOML tables [[prompt]] with kind = "...", name = "..." and text = "...".'


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a suite; its name is unique within its kind of text."""

    kind: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.name}"


Results = Mapping[Prompt, Sequence[Round]]
"""The rounds of each prompt."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row of the table: the figures of every side, baseline first, on the prompts of one kind or "all"."""

    kind: str
    prompts: int
    measured: tuple[SideFigures, ...]

    def of(self, name: str) -> SideFigures:
        return next(m for m in self.measured if m.name == name)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "prompts": self.prompts,
            "contenders": {m.name: m.as_json() for m in self.measured},
        }


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """The sides and prompts of a benchmark.

    Attributes:
        request: How to answer; its messages come before every prompt.
        is_quick: Stop when the overall result is clear, even if the result of a kind is not.
        ends_early: Skip rounds that would not change the result.
    """

    sides: Sequence[Side]
    prompts: Sequence[Prompt]
    request: AnswerRequest
    repeat: int
    is_quick: bool = False
    ends_early: bool = False

    @property
    def n_runs(self) -> int:
        """Largest number of runs, including the warm-up."""
        return len(self.sides) * (len(self.prompts) * self.repeat + 1)

    def rows(self, results: Results) -> list[ResultRow]:
        """Return a row per kind of text, and a total row if there are several kinds."""
        names = [side.name for side in self.sides]
        by_kind: dict[str, list[Sequence[Round]]] = {}
        for prompt, rounds in results.items():
            by_kind.setdefault(prompt.kind, []).append(rounds)
        if len(by_kind) > 1:
            by_kind[WHOLE] = list(results.values())
        return [
            ResultRow(kind, len(races), tuple(measure(races, name, names[0]) for name in names))
            for kind, races in by_kind.items()
        ]

    def n_whole(self, results: Results) -> int:
        """Return the number of rounds that covered the whole suite."""
        return min(map(len, results.values())) if results and len(results) == len(self.prompts) else 0

    def is_enough(self, results: Results) -> bool:
        """Return whether all rounds ran, or more rounds would not change any outcome."""
        n_whole = self.n_whole(results)
        if n_whole in (0, self.repeat) or not self.ends_early:
            return n_whole == self.repeat
        table = self.rows(results)[-1 if self.is_quick else 0 :]
        return all(m.outcome not in ("unclear", "unknown") for row in table for m in row.measured[1:])


def benchmark(
    pair: LoadedPair, plan: BenchmarkPlan, results: dict[Prompt, list[Round]], cancelled: Cancelled
) -> Iterator[tuple[Prompt, Event]]:
    """Race round by round over every prompt, and yield the events of each race; the first prompt also warms up.

    Each round covers the whole suite, so a benchmark that is stopped early has all kinds of text. `results` receives
    every finished round, even if an error is raised.
    """
    for number in range(1, plan.repeat + 1):
        for prompt in plan.prompts:
            if cancelled():
                return
            request = replace(plan.request, messages=(*plan.request.messages, Message(Role.USER, prompt.text)))
            for event in race(pair, plan.sides, request, [number] if results else [WARM_UP, number], cancelled):
                if isinstance(event, JobProgressed) and isinstance(event.what, RoundEnded):
                    results.setdefault(prompt, []).append(event.what.runs)
                yield prompt, event
        if plan.is_enough(results):
            return


def runs_json(prompt: Prompt, ended: RoundEnded) -> list[dict[str, Any]]:
    """Return one object per run of a round."""
    about = {"type": "run", "kind": prompt.kind, "prompt": prompt.name}
    return [{**about, "contender": run.contender, **run_json(run, ended.round)} for run in ended.runs.values()]


# Prompts


def load_suite(file: Path | None = None) -> tuple[Prompt, ...]:
    """Return the built-in prompts, or the prompts of a file; see `read_suite`. Raises UsageError."""
    file = file or _BUILT_IN_PROMPTS
    try:
        return read_suite(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check the path.") from error


def read_suite(raw: bytes, name: str) -> tuple[Prompt, ...]:
    """Return the prompts of a file in UTF-8, or with a byte order mark. Raises UsageError.

    A `.toml` file has tables `[[prompt]]` with `kind`, `name` and `text`; other files have a prompt per line.
    """
    suffix = PurePath(name).suffix.lower()
    try:
        text = with_line_feeds(raw.decode(marked_encoding(raw) or "utf-8"))
        prompts = _tables(text) if suffix == ".toml" else _lines(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} has no prompts: it is not {error.encoding.upper()} text.", _PROMPTS_FIX) from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name} has no prompts: {error}.", _PROMPTS_FIX) from error
    if not prompts or suffix in (".json", ".jsonl"):
        raise UsageError(f"{name} has no prompts.", _PROMPTS_FIX)
    return prompts


def _lines(text: str) -> tuple[Prompt, ...]:
    # Split only at line feeds: prompts may contain rarer line separators.
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return tuple(Prompt("yours", str(number), line) for number, line in enumerate(lines, start=1))


def _tables(text: str) -> tuple[Prompt, ...]:
    prompts = tuple(
        Prompt(_word(entry, "kind"), _word(entry, "name"), _word(entry, "text"))
        for entry in tomllib.loads(text)["prompt"]
    )
    if len({str(prompt) for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same kind and name")
    return prompts


def _word(entry: Any, key: str) -> str:
    value = entry[key]
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_PROMPT_CHARACTERS:
        raise ValueError(f"{key} must be a text")
    return value.strip()


def choose(prompts: Sequence[Prompt], kinds: Sequence[str] | None, per_kind: int | None) -> tuple[Prompt, ...]:
    """Choose prompts of these kinds, alternating between kinds. Raises UsageError for an unknown kind."""
    known = list(dict.fromkeys(prompt.kind for prompt in prompts))
    for kind in kinds or ():
        if kind not in known:
            raise UsageError(f'There are no prompts of kind "{printable(kind)}".', f"Kinds are: {', '.join(known)}.")
    chosen = [kind for kind in known if kinds is None or kind in kinds]
    by_kind = [[prompt for prompt in prompts if prompt.kind == kind][:per_kind] for kind in chosen]
    return tuple(prompt for turn in zip_longest(*by_kind) for prompt in turn if prompt is not None)
