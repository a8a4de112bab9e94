"""A fake engine that streams a fixed text at a fixed speed, so that all CPU time is the screen's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.engine.events import Step
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import DraftingStatus, FinishReason
from app.worker.engine_worker import Loader
from app.worker.events import Event, Finished, Loaded
from app.worker.request import AnswerRequest
from tests.fake_engine import PAIR, FakeEngine

TOKENS_PER_SECOND = 200
_PER_STEP = 4
_LETTERS = 4
_TEXT = (
    "## A heading\n\nSome **words** of an answer with `code` in it, and more words that fill the line.\n\n"
    "```python\ndef total(items):\n    return sum(item.price for item in items)\n```\n\n- one\n- two\n\n"
)


class Streamer(FakeEngine):
    """Writes an answer at a steady rate.

    Args:
        emit: Receives its events.
        seconds: Length of the answer.
        text: The text that it repeats.
        at_once: Tokens that are emitted first, in one step.
        rate: Tokens per second.
        ended: Called on its thread at the end, with the share of a core that all other threads used.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        seconds: float,
        text: str = _TEXT,
        at_once: int = 0,
        ended: Callable[[float], object] = lambda share: None,
        rate: int = TOKENS_PER_SECOND,
    ) -> None:
        super().__init__(emit)
        self._seconds = seconds
        self._words = [text[at : at + _LETTERS] for at in range(0, len(text), _LETTERS)]
        self._at_once = at_once
        self._ended = ended
        self._rate = rate
        self._stats = GenerationStats(predicted_n=1, prompt_n=50)

    def load(self, loader: Loader) -> None:
        self.emit(Loaded(PAIR))

    def answer(self, request: AnswerRequest) -> int:
        threading.Thread(target=self._stream, daemon=True).start()
        return 1

    def _stream(self) -> None:
        began, spent = time.perf_counter(), time.process_time()
        if self._at_once:
            self._emit_step(self._at_once)
        for number in range(int(self._seconds * self._rate / _PER_STEP)):
            time.sleep(max(0.0, began + number * _PER_STEP / self._rate - time.perf_counter()))
            self._stats.predicted_ns = int((time.perf_counter() - began) * 1e9)
            self._emit_step(_PER_STEP)
        share = (time.process_time() - spent - time.thread_time()) / (time.perf_counter() - began)
        self.emit(Finished(1, FinishReason.STOP, "x", "", self._stats.snapshot()))
        self._ended(share)

    def _emit_step(self, tokens: int) -> None:
        at = self._stats.predicted_n
        text = "".join(self._words[n % len(self._words)] for n in range(at, at + tokens))
        self._stats.observe_step((Source.MODEL,) * tokens, tokens - 1)
        self._stats.predicted_n += tokens
        drafting = DraftingStatus(Source.MODEL, "82% of drafted tokens accepted")
        self.emit(Step(1, (Segment(text, Source.MODEL),), self._stats.snapshot(), drafting))
