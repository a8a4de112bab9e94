"""A scripted engine without models, for sessions and screens."""

import threading
from collections.abc import Callable
from dataclasses import replace

from app.core.errors import AppError
from app.engine.drafting_report import Speedup
from app.engine.events import PromptProgress, Step
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.text.tool_calls import CallPart, ToolCall, shown_call
from app.engine.types import DraftingStatus, FinishReason
from app.models.pair_info import ModelInfo, PairInfo
from app.settings.layers import Layer
from app.worker.engine_worker import Engine, Loader, Progress
from app.worker.events import Event, Failed, Finished, Loaded, LoadProgress
from app.worker.jobs import Job, MeasureJob
from app.worker.request import AnswerRequest, LoadedPair

FIXED: Layer = {"draft.mode": "fixed"}
TARGET = ModelInfo(
    "Qwen2.5-Coder-32B-Instruct", "Qwen2.5-Coder-32B-Instruct-Q4_K_M.gguf", "Q4_K_M", 19_900_000_000, 152064, 32768
)
DRAFT = ModelInfo(
    "Qwen2.5-Coder-0.5B-Instruct", "Qwen2.5-Coder-0.5B-Instruct-Q8_0.gguf", "Q8_0", 531_000_000, 151936, 32768
)
PAIR = PairInfo(TARGET, DRAFT, n_ctx=32768, device="CPU")
STATS = GenerationStats(
    prompt_n=1700,
    predicted_n=448,
    draft_n=500,
    draft_n_accepted=390,
    draft_n_model=500,
    verify_steps=76,
    predicted_ns=4_189_300_000,
)
"""106.7 tok/s, acceptance 78%, 5.9 tokens per step, 2.1k of context."""
GAINING = replace(STATS, speedup=Speedup(3.1, measured=True, verdict="winning"))
FIRST_JOB = 1001
"""The number of the first job; answers have smaller numbers."""
MEASURING = 5000
"""The number of the job that measures the pair; no other job has it."""


class FakeEngine(Engine):
    """Records the commands; the test emits the events."""

    closes = True
    """Whether the worker's thread ends in time."""

    def __init__(self, emit: Callable[[Event], None] = lambda event: None) -> None:
        self.emit = emit
        self.loads = 0
        self.requests: list[AnswerRequest] = []
        self.jobs: list[Job] = []
        self.measurements: list[MeasureJob] = []
        self.cancelled = 0
        self.inspected = False
        self.drafts = True
        self._text = self._thoughts = ""

    def load(self, loader: Loader) -> None:
        self.loads += 1

    def answer(self, request: AnswerRequest) -> int:
        self.requests.append(request)
        self._text = request.prefill.text if request.prefill is not None else ""
        self._thoughts = request.prefill.reasoning if request.prefill is not None else ""
        return len(self.requests)

    def run(self, job: Job) -> int:
        if isinstance(job, MeasureJob):
            self.measurements.append(job)
            return MEASURING
        self.jobs.append(job)
        return self.job_number

    def cancel(self, number: int | None = None) -> None:
        self.cancelled += 1

    def inspect(self, on: bool) -> None:
        self.inspected = on

    def draft(self, on: bool) -> None:
        self.drafts = on

    def close(self, timeout: float | None = None) -> bool:
        return self.closes

    @property
    def job_number(self) -> int:
        """The number of the last job; no answer has it."""
        return FIRST_JOB - 1 + len(self.jobs)

    # Events

    def load_progress(self, share: float) -> None:
        self.emit(LoadProgress(share))

    def loaded(self, pair: PairInfo = PAIR) -> None:
        self.emit(Loaded(pair))

    def reads(self, done: int, total: int, left_s: float | None = 8.0, *, drafting: bool = False) -> None:
        self.emit(PromptProgress(len(self.requests), drafting, done, total, left_s))

    def says(
        self,
        text: str,
        *,
        thinking: bool = False,
        stats: GenerationStats = STATS,
        drafting: DraftingStatus | None = None,
        request: int | None = None,
    ) -> None:
        if thinking:
            self._thoughts += text
        else:
            self._text += text
        segments = (Segment(text, Source.MODEL, reasoning=thinking),)
        self.emit(Step(request or len(self.requests), segments, stats, drafting))

    def finishes(
        self,
        reason: FinishReason = FinishReason.STOP,
        stats: GenerationStats = STATS,
        repeats: int = 0,
        calls: tuple[ToolCall, ...] = (),
    ) -> None:
        self.emit(Finished(len(self.requests), reason, self._text, self._thoughts, stats, repeats=repeats, calls=calls))

    def calls(self, call: ToolCall) -> None:
        """Write a tool call, and end the answer with it."""
        segment = Segment(shown_call(call), Source.MODEL, call=CallPart(0, call, begins=True, ends=True))
        self.emit(Step(len(self.requests), (segment,), STATS))
        self.finishes(calls=(call,))

    def goes_on(self, text: str, reason: FinishReason = FinishReason.STOP) -> None:
        """Emit the rest of an answer and end it."""
        if text:
            self.says(text)
        self.finishes(reason)

    def fails(self, error: AppError) -> None:
        self.emit(Failed(len(self.requests), error))

    def fails_to_load(self, error: AppError) -> None:
        self.emit(Failed(None, error))


def no_loader(cancel: threading.Event, progress: Progress) -> LoadedPair:
    raise AssertionError("the fake engine loads nothing")
