"""Models in a process of their own: both sides of it, and what they can say to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.cli.loader import PairLoader
from app.cli.process import Process
from app.compare.job import CompareJob, Explaining, Raced, RunBegan
from app.compare.race import RunEnded
from app.core.child import Ending, python_command
from app.hardware.offers import Offer
from app.llama.cancel import CancelFlag
from app.llama.fitting.does_not_fit import DoesNotFitError
from app.worker.counting import CountJob
from app.worker.engine_worker import Loader
from app.worker.events import Event
from app.worker.isolated.child import serve
from app.worker.isolated.codec import Codec
from app.worker.isolated.engine import IsolatedEngine
from app.worker.isolated.protocol import codec_for
from app.worker.isolated.watchdog import Watchdog


def isolated_engine(process: Process, emit: Callable[[Event], None]) -> IsolatedEngine:
    """The side that stays; the other one is started with the first pair."""
    return IsolatedEngine(
        emit, python_command("-m", "app.cli.engine_process"), codec(), ways_out, _watchdog(process.rpc)
    )


def _watchdog(servers: Sequence[str]) -> Watchdog | None:
    """Watches over a process that uses these servers' devices; None where there are none."""
    if not servers:
        return None
    from app.hardware.liveness import LivenessProbe
    from app.hardware.rpc import parse_endpoint

    endpoints = [parse_endpoint(server) for server in servers]
    return Watchdog(servers, lambda: [LivenessProbe(endpoint) for endpoint in endpoints])


def codec() -> Codec:
    """What the two processes can say to each other."""
    return codec_for(PairLoader, DoesNotFitError, Offer, CountJob, CompareJob, RunBegan, RunEnded, Explaining, Raced)


def work() -> None:
    """The child's side; does not return."""
    serve(codec(), CancelFlag(), _listen_for_last_words)


def ways_out(loader: Loader, ending: Ending) -> str:
    """What to do differently after the process of a pair has ended."""
    assert isinstance(loader, PairLoader)
    if loader.options.process.rpc:
        return "Without --rpc the models are loaded on this machine alone."
    if ending.was_killed:
        from app.cli.oom_killed import way_to_less

        return f"The system ends what takes too much memory. {way_to_less(loader.options)}".rstrip()
    return ""


def _listen_for_last_words(say: Callable[[str], None]) -> None:
    from app.llama.last_words import on_abort

    on_abort(say)
