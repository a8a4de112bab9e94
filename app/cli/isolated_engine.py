"""Both sides of the child process that runs the models, and the types that cross between them."""

from __future__ import annotations

from collections.abc import Callable

from app.cli.loader import PairLoader
from app.cli.process import Process
from app.compare.job import CompareJob, Explaining, Raced, RunBegan
from app.compare.race import RunEnded
from app.core.child import Ending, python_command
from app.hardware.offers import Offer
from app.llama.cancel import CancelFlag
from app.llama.fitting.does_not_fit import DoesNotFitError
from app.worker.commands import Loader
from app.worker.counting import CountJob
from app.worker.events import Event
from app.worker.isolated.child import serve
from app.worker.isolated.codec import Codec
from app.worker.isolated.engine import IsolatedEngine
from app.worker.isolated.process import codec_for


def isolated_engine(process: Process, emit: Callable[[Event], None]) -> IsolatedEngine:
    """Return the parent's side; the child starts with the first command."""
    command = python_command("-m", "app.cli.engine_process")
    return IsolatedEngine(emit, command, codec(), hint_after, process.rpc)


def codec() -> Codec:
    """Return the codec of both sides."""
    return codec_for(PairLoader, DoesNotFitError, Offer, CountJob, CompareJob, RunBegan, RunEnded, Explaining, Raced)


def work() -> None:
    """Run the child's side; does not return."""
    serve(codec(), CancelFlag(), _report_abort)


def hint_after(loader: Loader, ending: Ending) -> str:
    """Return a hint after the process of a pair ended."""
    assert isinstance(loader, PairLoader)
    if loader.options.process.rpc:
        return "Without --rpc the models are loaded on this machine alone."
    if ending.was_killed:
        from app.cli.oom_killed import way_to_less

        return f"The system ends what takes too much memory. {way_to_less(loader.options)}".rstrip()
    return ""


def _report_abort(send: Callable[[str], None]) -> None:
    from app.llama.last_words import on_abort

    on_abort(send)
