"""`tandem run` breaks off text on a terminal before it prints why there is no more."""

from __future__ import annotations

import io
import queue

import pytest

from app.cli.options import Options
from app.cli.output import LOADING, AnswerPrinter
from app.cli.run import _Listener
from app.core.errors import AppError
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import Origin
from app.worker.events import Event, Failed, Step

STATS = GenerationStats(predicted_n=900, first_token_ns=10**8, predicted_ns=10**9)
BEGAN = f"\r\x1b[K{LOADING}\r\x1b[K"
"""The status that is erased before the answer."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_thinking_on_the_terminal_is_broken_off_like_an_answer() -> None:
    err = Terminal()
    printer = AnswerPrinter(io.StringIO(), err)
    printer.print([Segment("hm, hm", Origin.TARGET, reasoning=True)])
    printer.break_line()
    assert err.getvalue().endswith("\n")


def test_why_an_answer_broke_off_stands_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Terminal()
    monkeypatch.setattr("sys.stdout", both)
    monkeypatch.setattr("sys.stderr", both)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    events.put(Step(1, (Segment("The sea", Origin.TARGET),), STATS))
    events.put(Failed(1, AppError("The engine has died.")))
    with pytest.raises(AppError, match="died"):
        _Listener(Options.__new__(Options), "", as_one_object=False).listen(events)
    assert both.getvalue() == f"{BEGAN}The sea\n"
