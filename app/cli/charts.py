"""Drawing cost curves and heat maps with characters."""

from __future__ import annotations

from app.engine.tuning.advice import HeatMap, break_even
from app.engine.tuning.curve import CostModel
from app.engine.tuning.guard import WORTHWHILE, ceiling
from app.engine.tuning.threads import ThreadTimes
from app.engine.types import MAX_DRAFT

_BAR = 34
_SHADES = " ░▒▓█"
_LONG = 8_000
"""Tokens of a long conversation."""


def cost_lines(costs: CostModel, *, has_model: bool) -> list[str]:
    """The cost of a batch by its rows, against one row, with the acceptance from which drafting that far pays."""
    rows = sorted(costs.profile.rows)
    plain = costs.target_ns(1, 0)
    tallest = max(costs.target_ns(n, 0) for n in rows)
    lines = [f"{'rows':>5} {'cost':>10} {'':>6}  {'':{_BAR}}  pays when accepted"]
    for n in rows:
        cost = costs.target_ns(n, 0)
        bar = "█" * max(1, round(_BAR * cost / tallest))
        line = f"{n:>5} {cost / 1e6:>7.1f} ms {cost / plain:>5.2f}x  {bar:{_BAR}}"
        lines.append(f"{line}  {_pays(costs, n, has_model=has_model)}".rstrip())
    return lines


def thread_lines(times: ThreadTimes) -> list[str]:
    """What a token costs by the number of threads, in an answer and in a prompt; marks show what is taken."""
    lines = [f"{'threads':>7} {'answer':>10}   {'prompt':>13}"]
    for n in sorted(times.generation):
        marks = ["←" if n == taken else " " for taken in (times.best.generation, times.best.prompt)]
        answer, prompt = times.generation[n] / 1e6, times.prompt[n] / 1e6
        lines.append(f"{n:>7} {answer:>7.1f} ms {marks[0]} {prompt:>8.2f} ms {marks[1]}".rstrip())
    return lines


def _pays(costs: CostModel, rows: int, *, has_model: bool) -> str:
    if rows == 1:
        return ""
    plain, batch = costs.target_ns(1, 0), costs.target_ns(rows, 0)
    lookup = break_even(plain, batch, rows - 1, 0.0)
    text = f"look-up {_percent(lookup)}"
    if has_model:
        text = f"model {_percent(break_even(plain, batch, rows - 1, costs.draft_ns(0)))}   {text}"
    return text


def _percent(share: float | None) -> str:
    return "never" if share is None else f"{share:>4.0%} "


def verdict(costs: CostModel, *, has_model: bool) -> list[str]:
    """What the curve means, in sentences."""
    plain, draft = costs.target_ns(1, 0), costs.draft_ns(0)
    lines = []
    if has_model:
        best = ceiling(costs, 0, MAX_DRAFT, draft)
        lines.append(f"A drafted token costs {draft / 1e6:.1f} ms, {draft / plain:.2f}x a plain one.")
        if 1.02 < best <= WORTHWHILE:
            lines.append(
                f"With the draft model, nearly perfect drafts would reach {best:.2f}x, not the {WORTHWHILE:g}x that is "
                "worth trying: it stays off."
            )
        elif best > WORTHWHILE:
            lines.append(f"With the draft model, nearly perfect drafts would reach {best:.1f}x; {_start(costs)}")
        else:
            lines.append("The draft model cannot win on this machine, however good it is: it stays off.")
    best = ceiling(costs, 0, MAX_DRAFT, 0.0)
    if best > 1.02:
        lines.append(f"Look-up in what was already said costs nothing and could reach {best:.1f}x.")
    else:
        lines.append("Look-up cannot win on this machine either: more rows cost as much as more tokens.")
    if costs.profile.cells:
        lines.append(_behind_context(costs, has_model=has_model))
    return lines


def _behind_context(costs: CostModel, *, has_model: bool) -> str:
    """What a long conversation changes."""
    slower = costs.target_ns(1, _LONG) / costs.target_ns(1, 0)
    best = ceiling(costs, _LONG, MAX_DRAFT, costs.draft_ns(_LONG) if has_model else 0.0)
    what = "drafts" if has_model else "look-up"
    return f"Behind {_LONG:,} tokens a plain one takes {slower:.1f}x as long, and {what} could reach {best:.1f}x."


def _start(costs: CostModel) -> str:
    plain = costs.target_ns(1, 0)
    # A batch may be filled up to a wider one that costs less, as for the bound before.
    options = [
        (share, n)
        for n in range(1, MAX_DRAFT + 1)
        if (share := break_even(plain, costs.padded_ns(n + 1, 0), n, costs.draft_ns(0))) is not None
    ]
    share, n = min(options)
    return f"it starts to pay at {share:.0%} accepted, drafting {n} token{'s' if n > 1 else ''} a round."


def heat_map_lines(heat: HeatMap) -> list[str]:
    """The speed-up of every fixed setting; darker is faster."""
    flat = [s for row in heat.speedups for s in row]
    low, high = min(flat), max(flat)
    lines = [f"{'n_max':>6}  " + " ".join(f"p {p:<5.1f}" for p in heat.p_min)]
    for n, row in zip(heat.n_max, heat.speedups, strict=True):
        cells = []
        for speedup in row:
            shade = _SHADES[round((speedup - low) / (high - low) * (len(_SHADES) - 1))] if high > low else " "
            cells.append(f"{shade}{speedup:5.2f}x")
        lines.append(f"{n:>6}  " + " ".join(cells))
    return lines


def best_setting(heat: HeatMap, text: str) -> str:
    """The fixed setting that comes closest, as a sentence.

    Args:
        heat: What was reckoned.
        text: What the text is called, such as "this answer".
    """
    params, best = heat.best
    return (
        f"By these costs, the best fixed setting on {text} of {heat.n_tokens} tokens is n_max {params.n_max}, "
        f"p_min {params.p_min:g}: {best:.2f}x. Automatic: {heat.automatic:.2f}x. "
        f"Bound for these drafts: {heat.oracle:.2f}x."
    )
