"""Compare several drafts of one target, and show the progress of a measurement on the terminal."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from app.cli.command_line import QUICK_KINDS
from app.cli.options import choose_pair, read_pair
from app.cli.output import print_result, status
from app.cli.race_session import RaceSession, with_pair
from app.cli.setting_flags import Given
from app.compare.benchmark import choose, load_suite
from app.compare.drafts import MIN_GAIN, agreement, expected, write_samples
from app.compare.report import pair_title
from app.core.columns import text_table
from app.core.errors import Interrupted, PairError, UsageError
from app.core.printable import printable
from app.core.units import counted, gigabytes
from app.engine.auto.curve import CostModel
from app.engine.drafting_report import NO_SPEEDUP, times
from app.engine.sources import Source
from app.engine.types import AutoDraft
from app.llama.checks import open_model_file
from app.models.compatibility import mtp_problem
from app.models.model_facts import read_facts
from app.models.pair_summary import setup_models
from app.models.source import parse_source
from app.settings.layers import drafting
from app.worker.known_pairs import file_here
from app.worker.pair_loader import PairLoader

BUDGET_NS, _DRAFT_BUDGET_NS = 20_000_000_000, 5_000_000_000
TIMING_PASSES = 3
_MTP_NAME = Source.MTP.label
_DRAFT_LEGEND = (
    "Acceptance and divergence are over {:,} tokens that the target wrote greedily. Cost is that of a draft of one "
    "token; the speedup is expected at the best constant draft length."
)
_SAMPLE_TOKENS = 64
"""Length of each sample answer in tokens."""

T = TypeVar("T")


def tuned_pair(given: Given, draft: str | None) -> tuple[PairLoader, AutoDraft]:
    """Return a pair with this draft, if any, and its automatic drafting. Raises UsageError."""
    asked = given if draft is None else {**given, "draft": draft}
    loader = read_pair(asked, modes=("auto",), use_recommended=False)
    mode = drafting(loader.settings)
    if not isinstance(mode, AutoDraft):
        raise UsageError("Tuning measures automatic drafting only.", "Leave the drafting options out.")
    return loader, mode


def follow(session: RaceSession, work: Generator[float, None, T], what: str) -> T:
    """Show the progress of a measurement; return its result. Raises Interrupted."""
    while True:
        try:
            share = next(work)
        except StopIteration as end:
            if session.cancel():
                raise Interrupted from None
            result: T = end.value
            return result
        status.show(f"{what} {share:4.0%}")


def measure_costs(session: RaceSession, budget_ns: int, passes: int) -> CostModel:
    """Measure the costs of the loaded pair and save them."""
    work = session.pair.remeasure_costs(session.cancel, budget_ns=budget_ns, passes=passes)
    return follow(session, work, "Measuring batches")


def compare_drafts(given: Given, drafts: Sequence[str], prompts: Path | None = None, *, as_json: bool) -> int:
    """Compare drafts of a target that is loaded once; return the exit code.

    The target's own MTP layer is compared too.
    """
    paths = [open_model_file(file_here(parse_source(draft))).path for draft in dict.fromkeys(drafts)]
    # Plan memory for the largest draft.
    paths.sort(key=lambda path: -path.stat().st_size)
    if "target" in given:
        target = file_here(parse_source(given["target"]))
    else:
        known = choose_pair(given)
        given = {name: value for name, value in given.items() if name != "pair"}
        target = known.files.target.path if known.files is not None else file_here(known.pair.target)
    facts = read_facts(target)
    has_mtp = facts.n_mtp_layers > 0 and not mtp_problem(facts)
    if not paths and not has_mtp:
        raise UsageError("--prompts compares drafts.", "Name them with --draft.")
    loader, _ = tuned_pair({**given, "target": str(target)}, str(paths[0]) if paths else None)
    suite = choose(load_suite(prompts), None, None if prompts is not None else 1)
    texts = [prompt.text for prompt in suite if prompts is not None or prompt.kind in QUICK_KINDS]
    sources = [*paths, *[None] * has_mtp]
    return with_pair(
        loader, lambda session: _compare_drafts(session, sources, texts, as_json=as_json), load_mtp=has_mtp
    )


def _compare_drafts(session: RaceSession, paths: Sequence[Path | None], texts: Sequence[str], *, as_json: bool) -> int:
    """Measure drafts, None for the target's MTP layer; the first draft is already loaded."""
    pair = session.pair
    status.say(f"Measuring {counted(len(paths), 'draft')} for {pair.info.target.file}; Ctrl+C stops.")
    samples = follow(session, write_samples(pair, texts, _SAMPLE_TOKENS, session.cancel), "Writing sample text")
    rows: list[dict[str, Any]] = []
    curve: CostModel | None = None
    for path in paths:
        name = path.name if path is not None else _MTP_NAME
        if path != paths[0]:
            n_notices = len(pair.notices)
            pair.use_draft(path, session.progress)
            for notice in pair.notices[n_notices:]:
                status.say(f"{name}: {notice}")
        drafter = pair.drafter
        # If the first draft was refused, the MTP layer is loaded instead.
        if drafter is None or pair.info.draft is None or bool(pair.info.draft.file) != bool(path):
            continue
        # The target's costs are known now; measure only the draft model.
        costs = measure_costs(
            session, BUDGET_NS if curve is None else _DRAFT_BUDGET_NS, TIMING_PASSES if curve is None else 1
        )
        curve = curve or costs
        found = follow(session, agreement(drafter, pair.target, samples, session.cancel), f"Comparing {name}")
        gain = expected(curve, costs, found.acceptance, drafter.longest)
        rows.append(
            {
                "draft": str(path) if path is not None else None,
                "kind": drafter.kind,
                "size": pair.info.draft.size_bytes,
                "acceptance": found.acceptance,
                "kl_divergence": found.divergence,
                "draft_ms": gain.draft_ns / 1e6,
                "expected_speedup": gain.speedup,
                "draft_length": gain.length,
            }
        )
    status.clear()
    if not rows:
        raise PairError("None of these can be used as a draft.", "To find some: tandem pairs find TARGET")
    rows.sort(key=lambda row: -row["expected_speedup"])
    n_tokens = sum(len(sample.answer) for sample in samples)
    best = rows[0] if rows[0]["expected_speedup"] > MIN_GAIN else None
    out = {"target": str(session.params.target), "device": pair.info.device, "tokens": n_tokens, "drafts": rows}
    out |= {"best": (best["draft"] or best["kind"]) if best is not None else None}
    lines = [pair_title(replace(pair.info, draft=None)), "", *draft_lines(rows, n_tokens)]
    if best is not None:
        lines += ["", f"Use it: {printable(setup_models(str(session.params.target), best['draft']))}"]
    print_result(out, lines, as_json=as_json)
    return 0


def draft_lines(rows: Sequence[Mapping[str, Any]], n_tokens: int) -> list[str]:
    """Return a table of drafts, best first, and a sentence about the winner."""
    cells = [("draft", "size", "acceptance", "KL divergence", "cost", "speedup", "draft length")]
    for row in rows:
        speedup, length = row["expected_speedup"], row["draft_length"]
        helps = speedup > MIN_GAIN
        cells.append(
            (
                Path(row["draft"]).name if row["draft"] else _MTP_NAME,
                gigabytes(row["size"]) if row["size"] else "",
                f"{row['acceptance']:.0%}",
                f"{row['kl_divergence']:.2f}" if row["kl_divergence"] is not None else "",
                f"{row['draft_ms']:.1f} ms",
                f"{speedup:.2f}×" if helps else NO_SPEEDUP,
                str(length) if helps else "",
            )
        )
    best = rows[0]
    verdict = "None of these drafts should help here; the target is faster alone."
    if best["expected_speedup"] > MIN_GAIN:
        verdict = f"Best: {printable(cells[1][0])}, {times(best['expected_speedup'])} (estimate)."
    return [*text_table(cells, left=1), _DRAFT_LEGEND.format(n_tokens), "", verdict]
