"""What automatic drafting has learned about a pair, on disk between runs.

One small JSON file a pair, machine and build. It only ever saves time: a file that is missing, damaged or of another
format is measured anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.core import json_file
from app.engine.auto.acceptance import SUPPORT_PRIOR, AcceptanceTable, model_table, ngram_table
from app.engine.auto.attribution import CONTEXT_WIDTHS
from app.engine.auto.curve import MAX_ROWS, CostModel, CostProfile
from app.engine.auto.guard import Ledger, Trial
from app.engine.auto.pair_statistics import PairStatistics

FORMAT = 1
_LONGEST_NS = 1e13
"""Nearly three hours: nobody measures a batch that takes longer."""
_MOST_LOOKS = 20
log = logging.getLogger("tandem.memory")
log.addHandler(logging.NullHandler())


def save(path: Path, memory: PairStatistics) -> OSError | None:
    """Write a memory in one step; a disk that refuses is told, and costs the next run a measurement."""
    # Today's clock and load are folded in, so that the next run starts from what was seen last.
    profile = memory.costs.snapshot()
    raw = {
        "format": FORMAT,
        "rows": profile.rows,
        "draft_ns": profile.draft_ns,
        "cells": profile.cells,
        "draft_prompt_ns": profile.draft_prompt_ns,
        "widest": profile.widest,
        "gain": None if memory.gain is None else max(0.0, memory.gain),
        "balance": max(0.0, memory.ledger.balance),
        "model": memory.model.counts,
        "lookup": memory.lookup.counts,
        "trial": {"on": memory.trial.on},
        "idle_answers": memory.idle_answers,
        "n_looks": memory.n_looks,
        "least_ns": memory.least_ns,
        "measured_ns": memory.measured_ns,
    }
    try:
        json_file.write(path, raw)
    except OSError as error:
        log.warning("what was learned cannot be kept: %s", error)
        return error
    return None


def load(path: Path) -> PairStatistics | None:
    """Read a memory; None if there is none that can be used."""
    return json_file.read(path, FORMAT, _memory)


def _memory(raw: dict[str, Any]) -> PairStatistics:
    rows = {int(width): _positive(ns) for width, ns in raw["rows"].items()}
    if 1 not in rows or not all(1 <= width <= MAX_ROWS for width in rows):
        raise ValueError("its cost curve is not one")
    profile = CostProfile(
        rows,
        draft_ns=_number(raw["draft_ns"]),
        cells=_cells(raw.get("cells", {}), rows[1]),
        draft_prompt_ns=_number(raw["draft_prompt_ns"]),
        widest=max(1, min(MAX_ROWS, int(_number(raw.get("widest", MAX_ROWS))))),
    )
    return PairStatistics(
        costs=CostModel(profile),
        model=_table(model_table, raw["model"]),
        lookup=_lookup(raw["lookup"]),
        trial=Trial(on=bool(raw["trial"]["on"])),
        gain=None if raw["gain"] is None else min(1.0, _number(raw["gain"])),
        ledger=Ledger(balance=min(Ledger.CAP, _number(raw.get("balance", Ledger.START)))),
        idle_answers=int(_number(raw.get("idle_answers", 0))),
        n_looks=min(_MOST_LOOKS, int(_number(raw.get("n_looks", 0)))),
        least_ns=_number(raw.get("least_ns", 0)),
        measured_ns=_number(raw.get("measured_ns", 0)),
    )


def _cells(raw: dict[str, Any], plain_ns: float) -> dict[int, float]:
    cells = {int(width): _number(ns) for width, ns in raw.items()}
    if cells and not set(CONTEXT_WIDTHS[:-1]) <= set(cells) <= set(CONTEXT_WIDTHS):
        raise ValueError("its costs of context are not told at the usual widths")
    if any(ns > width * plain_ns for width, ns in cells.items()):
        raise ValueError("no cached token costs as much as a row")
    return cells


def _lookup(counts: Any) -> AcceptanceTable:
    """What was learned of look-ups; nothing where another version counted it in other classes."""
    return _table(ngram_table, counts) if all(len(p) == len(SUPPORT_PRIOR) for p in counts) else ngram_table()


def _table(make: Callable[[list[list[list[float]]]], AcceptanceTable], counts: Any) -> AcceptanceTable:
    table = make([[[_number(n) for n in pair] for pair in place] for place in counts])
    shape = [len(table.prior)] * 2
    if [len(place) for place in counts] != shape or any(len(pair) != 2 for place in counts for pair in place):
        raise ValueError("its acceptance counts have another shape")
    if any(not 0 <= accepted <= seen for place in table.counts for accepted, seen in place):
        raise ValueError("its acceptance counts are not counts")
    return table


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= _LONGEST_NS:
        raise ValueError(f"{value} is no measurement")
    return number


def _positive(value: Any) -> float:
    number = _number(value)
    if number < 1.0:
        raise ValueError("a batch cannot cost nothing")
    return number
