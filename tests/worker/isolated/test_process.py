"""Check that values cross between two processes unchanged, and no other types do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.engine import PairLoader, codec
from app.cli.options import Options, Placement, Process
from app.compare.job import CompareJob, Raced
from app.compare.race import RunBegan
from app.compare.sides import Side
from app.conversations.message import Message, Role
from app.core.errors import AppError, ModelFileError, StoppedError, WaitError
from app.core.program import limited_run, python_command, python_environment
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import AutoDraft, DraftingStatus, DraftParams, FinishReason, Origin, SamplingParams
from app.hardware.offers import Offer
from app.llama.fitting.fit_pair import DoesNotFitError
from app.llama.params import ModelParams
from app.models.catalog import Pair
from app.models.pair_info import ModelInfo, PairInfo
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import DemoModel, HubModel, LocalModel
from app.worker.commands import Answer, Load, RunJob
from app.worker.events import (
    AnswerPlan,
    Failed,
    Finished,
    JobEnded,
    JobProgressed,
    Loaded,
    LoadProgress,
    Measuring,
    Notice,
    PairChanged,
    PromptProgress,
    Step,
    StepDetails,
)
from app.worker.isolated.process import AbortMessage, Cancel, Codec, Drafts, Inspect
from app.worker.request import AnswerRequest

MODEL = ModelInfo("A \x1b[31m name", "a.gguf", "Q4_K", 7, 9)
STATS = GenerationStats(predicted_n=3, accepted_by_position=[2, 1], predicted_ns=10**15)
STATUS = DraftingStatus("model", "It pays.", "winning", 1.5, measured=True)
PAIR = Pair("n", "t", HubModel("o/r", "Q4"), LocalModel(Path("/a b/\udcff.gguf")), SamplingParams(seed=3))
OPTIONS = Options(
    PAIR,
    SetUp(PAIR, ModelOnDisk(Path("/m.gguf"), 5, files=("a", "b")), None),
    DraftParams(3, 0, 0.5),
    4096,
    2,
    "Be brief.",
    None,
    ("\n\n", "\ud800"),
    Placement(ModelParams(devices=("CUDA0", "RPC0"), tensor_split=(1.0, 2.5))),
    Process(True, ("[::1]:5", "h:6")),
)
DETAILS = StepDetails(1, (b"\xf0\x9f", b""), 1, (0.5, None), (b"\xff",), 0, (0.9,), 0.1, 7, None)
VALUES = [
    Load(1, PairLoader(OPTIONS)),
    Load(1, PairLoader(replace(OPTIONS, files=None, drafting=AutoDraft(lookup=False)))),
    Load(1, PairLoader(replace(OPTIONS, pair=replace(PAIR, target=DemoModel("target"), draft=None), drafting=None))),
    Answer(2, AnswerRequest((Message(Role.SYSTEM, "a\nb"), Message(Role.USER, "\U0001f600\u2028")), stops=("x",))),
    Cancel(),
    AbortMessage("GGML_ASSERT"),
    LoadProgress("target", 0.25),
    Loaded(PairInfo(MODEL, None, 8, "CPU")),
    Notice("n"),
    Measuring(3, 0.1),
    PromptProgress(3, True, 1, 2),
    Step(3, (Segment("a", Origin.DRAFT), Segment("b", Origin.TARGET, True)), STATS, STATUS),
    Step(3, (), STATS, None, StepDetails(1, (b"\xf0\x9f", b""), 1, (0.5, None), (b"\xff",), 0, (0.9,), 0.1, 7, None)),
    JobProgressed(3, RunBegan("plain", 1)),
    JobEnded(3, Raced((), {"auto": None}, False)),
    Inspect(True),
    Drafts(False),
    RunJob(3, CompareJob(AnswerRequest((Message(Role.USER, "a"),)), (Side("plain", None),), 3)),
    Finished(3, FinishReason.STOP, "a", "b", STATS, AnswerPlan("fixed", "model", DraftParams(), None), None),
    PairChanged(PairInfo(MODEL, None, 8, "CPU", draft_failed=True)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_out_as_it_went_in(value: Any) -> None:
    line = codec().encode(value)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert codec().decode(line) == value


@pytest.mark.parametrize(
    "error",
    [
        ModelFileError("There is no file x.", "Check the path."),
        StoppedError("Loading was stopped."),
        WaitError("Wait.", "", 3.5),
        DoesNotFitError("No room.", "Take", (Offer("a shorter context", 1, "less", ("--ctx", "1024"), True),)),
    ],
)
def test_an_error_keeps_its_kind_and_all_that_it_shows(error: AppError) -> None:
    heard = codec().decode(codec().encode(Failed(None, error))).error

    assert type(heard) is type(error)
    assert vars(heard) == vars(error)
    assert (str(heard), heard.exit_code) == (str(error), error.exit_code)


def test_an_error_crosses_whatever_was_imported_when_the_process_began() -> None:
    # In this process everything is imported now.
    code = (
        "import sys; from app.cli.engine import codec; ours = codec(); import app.llama.fitting.fit_pair\n"
        "from app.worker.events import Failed; from app.llama.fitting.fit_pair import DoesNotFitError\n"
        "sys.stdout.buffer.write(ours.encode(Failed(None, DoesNotFitError('No room.', 'Take', ()))))"
    )
    fresh = limited_run(python_command("-c", code), 60, python_environment())

    heard = codec().decode(fresh.stdout).error
    assert isinstance(heard, DoesNotFitError)
    assert (heard.message, heard.hint, heard.offers) == ("No room.", "Take", ())


def test_an_error_that_was_not_named_shows_the_same_as_a_plain_one() -> None:
    class LaterError(ModelFileError):
        pass

    error = LaterError("There is no file x.", "Check the path.")
    error.what = object()  # type: ignore[attr-defined]

    for ours in (codec(), Codec(Failed)):
        heard = ours.decode(ours.encode(Failed(3, error)))
        assert type(heard.error) is AppError
        assert (heard.request, heard.error.sentences) == (3, "There is no file x. Check the path.")


def test_what_was_not_named_does_not_leave() -> None:
    with pytest.raises(TypeError, match="function"):
        codec().encode(Load(1, lambda cancel, progress: pytest.fail("it was called")))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello\n",
        b"[]\n",
        b"[[]]\n",
        b'["Path","x"]\n',
        b'["subprocess.Popen",["()","true"]]\n',
        b'["Notice"]\n',
        b'["Notice","a","b"]\n',
        b'["Origin","no one"]\n',
        b'["ModelFileError",["{}"]]\n',
        b'["ModelFileError"]\n',
        b"[" * 10_000 + b"]" * 10_000 + b"\n",
        b"\xff\n",
    ],
)
def test_what_is_no_value_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind
        codec().decode(line)


def test_nothing_is_made_that_was_not_named() -> None:
    small = Codec(Notice)

    assert small.decode(small.encode(Notice("a"))) == Notice("a")
    with pytest.raises(ValueError, match="LoadProgress"):
        small.decode(json.dumps(["LoadProgress", "target", 0.5]).encode())
