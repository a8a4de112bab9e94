"""Sources of drafts, and the texts about drafting in every view."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import app as app_package
from app.cli.report import as_json, summary
from app.engine.drafting_report import (
    BRIEF,
    FEWEST_DRAFTED,
    Speedup,
    acceptance,
    drafting_now,
    rate,
    rate_range,
    why_undrafted,
)
from app.engine.sources import IN_TARGET, Source, drafter_of
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus, FinishReason
from app.settings.table import BY_NAME
from app.ui.sidebar.readouts import Readouts
from app.worker.events import Finished
from tests.fake_engine import PAIR, STATS
from tests.ui.sidebar.driver import shown

STATUS = DraftingStatus(Source.MODEL, "it is right")
NONE = replace(STATS, draft_n=0, draft_n_accepted=0, draft_n_model=0)
FEW = replace(STATS, draft_n=FEWEST_DRAFTED - 1, draft_n_accepted=FEWEST_DRAFTED - 1, draft_n_model=0)
WON, LOST = Speedup(3.14, measured=True, verdict="winning"), Speedup(0.8, measured=True, verdict="losing")


def finished(stats: GenerationStats, gain: Speedup | None) -> Finished:
    """Return the end of an answer with this speedup."""
    stats = replace(stats, drafter="model", mode="auto")
    stats.observe_speedup(gain)
    return Finished(1, FinishReason.STOP, "Hi.", "", stats, STATUS)


def views(ended: Finished) -> dict[str, str]:
    """Return the numbers of an answer in each view."""
    live = Readouts()
    live.measured(ended.stats, ended.drafting, live=False)
    return {
        "side panel": shown(live),
        "stored line": str(GenerationStats.read(ended.stats.document)),
        "run": summary(ended, PAIR),
    }


@pytest.mark.parametrize(
    ("stats", "gain", "text", "verdict"),
    [
        pytest.param(STATS, WON, "3.1×", "winning", id="measured"),
        pytest.param(STATS, Speedup(3.14), "3.1×", "", id="estimated"),
        pytest.param(STATS, LOST, "0.8×", "losing", id="slower"),
        pytest.param(STATS, replace(WON, ratio=1.04), "no speedup|speedup +none", "", id="no difference"),
        pytest.param(STATS, None, "", None, id="unknown"),
        pytest.param(NONE, LOST, "", None, id="nothing drafted"),
        pytest.param(FEW, LOST, "0.8×", "", id="few drafted"),
    ],
)
def test_every_view_shows_the_same_speedup(
    stats: GenerationStats, gain: Speedup | None, text: str, verdict: str | None
) -> None:
    ended = finished(stats, gain)
    for name, shown_text in views(ended).items():
        if text:
            assert re.search(text, shown_text), name
        else:
            assert "×" not in shown_text, name
            assert "no speedup" not in shown_text, name
        assert ("estimate" in shown_text) == (gain == Speedup(3.14)), name
    result = as_json(ended, PAIR, [])["speculation"]
    known = gain if text else None
    assert result["verdict"] == verdict
    assert result["speedup"] == (known.ratio if known else None)
    assert result["speedup_measured"] == (known.measured if known else None)
    assert ended.stats.document.get("verdict", "") == (verdict or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (str(Speedup(3.14, measured=True)), "3.1×"),
        (str(Speedup(3.14)), "3.1× (estimate)"),
        (str(Speedup(0.98, measured=True)), "no speedup"),
        (str(Speedup(0.98)), "no speedup (estimate)"),
        (Speedup(3.14, measured=True).labeled, "speedup 3.1×"),
        (Speedup(3.14).labeled, "speedup 3.1× (estimate)"),
        (Speedup(0.98, measured=True).labeled, "no speedup"),
        (rate(0.42), "0.4 tok/s"),
        (rate(9.94), "9.9 tok/s"),
        (rate(9.96), "10 tok/s"),
        (rate(106.7), "107 tok/s"),
        (rate_range(18.2, 28.4), "18 to 28 tok/s"),
        (rate_range(27.0, 28.4), "28 tok/s"),
        (acceptance(3, 3), "3 of 3"),
        (acceptance(390, 500), "78%"),
        (why_undrafted("n_max is 0"), "no draft: n_max is 0"),
        (why_undrafted(None), "no draft"),
        (why_undrafted(Source.MTP.turned_off("it lost")), "MTP layer off: it lost"),
    ],
)
def test_numbers_and_reasons_in_words(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (DraftingStatus(Source.MODEL, None), ("draft model", "")),
        (DraftingStatus("off", "paused: system is busy"), ("paused", "system is busy")),
        (DraftingStatus("off", "no n-gram match"), ("no draft", "no n-gram match")),
        (DraftingStatus("off", "system is busy; retrying with the next token"), ("no draft", "system is busy")),
        (DraftingStatus(Source.MODEL, "92% of drafted tokens accepted"), ("draft model", "")),
        (DraftingStatus("off", Source.MODEL.turned_off("it is slow; n-gram still runs")), ("paused", "it is slow")),
        (DraftingStatus("off", Source.EAGLE3.turned_off("x" * 99)), ("paused", "drafts would be slower now")),
        (DraftingStatus(Source.MTP, "x" * 99), ("MTP layer", "")),
    ],
)
def test_the_side_panel_tells_what_drafts_now_and_why(status: DraftingStatus, text: tuple[str, str]) -> None:
    assert drafting_now(status) == text
    assert len(text[1]) <= BRIEF


def test_an_answer_without_drafts_has_no_speedup() -> None:
    assert "no draft" in views(finished(NONE, LOST))["run"]


def test_few_drafted_tokens_are_counted_in_every_view() -> None:
    for name, shown_text in views(finished(FEW, LOST)).items():
        assert "15 of 15" in shown_text, name
        assert "100% accepted" not in shown_text, name


def test_the_stored_names_of_draft_sources_do_not_change() -> None:
    assert {source.value: source.with_article for source in Source} == {
        "model": "a draft model",
        "mtp": "an MTP layer",
        "eagle3": "an EAGLE-3 head",
        "dflash": "a DFlash block",
        "ngram": "an n-gram",
    }
    assert IN_TARGET == "MTP layer in the same file"
    assert json.dumps(["+".join((Source.MTP, Source.NGRAM)), Source.DFLASH]) == '["mtp+ngram", "dflash"]'
    assert BY_NAME["draft.type"].kind.allowed == "auto or one of model, mtp, eagle3, dflash, ngram, none"


def test_no_other_module_lists_the_kinds() -> None:
    # The readers of headers know llama.cpp's architectures, two of which have these names.
    texts = {path.name: path.read_text("utf-8") for path in Path(app_package.__file__).parent.rglob("*.py")}
    naming = {name for name, text in texts.items() if re.search(r"[\"'](mtp|eagle3|dflash)[\"']", text)}
    # Files of measurements keep their names.
    assert naming == {"sources.py", "draft_kinds.py", "stored_measurements.py"}


@pytest.mark.parametrize(
    ("stored", "drafter"),
    [
        ("mtp+ngram", Source.MTP),
        ("dflash", Source.DFLASH),
        ("model+ngram", Source.MODEL),
        ("ngram", Source.MODEL),
        ("none", Source.MODEL),
        ("None", Source.MODEL),
        ("a later kind", Source.MODEL),
    ],
)
def test_the_drafter_of_a_stored_answer_is_read(stored: str, drafter: Source) -> None:
    assert drafter_of(stored) is drafter
