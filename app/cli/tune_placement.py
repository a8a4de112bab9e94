"""`tandem tune --placement`: measure several placements of a pair, show their costs, and save the fastest."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.cli.output import print_result, status
from app.cli.setting_flags import flags_of
from app.cli.streams import cancel_on_interrupt
from app.compare.drafts import MIN_GAIN, Expected, expected
from app.compare.measured_pairs import measured_of
from app.core.child import ChildError, ask
from app.core.columns import text_table
from app.core.errors import INTERRUPTED, AppError, Interrupted
from app.core.printable import printable
from app.engine.auto.curve import CostModel
from app.engine.drafting_report import times
from app.hardware.devices import fast_devices
from app.llama.cancel import CancelFlag
from app.llama.fitting import tuned_placement
from app.llama.fitting.fit_pair import Fitting, fitting_of
from app.llama.fitting.machine_room import memory_rooms
from app.llama.params import PairParams
from app.settings.layers import Layer
from app.settings.placement import experts_in_ram
from app.worker.loading import asked_here, placed_here
from app.worker.pair_loader import PairLoader

_BUDGET_NS, _N_PASSES = 10_000_000_000, 2
_MEASURE_FUNCTION, _MEASURE_TIMEOUT_S = "llama.fitting.tuned_placement.measure", 1800.0
"""Limit for loading and measuring one placement."""
_USUAL_ACCEPTANCE = 0.75
_NO_GAIN = Expected(draft_ns=0.0, speedup=1.0, length=0)
_BATCH_SIZES = (1, 4, 8, 16, 32)
"""Batch sizes of the table."""
_NO_GPU = "llama.cpp uses no GPU for this pair, so there is nothing to place."
_TABLE_LEGEND = (
    "Columns {} to {}: milliseconds of a batch of that many tokens; draft: of one drafted token. tok/s is an estimate "
    "with the best draft length at {} acceptance of {:.0%}."
)


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """A placement with its costs, or why it has none."""

    placement: Layer
    found: Fitting
    costs: CostModel | None = None
    gain: Expected = _NO_GAIN
    problem: str = ""

    @property
    def name(self) -> str:
        n, flags = self.found.plan.n_in_ram, " ".join(flags_of(self.placement)) or "automatic"
        return f"{flags}, {experts_in_ram(n, self.found.needs.target.n_layers)}" if n else flags

    @property
    def speed(self) -> float:
        """Expected tokens per second; 0 if it was not measured."""
        return self.gain.speedup * 1e9 / self.costs.target_ns(1, 0) if self.costs is not None else 0.0


def compare_placements(loader: PairLoader, *, as_json: bool) -> int:
    """Measure placements one after the other and save the fastest; return the exit code."""
    rooms = memory_rooms()
    asked = asked_here(loader, lambda: rooms, use_tuned=False)
    asked = asked.over({"model.cache_ram": 0, "model.cache_disk": 0})
    if asked.model.on_cpu or not (fast_devices(rooms) or asked.model.devices):
        print_result({"acceptance": None, "placements": [], "best": None}, [_NO_GPU], as_json=as_json)
        return 0
    status.say("Measuring placements, each in a process of its own; Ctrl+C keeps what is done.")
    automatic = fitting_of(asked, rooms)
    recorded = measured_of(placed_here(automatic.params, lambda params: params), {})
    acceptance = recorded.acceptance if recorded is not None else None
    cancel, rows, code = CancelFlag(), list[PlacementRow](), 0
    try:
        with cancel_on_interrupt(cancel.set):
            rows.extend(_rows(asked, automatic, acceptance, cancel))
    except Interrupted:
        code = INTERRUPTED
    status.clear()
    best = fastest(rows)
    try:
        if best is not None:
            tuned_placement.save_placement(tuned_placement.placement_file(asked), best.placement, automatic.needs.rooms)
    except OSError as error:
        status.say(f"The placement could not be saved: {error.strerror or error}.")
    name = best.name if best is not None else None
    found = {"acceptance": acceptance, "placements": list(map(_as_json, rows)), "best": name}
    print_result(found, _lines(rows, best, acceptance), as_json=as_json)
    return code or int(best is None)


def _rows(
    asked: PairParams, automatic: Fitting, acceptance: float | None, cancel: CancelFlag
) -> Iterator[PlacementRow]:
    """Measure the placements, then other op offload thresholds in the fastest placement. Raises Interrupted."""
    share = _USUAL_ACCEPTANCE if acceptance is None else acceptance

    def measured(placement: Layer) -> PlacementRow:
        began = time.monotonic()
        row = PlacementRow(placement, fitting_of(asked.over(placement), automatic.needs.rooms))

        def cancelled() -> bool:
            status.show(f"Measuring {row.name}, {time.monotonic() - began:.0f} s")
            return cancel()

        if not row.found.plan.fits:
            return replace(row, problem=f"it {row.found.shortage}")
        try:
            params = placed_here(row.found.params, lambda params: params)
            profile, drafts = ask(
                _MEASURE_FUNCTION, params, _BUDGET_NS, _N_PASSES, seconds=_MEASURE_TIMEOUT_S, cancelled=cancelled
            )
        except AppError as error:
            return replace(row, problem=error.message)
        except ChildError as error:
            return replace(row, problem=f"the process that loaded it {error}")
        costs = CostModel(profile)
        return replace(row, costs=costs, gain=expected(costs, costs, share) if drafts else _NO_GAIN)

    done = []
    for placement in tuned_placement.candidate_placements(automatic):
        done.append(measured(placement))
        yield done[-1]
    best = fastest(done)
    if best is not None and best.gain.draft_ns:
        yield from map(measured, tuned_placement.offload_candidates(best.placement, best.found))


def fastest(rows: Sequence[PlacementRow]) -> PlacementRow | None:
    """Return the fastest placement, if any; prefer the automatic placement unless another is clearly faster."""
    best = max((row for row in rows if row.costs is not None), key=lambda row: row.speed, default=None)
    return rows[0] if best is not None and best.speed <= MIN_GAIN * rows[0].speed else best


def _lines(rows: Sequence[PlacementRow], best: PlacementRow | None, acceptance: float | None) -> list[str]:
    """Return a table of placements, why some have no costs, and the fastest placement."""
    shown_acceptance = ("an assumed", _USUAL_ACCEPTANCE) if acceptance is None else ("the recorded", acceptance)
    cells = [("placement", *map(str, _BATCH_SIZES), "draft", "tok/s", "draft length")]
    for row in rows:
        if (costs := row.costs) is not None:
            shown = [f"{costs.target_ns(n, 0) / 1e6:.1f}" if n <= costs.profile.max_batch else "" for n in _BATCH_SIZES]
            draft = f"{row.gain.draft_ns / 1e6:.1f}" if row.gain.draft_ns else ""
            cells.append((row.name, *shown, draft, f"{row.speed:.1f}", str(row.gain.length or "")))
    legend = _TABLE_LEGEND.format(_BATCH_SIZES[0], _BATCH_SIZES[-1], *shown_acceptance)
    lines = [*text_table(cells, left=1), legend] if len(cells) > 1 else []
    lines += [printable(f"Not measured: {row.name}; {row.problem.rstrip('.')}.") for row in rows if row.problem]
    if best is None:
        return [*lines, "", "No placement could be measured."]
    gain = f", {times(best.speed / rows[0].speed)} the automatic speed" if rows[0] is not best and rows[0].speed else ""
    return [*lines, "", f"Kept for this pair: {printable(best.name)}{gain}."]


def _as_json(row: PlacementRow) -> dict[str, Any]:
    rows_ns = row.costs.profile.batch_ns if row.costs is not None else {}
    return {
        "name": row.name,
        "settings": row.placement,
        "rows_ms": {str(n): ns / 1e6 for n, ns in sorted(rows_ns.items())},
        "draft_ms": row.gain.draft_ns / 1e6,
        "draft_length": row.gain.length,
        "tokens_per_second": row.speed or None,
        "problem": row.problem,
    }
