"""Draw cost curves with characters."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.auto.curve import CostModel
from app.engine.auto.rule import PLAUSIBLE_ACCEPTANCE, ceiling
from app.engine.auto.threads import ThreadTimes
from app.engine.drafting_report import draft_model_off, sentence, times
from app.engine.types import MAX_DRAFT

_BAR = 24
_STEPS = 40
_LONG = 8_000
"""Tokens of a long conversation."""
_LITTLE = 1.02
"""Speedups up to here are none."""
_AT_BEST = f"at {PLAUSIBLE_ACCEPTANCE:.0%} acceptance"
_LEGEND = ("A batch holds the last token and a draft. Break-even is the acceptance from which that draft pays.",)


@dataclass(frozen=True, slots=True)
class Drafters:
    """Sources of drafts that the sentences are about."""

    model: bool
    lookup: bool


def cost_lines(costs: CostModel, drafters: Drafters) -> list[str]:
    """Return the cost of a step by batch size, and its break-even acceptance."""
    rows = sorted(costs.profile.batch_ns)
    plain = costs.target_ns(1, 0)
    tallest = max(costs.target_ns(n, 0) for n in rows)
    lines = [f"{'batch':>5} {'cost':>10} {'':>6}  {'':{_BAR}}  break-even"]
    for n in rows:
        cost = costs.target_ns(n, 0)
        bar = "█" * max(1, round(_BAR * cost / tallest))
        line = f"{n:>5} {cost / 1e6:>7.1f} ms {cost / plain:>5.2f}×  {bar:{_BAR}}"
        lines.append(f"{line}  {_pays(costs, n, drafters)}".rstrip())
    return [*lines, *_LEGEND]


def thread_lines(times: ThreadTimes) -> list[str]:
    """Return the cost of a token by thread count; arrows mark the chosen ones."""
    lines = [f"{'threads':>7} {'answer':>10}   {'prompt':>13}"]
    for n in sorted(times.generation):
        marks = ["←" if n == taken else " " for taken in (times.best.generation, times.best.prompt)]
        answer, prompt = times.generation[n] / 1e6, times.prompt[n] / 1e6
        lines.append(f"{n:>7} {answer:>7.1f} ms {marks[0]} {prompt:>8.2f} ms {marks[1]}".rstrip())
    return lines


def _pays(costs: CostModel, rows: int, drafters: Drafters) -> str:
    if rows == 1:
        return ""
    plain, batch = costs.target_ns(1, 0), costs.target_ns(rows, 0)
    prices = [("model", costs.draft_ns(0))] * drafters.model + [("n-gram", 0.0)] * drafters.lookup
    return "   ".join(f"{name} {_percent(break_even(plain, batch, rows - 1, price))}" for name, price in prices)


def _percent(share: float | None) -> str:
    return "never" if share is None else f"{share:>4.0%} "


def verdict(costs: CostModel, drafters: Drafters) -> list[str]:
    """Return the meaning of the cost curve in sentences."""
    plain, draft = costs.target_ns(1, 0), costs.draft_ns(0)
    lines = []
    if drafters.model:
        lines.append(f"A drafted token costs {draft / 1e6:.1f} ms, {draft / plain:.2f}× a token without draft.")
        if off := draft_model_off(costs):
            lines.append(sentence(off))
        else:
            best = ceiling(costs, 0, MAX_DRAFT, draft)
            lines.append(f"Draft model: {_at_best(best)}; {_start(costs, draft)}")
    if drafters.lookup:
        best = ceiling(costs, 0, MAX_DRAFT, 0.0)
        if best > _LITTLE:
            lines.append(f"N-gram: {_at_best(best)}; {_start(costs, 0.0)}")
        else:
            lines.append("N-gram drafting cannot help: a batch takes as long as its tokens one by one.")
    if costs.profile.context_ns and (drafters.model or drafters.lookup):
        lines.append(_behind_context(costs, drafters))
    return lines


def _at_best(speedup: float) -> str:
    return f"at most {times(speedup)} {_AT_BEST}"


def _behind_context(costs: CostModel, drafters: Drafters) -> str:
    """Return the effect of a long context."""
    slower = costs.target_ns(1, _LONG) / costs.target_ns(1, 0)
    prices = [("the draft model", costs.draft_ns(_LONG))] * drafters.model + [("n-gram", 0.0)] * drafters.lookup
    speedups = " and ".join(f"{times(ceiling(costs, _LONG, MAX_DRAFT, price))} with {name}" for name, price in prices)
    return (
        f"After {_LONG:,} tokens of context, a token without draft takes {times(slower)} as long. "
        f"At {PLAUSIBLE_ACCEPTANCE:.0%} acceptance the speedup is at most {speedups}."
    )


def _start(costs: CostModel, draft_ns: float) -> str:
    plain = costs.target_ns(1, 0)
    # A batch may be filled up to a wider one that costs less, as for the bound before.
    options = [
        (share, n)
        for n in range(1, MAX_DRAFT + 1)
        if (share := break_even(plain, costs.padded_ns(n + 1, 0), n, draft_ns)) is not None
    ]
    share, n = min(options)
    return f"break-even {share:.0%} with {n} drafted token{'s' if n > 1 else ''}."


def break_even(plain: float, batch: float, n: int, draft: float) -> float | None:
    """Return the acceptance at which drafting n tokens in each step costs as much as no draft.

    Solves (1 + c + ... + c^n) * single = batch + n * draft for c by bisection; the left side grows with c.

    Args:
        plain: Cost of a single token.
        batch: Cost of a batch of n + 1 tokens.
        n: Drafted tokens.
        draft: Cost of each.

    Returns:
        An acceptance in [0, 1]; None if even perfect drafts lose.
    """
    needed = (batch + n * draft) / plain
    if needed > n + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if sum(middle**i for i in range(n + 1)) < needed:
            low = middle
        else:
            high = middle
    return high
