"""Drawing cost curves and heat maps with characters."""

from __future__ import annotations

from dataclasses import dataclass

from app.compare.advice import HeatMap, break_even
from app.engine.auto.curve import CostModel
from app.engine.auto.guard import PLAUSIBLE_ACCEPTANCE, ceiling
from app.engine.auto.threads import ThreadTimes
from app.engine.drafting_report import draft_model_off, sentence, times
from app.engine.types import MAX_DRAFT

_BAR = 24
_SHADES = " ░▒▓█"
_LONG = 8_000
"""Tokens of a long conversation."""
_LITTLE = 1.02
"""Up to here a gain is none."""
_RIGHT = f"if its tokens were right {PLAUSIBLE_ACCEPTANCE:.0%} of the time"
_LEGEND = (
    "Rows are the tokens that the target evaluates at once: the last one of the text, and a draft.",
    "Such a draft pays when each of its tokens, those before it being right, is right so often.",
)


@dataclass(frozen=True, slots=True)
class Drafters:
    """Who drafts where drafting is automatic: whom the sentences are about."""

    model: bool
    lookup: bool


def cost_lines(costs: CostModel, drafters: Drafters) -> list[str]:
    """The cost of a batch by its rows, against one row, and how often drafts that fill it must be right to pay."""
    rows = sorted(costs.profile.rows)
    plain = costs.target_ns(1, 0)
    tallest = max(costs.target_ns(n, 0) for n in rows)
    lines = [f"{'rows':>5} {'cost':>10} {'':>6}  {'':{_BAR}}  pays when right"]
    for n in rows:
        cost = costs.target_ns(n, 0)
        bar = "█" * max(1, round(_BAR * cost / tallest))
        line = f"{n:>5} {cost / 1e6:>7.1f} ms {cost / plain:>5.2f}×  {bar:{_BAR}}"
        lines.append(f"{line}  {_pays(costs, n, drafters)}".rstrip())
    return [*lines, *_LEGEND]


def thread_lines(times: ThreadTimes) -> list[str]:
    """What a token costs by the number of threads, in an answer and in a prompt; marks show what is taken."""
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


def verdict(costs: CostModel, drafters: Drafters, *, learned_behind: bool = False) -> list[str]:
    """What the curve means, in sentences.

    Args:
        costs: What was measured.
        drafters: Whom the sentences are about.
        learned_behind: Whether what a context costs was learned before this measurement, which could not tell.
    """
    plain, draft = costs.target_ns(1, 0), costs.draft_ns(0)
    lines = []
    if drafters.model:
        lines.append(f"A drafted token costs {draft / 1e6:.1f} ms, {draft / plain:.2f}× a token without draft.")
        if off := draft_model_off(costs):
            lines.append(sentence(off))
        else:
            best = ceiling(costs, 0, MAX_DRAFT, draft)
            lines.append(f"The draft model would reach {_at_best(best)}; {_start(costs, draft)}")
    if drafters.lookup:
        best = ceiling(costs, 0, MAX_DRAFT, 0.0)
        if best > _LITTLE:
            lines.append(
                f"Look-up in what was already said drafts at no cost, and would reach {_at_best(best)}, as where a "
                f"text is given back; {_start(costs, 0.0)}"
            )
        else:
            lines.append("Look-up cannot win here: checking tokens at once takes as long as writing them one by one.")
    if costs.profile.cells and (drafters.model or drafters.lookup):
        told = _behind_context(costs, drafters)
        lines.append(f"By what was learned before, {told[0].lower()}{told[1:]}" if learned_behind else told)
    return lines


def _at_best(speedup: float) -> str:
    return f"a speedup of {times(speedup)} {_RIGHT}"


def _behind_context(costs: CostModel, drafters: Drafters) -> str:
    """What a long conversation changes."""
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
    return f"it starts to pay at {share:.0%}, drafting {n} token{'s' if n > 1 else ''} a round."


def heat_map_lines(heat: HeatMap) -> list[str]:
    """The speed-up of every fixed setting; darker is faster."""
    flat = [s for row in heat.speedups for s in row]
    low, high = min(flat), max(flat)
    lines = [f"{'n_max':>6}  " + " ".join(f"p {p:<5.1f}" for p in heat.p_min)]
    for n, row in zip(heat.n_max, heat.speedups, strict=True):
        cells = []
        for speedup in row:
            shade = _SHADES[round((speedup - low) / (high - low) * (len(_SHADES) - 1))] if high > low else " "
            cells.append(f"{shade}{speedup:5.2f}×")
        lines.append(f"{n:>6}  " + " ".join(cells))
    return lines


def best_setting(heat: HeatMap, text: str) -> str:
    """What the best fixed setting and automatic drafting come to, and how much there is to be had, as a sentence.

    Args:
        heat: What was reckoned.
        text: What the text is called, such as "this answer".
    """
    params, best = heat.best
    return (
        f"Estimated from these costs on {text} of {heat.n_tokens} tokens: the best fixed setting, n_max {params.n_max} "
        f"and p_min {params.p_min:g}, gives a speedup of {times(best)}, automatic drafting "
        f"{times(heat.automatic)}; the upper bound is {times(heat.oracle)}."
    )
