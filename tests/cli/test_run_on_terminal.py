"""What `tandem run` says while it answers never takes away what stands on the terminal of the answer."""

from __future__ import annotations

import io
import json
import queue

import pytest

from app.cli.options import Options
from app.cli.output import LOADING
from app.cli.run import _Listener
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import FinishReason, Origin
from app.models.pair_info import ModelInfo, PairInfo
from app.worker.events import AnswerPlan, Event, Finished, Loaded, Measuring, Notice, PromptProgress, Step

STATS = GenerationStats(predicted_n=2, predicted_ns=10**9)
DRAFT_READS = PromptProgress(1, True, 36, 37)
CLEAR = "\r\x1b[K"
BEGAN = f"{CLEAR}{LOADING}{CLEAR}"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text(piece: str, *, reasoning: bool = False) -> Step:
    return Step(1, (Segment(piece, Origin.TARGET, reasoning=reasoning),), STATS)


def run(monkeypatch: pytest.MonkeyPatch, out: io.StringIO, err: io.StringIO, *said: Event) -> None:
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    model = ModelInfo("Fake", "fake.gguf", "F32", 1000, 64)
    plan = AnswerPlan("off", "none", None, None)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    for event in (
        Loaded(PairInfo(model, None, 1024, "CPU")),
        *said,
        Finished(1, FinishReason.STOP, "", "", STATS, plan),
    ):
        events.put(event)
    assert _Listener(Options.__new__(Options), "", as_one_object=False).listen(events) == 0


@pytest.mark.parametrize("out", [Terminal(), io.StringIO()])
def test_no_answer_steers_the_terminal_as_json(monkeypatch: pytest.MonkeyPatch, out: io.StringIO) -> None:
    said = "\x1b[2J\x9b2J\x7f\u202eä"
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    events.put(Loaded(PairInfo(ModelInfo(said, "fake.gguf", "F32", 1000, 64), None, 1024, "CPU")))
    events.put(Finished(1, FinishReason.STOP, said, said, STATS, AnswerPlan("off", "none", None, None)))
    assert _Listener(Options.__new__(Options), "", as_one_object=True).listen(events) == 0
    assert json.loads(out.getvalue())["text"] == said
    assert out.getvalue().rstrip().isprintable()
    assert out.getvalue().isascii() == out.isatty()


@pytest.mark.parametrize("progress", [DRAFT_READS, Measuring(1, 0.5)])
def test_the_first_words_stay_while_the_draft_reads_and_costs_are_measured(
    monkeypatch: pytest.MonkeyPatch, progress: Event
) -> None:
    both = Terminal()
    run(monkeypatch, both, both, text("Certainly"), progress, text("! Here"))
    assert both.getvalue().startswith(f"{BEGAN}Certainly! Here\n")


def test_so_do_the_first_thoughts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    both = Terminal()
    run(monkeypatch, both, both, text("Hm", reasoning=True), DRAFT_READS, text(", so", reasoning=True))
    assert both.getvalue().startswith(f"{BEGAN}Hm, so")


def test_progress_is_shown_below_a_line_that_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Terminal()
    run(monkeypatch, both, both, text("Certainly!\n"), DRAFT_READS, text("Here"))
    assert f"Certainly!\n{CLEAR}Draft reading prompt: 36 of 37 tokens{CLEAR}Here\n" in both.getvalue()


def test_progress_is_shown_beside_an_answer_that_goes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), Terminal()
    run(monkeypatch, out, err, text("Certainly"), DRAFT_READS, text("! Here"))
    assert "Draft reading prompt" in err.getvalue()
    assert out.getvalue() == "Certainly! Here\n"


def test_a_notice_stands_in_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Terminal()
    run(monkeypatch, both, both, text("Certainly"), Notice("Drafting stopped."), text("! Here"))
    assert "Certainly\nDrafting stopped.\n! Here\n" in both.getvalue()


def test_a_notice_does_not_break_an_answer_on_another_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), io.StringIO()
    run(monkeypatch, out, err, text("Certainly"), Notice("Drafting stopped."), text("! Here"))
    assert out.getvalue() == "Certainly! Here\n"


def test_notices_among_thoughts_stand_in_lines_of_their_own_without_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    both = Terminal()
    thoughts = text("Hm", reasoning=True), Notice("One."), Notice("Two."), text(", so", reasoning=True), text("Yes")
    run(monkeypatch, both, both, *thoughts)
    assert f"{CLEAR}Hm\nOne.\nTwo.\n, so\n\nYes\n" in both.getvalue()


def test_what_is_said_of_an_answer_that_was_all_thought_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    run(monkeypatch, out, err, text("Hm", reasoning=True))
    assert err.getvalue().startswith("Hm\n2 tokens")
    assert out.getvalue() == "\n"


def test_progress_is_shown_below_a_thought_that_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    both = Terminal()
    run(monkeypatch, both, both, text("Hm\n", reasoning=True), DRAFT_READS, text("Yes"))
    assert f"Hm\n{CLEAR}Draft reading prompt: 36 of 37 tokens{CLEAR}\nYes\n" in both.getvalue()
