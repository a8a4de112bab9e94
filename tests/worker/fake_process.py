"""A child process whose pairs die, wait and fail on request; run as a module, it is that child."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.core.errors import Interrupted, ModelLoadError
from app.engine.interfaces import Controls
from app.worker.engine_process import serve
from app.worker.engine_worker import Progress
from app.worker.events import Event, JobEnded, JobProgressed
from app.worker.jobs import Job
from app.worker.request import LoadedPair
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair

MODULE = "tests.worker.fake_process"
LAST_WORDS = "/home/builder/ggml/ggml-x.cpp:12: GGML_ASSERT(it == that) failed"


@dataclass(frozen=True, slots=True)
class FakeLoader:
    """Loads a pair that writes endlessly.

    Attributes:
        n_ctx: Tokens until it ends.
        dies_at: Number of the target's decode call that ends the process, or "loading"; None never.
        waits_at: Number of a call that does not return.
        fails_at: Number of a failing call, or "loading".
        mark: A file: the process dies, waits or fails only if it does not exist, and creates it first.
    """

    n_ctx: int = 512
    dies_at: int | str | None = None
    waits_at: int | str | None = None
    fails_at: int | str | None = None
    draft: bool = False
    mark: str = ""

    def __call__(self, cancel: threading.Event, progress: Progress) -> LoadedPair:
        if not progress(0.5):
            raise Interrupted
        self._perhaps("loading")
        target, draft = FakeModel(mixing(1), n_ctx=self.n_ctx), FakeModel(mixing(1), n_ctx=self.n_ctx)
        if isinstance(self.fails_at, int):
            target.fail_at = self.fails_at
        _watch(target, self._perhaps)
        return FakePair(target, draft if self.draft else None, notices=["A notice."])

    def _perhaps(self, now: int | str) -> None:
        if self.dies_at == now and self._first_time():
            sys.stderr.write(f"{LAST_WORDS}\n")
            sys.stderr.flush()
            os.abort()
        if self.fails_at == "loading" == now and not self._first_time():
            raise ModelLoadError("It is gone.", "Bring it back.")
        if self.waits_at == now and self._first_time():
            threading.Event().wait()

    def _first_time(self) -> bool:
        if not self.mark:
            return True
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _watch(model: FakeModel, look: Callable[[int], None]) -> None:
    decode = model.decode

    def watched(tokens: Sequence[int], n_outputs: int) -> None:
        look(len(model.batches) + 1)
        decode(tokens, n_outputs)

    model.decode = watched  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class FakeJob(Job):
    """Reports which loader loaded the pair."""

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        yield JobProgressed(number, pair.info)
        yield JobEnded(number, pair.info.n_ctx)


@dataclass(frozen=True, slots=True)
class OptionalJob(FakeJob):
    """Reports it only if a pair is loaded."""

    loads = False


if __name__ == "__main__":
    # A dump of a process that ends on purpose is useless.
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    serve()
