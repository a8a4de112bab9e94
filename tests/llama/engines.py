"""Engines that load the pair of some flags, and their events."""

import psutil

from app.engine.events import Step
from app.worker.engine_worker import Engine
from app.worker.events import Failed, Finished, Loaded
from app.worker.isolated_engine import IsolatedEngine
from app.worker.pair_loader import make_engine
from tests.llama.params import loader_of
from tests.worker.harness import Listener, question


class Running(Listener):
    """An engine and its events."""

    def __init__(self, *flags: str) -> None:
        super().__init__()
        loader = loader_of(*flags)
        self.engine: Engine = make_engine(loader.process, self.events.put)
        self.engine.load(loader)

    @property
    def isolated(self) -> IsolatedEngine:
        """Return the engine, whose models must be in a child process."""
        assert isinstance(self.engine, IsolatedEngine)
        return self.engine

    @property
    def child(self) -> psutil.Process:
        assert self.isolated._process is not None
        return psutil.Process(self.isolated._process._popen.pid)

    def answer(self) -> int:
        """Ask for an answer that does not end by itself; return its number."""
        return self.engine.answer(question("Count to a thousand.", None))

    def answer_under_way(self) -> int:
        """Ask for an answer after the pair is loaded, and read its beginning."""
        assert isinstance(self.until(Loaded, Failed)[-1], Loaded)
        number = self.answer()
        for _ in range(3):
            assert isinstance(self.until(Step, Failed)[-1], Step)
        return number

    def failed(self, number: int | None = None) -> Failed:
        """Return the error of a request, by default the next, also a pair that cannot be loaded again."""
        while True:
            event = self.until(Failed, Finished, Loaded)[-1]
            assert isinstance(event, Failed)
            if number in (None, event.request):
                return event

    def goes_on(self, number: int) -> None:
        """Check that an answer is being written."""
        step = self.until(Step, Failed)[-1]
        assert isinstance(step, Step)
        assert step.request == number
