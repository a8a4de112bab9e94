"""Replay texts on machines shaped like published tables of MTP and DFlash drafts: automatic against fixed lengths.

python -m tests.bench.published

A text is random: each token has its own probability of being drafted right, which the draft reports. The costs of the
machine are such that the published draft lengths give the published speeds on that text.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from app.engine.auto.cost_profile import CostProfile
from app.engine.types import DraftParams
from tests.bench.policies import automatic, measured
from tests.recordings import Trace, baseline_cost
from tests.replay import fixed, replay

TOKENS = 2048
_DEPTH = 16
_DECAY = 0.98
"""Factor on the acceptance of each further token of a draft."""
_SPREAD = 1.2
"""Sum of the parameters of the beta distribution of a token's acceptance: most tokens are easy or hard."""
_SEEDS = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A published table.

    Attributes:
        plain: Tokens per second with no draft.
        speeds: For each text, tokens per second by draft length.
        acceptance: For each text, the mean acceptance of a draft's first token, assumed.
        draft: Time of a drafted token over that of a token with no draft, assumed.
        start: The same for a whole block, assumed; 0 for drafts that are made token by token.
        longest: Longest possible draft.
    """

    name: str
    plain: float
    speeds: Mapping[str, Mapping[int, float]]
    acceptance: Mapping[str, float]
    draft: float
    start: float = 0.0
    longest: int = 12


TABLES = (
    Table(
        "RTX 3090 Ti, Qwen3.5-4B, MTP layer",
        207,
        {"mixed": {1: 250, 2: 290, 3: 280, 4: 264, 5: 223, 8: 188}},
        {"mixed": 0.75},
        draft=0.12,
    ),
    Table(
        "RTX 5090, 35B-A3B, DFlash block",
        300,
        {"structured": {10: 1201}, "prose": {2: 375, 10: 244}},
        {"structured": 0.99, "prose": 0.44},
        draft=0.001,
        start=0.2,
        longest=10,
    ),
)


def text(kind: str, acceptance: float, seed: int) -> Trace:
    """Return an answer whose tokens are drafted right with this mean probability."""
    rng = random.Random(f"{kind} {seed}")
    chance = [rng.betavariate(_SPREAD * acceptance, _SPREAD * (1 - acceptance)) for _ in range(TOKENS + _DEPTH)]
    luck = [rng.random() for _ in chance]
    rows = [[chance[i + j] * _DECAY**j for j in range(_DEPTH)] for i in range(1, TOKENS + 1)]
    matches = []
    for i, row in enumerate(rows, start=1):
        wrong = (j for j, p in enumerate(row) if luck[i + j] >= p)
        matches.append(next(wrong, _DEPTH))
    tokens = tuple(range(100, 100 + TOKENS))
    confidences = tuple(tuple(min(max(p, 1e-3), 1.0) for p in row) for row in rows)
    return Trace(f"{kind} {seed}", kind, (1, 2, 3), tokens, tuple(matches), confidences)


def tokens_per_step(traces: Sequence[Trace], n: int) -> float:
    """Return the mean tokens of a step with drafts of `n`, all submitted."""
    steps = [len(replay(t, CostProfile({1: 1.0}), fixed(DraftParams(n, 0, 0.0))).steps) for t in traces]
    return sum(len(t.text) - 1 for t in traces) / sum(steps)


@cache
def machine(table: Table) -> CostProfile:
    """Return the costs with which the published lengths give the published speeds, in nanoseconds."""
    plain = 1e9 / table.plain
    batches: dict[int, list[float]] = {1: [plain]}
    for kind, speeds in table.speeds.items():
        for n, speed in speeds.items():
            step = 1e9 * tokens_per_step(texts(table, kind), n) / speed
            batches.setdefault(n + 1, []).append(step - n * table.draft * plain - table.start * plain)
    means = {size: sum(costs) / len(costs) for size, costs in batches.items()}
    return CostProfile(means, table.draft * plain, draft_start_ns=table.start * plain, max_batch=table.longest + 1)


def texts(table: Table, kind: str) -> list[Trace]:
    """Return the texts of one kind."""
    return [text(kind, table.acceptance[kind], seed) for seed in _SEEDS]


def speed(traces: Sequence[Trace], cost: float) -> float:
    """Return tokens per second after the first token."""
    return 1e9 * sum(len(t.text) - 1 for t in traces) / cost


def results(table: Table) -> dict[str, dict[str, float]]:
    """Return tokens per second of each text: with no draft, fixed lengths, and automatic drafting."""
    curve, found = machine(table), dict[str, dict[str, float]]()
    for kind in table.speeds:
        traces = texts(table, kind)
        row = {"none": speed(traces, sum(baseline_cost(t, curve) for t in traces))}
        for n in range(1, table.longest + 1):
            row[str(n)] = speed(traces, sum(replay(t, curve, fixed(DraftParams(n, 0, 0.0))).cost for t in traces))
        make = automatic(measured(curve), ngram=False)
        row["auto"] = speed(traces, sum(replay(t, curve, make).cost for t in traces))
        found[kind] = row
    return found


def best_length(row: Mapping[str, float]) -> str:
    """Return the fixed draft length with the highest speed."""
    return max((name for name in row if name.isdigit()), key=row.__getitem__)


def main() -> None:
    """Print a table per machine."""
    for table in TABLES:
        print(
            f"\n{table.name}: batches "
            + ", ".join(f"{n}: {ns / 1e6:.2f} ms" for n, ns in machine(table).batch_ns.items())
        )
        for kind, row in results(table).items():
            best = best_length(row)
            print(f"{kind:11} " + "  ".join(f"{name} {value:.0f}" for name, value in row.items()))
            print(f"{'':11} automatic is {row['auto'] / row[best]:.2f}x the best fixed length, {best}")


if __name__ == "__main__":
    main()
