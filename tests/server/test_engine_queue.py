"""The queue of requests before the engine."""

from collections.abc import Callable

from app.server.engine_queue import EngineQueue
from app.worker.engine_worker import EngineWorker
from app.worker.events import Event, Notice
from tests.hanging import HANGS_S


def test_an_engine_may_emit_while_the_queue_is_made() -> None:
    def running_engine(emit: Callable[[Event], None]) -> EngineWorker:
        emit(Notice("The pair is measured."))
        return EngineWorker(emit)

    queue = EngineQueue(running_engine)
    assert queue.engine.close(HANGS_S)
