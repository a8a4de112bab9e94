"""Commands and errors cross between two processes unchanged."""

import pickle
from pathlib import Path

import pytest

from app.compare.job import CompareJob
from app.compare.race import Side
from app.conversations.message import Message, Role
from app.core.errors import AppError, ContextOverflowError, DoesNotFitError, ModelFileError, StoppedError, WaitError
from app.hardware.builds import LibraryError, start_failure
from app.hardware.offers import Offer
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import HubModel, LocalModel
from app.settings.layers import DEFAULTS
from app.worker.engine_worker import EngineCommand, Loader
from app.worker.jobs import AnswerJob, Job
from app.worker.known_pairs import ProcessOptions
from app.worker.pair_loader import PairLoader
from app.worker.request import AnswerRequest

PAIR = Pair("n", "t", HubModel("o/r", "Q4"), LocalModel(Path("/a b/\udcff.gguf")), {"seed": 3})
LOADER = PairLoader(
    PAIR,
    SetUp(PAIR, ModelOnDisk(Path("/m.gguf"), 5), None),
    DEFAULTS.over({"draft.mode": "fixed", "answer.stop": ("\n\n", "\ud800"), "model.tensor_split": (1.0, 2.5)}),
    ProcessOptions(True, ("[::1]:5", "h:6")),
)
ASKED = AnswerRequest((Message(Role.SYSTEM, "a\nb"), Message(Role.USER, "\U0001f600\u2028")), stops=("x",))


@pytest.mark.parametrize("work", [LOADER, AnswerJob(ASKED), CompareJob(ASKED, (Side("plain", None),), 3)])
def test_a_command_can_be_pickled(work: Job | Loader) -> None:
    command = EngineCommand(1, work)
    assert pickle.loads(pickle.dumps(command)) == command


@pytest.mark.parametrize(
    "error",
    [
        ModelFileError("There is no file x.", "Check the path."),
        StoppedError("Loading was stopped."),
        WaitError("Wait.", "", 3.5),
        ContextOverflowError("Too long.", "Shorten it.", whose="prompt", n_tokens=3),
        LibraryError(start_failure(None, 9, ("cpu",)), "Install it."),
        DoesNotFitError("No room.", (Offer("a shorter context", 1, "less", {"model.ctx": 1024}, True),)),
    ],
)
def test_a_pickled_error_keeps_its_kind_and_attributes(error: AppError) -> None:
    received = pickle.loads(pickle.dumps(error))

    assert type(received) is type(error)
    assert vars(received) == vars(error)
    assert (str(received), received.exit_code) == (str(error), error.exit_code)
