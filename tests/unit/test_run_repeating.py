"""`tandem run` tells a terminal, once and in a line of its own, that an answer repeats itself; a pipe hears nothing."""

from __future__ import annotations

import io
import queue

import pytest

from app.cli.options import Options
from app.cli.output import LOADING, AnswerPrinter
from app.cli.run import _Listener
from app.engine.stats import GenerationStats
from app.engine.text import Segment
from app.engine.types import FinishReason, Origin
from app.errors import AppError
from app.events import AnswerPlan, Event, Failed, Finished, Loaded, ModelInfo, PairInfo, StepCompleted

STATS = GenerationStats(predicted_n=900, first_token_ns=10**8, predicted_ns=10**9)
BEGAN = f"\r\x1b[K{LOADING}\r\x1b[K"
"""What was shown and taken back before the answer."""
TOLD = "(It has been repeating itself for 400 tokens; ctrl+c stops it.)\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(monkeypatch: pytest.MonkeyPatch, out: io.StringIO, err: io.StringIO, reason: FinishReason) -> int:
    """An answer that repeats itself from its second piece on."""
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    model = ModelInfo("Fake", "fake.gguf", "F32", 1000, 64)
    events.put(Loaded(PairInfo(model, None, 1024, "CPU")))
    for piece, repeating in (("sea, ", 0), ("sea, ", 400), ("sea, ", 401), ("ship", 0), ("ship", 400)):
        events.put(StepCompleted(1, (Segment(piece, Origin.TARGET),), STATS, repeating=repeating))
    plan = AnswerPlan("off", "none", None, None)
    events.put(Finished(1, reason, "sea", "", STATS, plan, repeating=401))
    return _Listener(Options.__new__(Options), "", as_one_object=False).listen(events)


def test_a_terminal_is_told_once_and_the_answer_goes_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Terminal()
    assert run(monkeypatch, both, both, FinishReason.STOP) == 0
    assert both.getvalue().startswith(f"{BEGAN}sea, sea, \n{TOLD}sea, shipship\n")
    assert both.getvalue().count("repeating itself") == 1


def test_thinking_on_the_terminal_is_broken_off_like_an_answer() -> None:
    err = Terminal()
    printer = AnswerPrinter(io.StringIO(), err)
    printer.print([Segment("hm, hm", Origin.TARGET, reasoning=True)])
    printer.break_line()
    assert err.getvalue().endswith("\n")


def test_a_pipe_hears_of_it_in_the_end_only(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert run(monkeypatch, out, err, FinishReason.CONTEXT) == 0
    assert out.getvalue() == "sea, sea, sea, shipship\n"
    assert err.getvalue() == (
        "900 tokens, 899 tok/s, TTFT 0.1 s; no draft; "
        "cut, the context of 1,024 tokens is full (--ctx); 401 tokens in a row repeat themselves (--repeat-penalty)\n"
    )


def test_the_answer_in_a_file_is_not_broken_by_what_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), Terminal()
    run(monkeypatch, out, err, FinishReason.CANCELLED)
    assert out.getvalue() == "sea, sea, sea, shipship\n"
    assert err.getvalue().startswith(BEGAN + TOLD)


def test_why_an_answer_broke_off_stands_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Terminal()
    monkeypatch.setattr("sys.stdout", both)
    monkeypatch.setattr("sys.stderr", both)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    events.put(StepCompleted(1, (Segment("The sea", Origin.TARGET),), STATS))
    events.put(Failed(1, AppError("The engine has died.")))
    with pytest.raises(AppError, match="died"):
        _Listener(Options.__new__(Options), "", as_one_object=False).listen(events)
    assert both.getvalue() == f"{BEGAN}The sea\n"
