"""`tandem run`: progress and notices never overwrite the answer on a terminal; pictures come before the prompt."""

import io
import json
import os
import queue
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.cli import main
from app.cli.output import LOADING
from app.cli.run import Interrupt, Listener, with_files
from app.cli.running_server import RunningServer, ServerAnswer
from app.conversations.message import pictures_in
from app.core.errors import AppError
from app.core.fixes import quoted
from app.core.pictures import MARK, PictureLimits, read_picture
from app.engine.events import PromptProgress, Step
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.models.pair_info import ModelInfo, PairInfo
from app.server.chat import read_chat
from app.server.fields import Fields
from app.settings.layers import DEFAULTS
from app.worker.events import Event, Failed, Finished, Loaded, Measuring, Notice
from tests.core.test_pictures import gif, png
from tests.llama.tiny_model import write_model
from tests.tandem import Screen

STATS = GenerationStats(predicted_n=2, predicted_ns=10**9)
PREFILL = PromptProgress(1, True, 36, 37)
PROGRESS_LINE = "draft reading prompt: 36 of 37 tokens"
CLEAR = "\r\x1b[K"


def text(piece: str, *, reasoning: bool = False) -> Step:
    return Step(1, (Segment(piece, None, reasoning=reasoning),), STATS)


def pair(name: str = "Fake") -> Loaded:
    return Loaded(PairInfo(ModelInfo(name, "fake.gguf", "F32", 1000, 64), None, 1024, "CPU"))


def listen(*said: Event, prefill: str = "", as_json: bool = False) -> int:
    events: queue.SimpleQueue[Event | Interrupt] = queue.SimpleQueue()
    for event in said:
        events.put(event)
    return Listener(DEFAULTS, lambda: None, prefill, as_json=as_json).listen(events)


@pytest.mark.parametrize("option", ["--file", "--prompt-file", "--json-schema", "--grammar"])
def test_a_missing_file_is_named_before_a_missing_pair(
    option: str, folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.cli.run.read_pair", lambda given: pytest.fail("a pair is looked up"))
    prompt = [] if option == "--prompt-file" else ["hi"]
    assert main(["run", option, "nope.md", *prompt]) == 1
    assert "There is no file nope.md." in capsys.readouterr().err


def run(monkeypatch: pytest.MonkeyPatch, out: io.StringIO, err: io.StringIO, *said: Event, prefill: str = "") -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    assert listen(pair(), *said, Finished(1, FinishReason.STOP, "", "", STATS), prefill=prefill) == 0


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ((text("Certainly"), PREFILL, text("! Here")), f"{LOADING}{CLEAR}Certainly! Here\n"),
        ((text("Certainly"), Measuring(1, 0.5), text("! Here")), f"{LOADING}{CLEAR}Certainly! Here\n"),
        ((text("Hm", reasoning=True), PREFILL, text(", so", reasoning=True)), f"{LOADING}{CLEAR}Hm, so"),
        ((text("Certainly!\n"), PREFILL, text("Here")), f"Certainly!\n{CLEAR}{PROGRESS_LINE}{CLEAR}Here\n"),
        ((text("Hm\n", reasoning=True), PREFILL, text("Yes")), f"Hm\n{CLEAR}{PROGRESS_LINE}{CLEAR}\nYes\n"),
        ((text("Certainly"), Notice("Drafting stopped."), text("! Here")), "Certainly\nDrafting stopped.\n! Here\n"),
        ((text("Hm", reasoning=True), Notice("1."), Notice("2."), text(", so", reasoning=True)), "Hm\n1.\n2.\n, so"),
    ],
)
def test_one_terminal_for_answer_and_progress(
    monkeypatch: pytest.MonkeyPatch, events: tuple[Event, ...], shown: str
) -> None:
    both = Screen()
    run(monkeypatch, both, both, *events)
    assert shown in both.getvalue()


@pytest.mark.parametrize(
    ("out", "err", "prefill", "events", "answer", "told"),
    [
        (io.StringIO, Screen, "", (text("Certainly"), PREFILL, text("! Here")), "Certainly! Here\n", PROGRESS_LINE),
        (Screen, io.StringIO, "", (text("Certainly"), Notice("No."), text("! Here")), "Certainly! Here\n", "No.\n"),
        (io.StringIO, io.StringIO, "Certainly", (), "Certainly\n", "2 tokens"),
        (io.StringIO, io.StringIO, "Certainly", (text("! "), text("Here")), "Certainly! Here\n", "2 tokens"),
        (io.StringIO, io.StringIO, "", (text("Hm", reasoning=True),), "\n", "Hm\n2 tokens"),
    ],
    ids=["progress on a terminal", "notice in a file", "prefill alone", "prefill", "reasoning alone"],
)
def test_an_answer_in_a_file_has_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
    out: type[io.StringIO],
    err: type[io.StringIO],
    prefill: str,
    events: tuple[Event, ...],
    answer: str,
    told: str,
) -> None:
    written, shown = out(), err()
    run(monkeypatch, written, shown, *events, prefill=prefill)
    assert written.getvalue() == answer
    assert told in shown.getvalue()


def test_an_error_stands_below_the_unfinished_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Screen()
    monkeypatch.setattr("sys.stdout", both)
    monkeypatch.setattr("sys.stderr", both)
    with pytest.raises(AppError, match="died"):
        listen(text("The sea"), Failed(1, AppError("The engine has died.")))
    assert both.getvalue().endswith("The sea\n")


@pytest.mark.parametrize("out", [Screen(), io.StringIO()])
def test_json_escapes_control_characters(monkeypatch: pytest.MonkeyPatch, out: io.StringIO) -> None:
    said = "\x1b[2J\x9b2J\x7f\u202eä"
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert listen(pair(said), Finished(1, FinishReason.STOP, said, said, STATS), as_json=True) == 0
    assert json.loads(out.getvalue())["text"] == said
    assert out.getvalue().rstrip().isprintable()
    assert out.getvalue().isascii() == out.isatty()


def test_pictures_stand_before_the_prompt_and_its_texts(tmp_path: Path) -> None:
    for name, data in (("a.png", png(4, 3)), ("b.gif", gif(40, 30)), ("c.txt", b"text")):
        (tmp_path / name).write_bytes(data)
    files = [tmp_path / name for name in ("a.png", "c.txt", "b.gif")]
    message = with_files("What?", files, PictureLimits(), takes_stdin=False)
    assert message.content == f"{MARK}{MARK}{tmp_path / 'c.txt'}:\n```txt\ntext\n```\n\nWhat?"
    shown = [(str(tmp_path / "a.png"), png(4, 3)), (str(tmp_path / "b.gif"), gif(40, 30))]
    assert [(each.name, each.data) for each in pictures_in([message])] == shown


@pytest.mark.usefixtures("folders")
def test_what_a_decoder_prints_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def damaged(*_: object, **__: object) -> None:
        os.write(2, b"Fax4Decode: Bad code word")
        raise AppError("It is damaged.")

    monkeypatch.setattr("app.cli.run.with_files", damaged)
    assert main(["run", "--target", str(write_model(tmp_path / "m.gguf")), "Hi"]) == 1
    assert capfd.readouterr().err == "tandem: It is damaged.\n"


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(
    ("arguments", "notice"),
    [
        (['What is @"a b.png"?'], f'"@a b.png" is sent as text; --file {quoted("a b.png")} includes the file.\n'),
        (["What is @c.png?"], '"@c.png" is sent as text; --file c.png includes the file.\n'),
        (["--file", "c.png", "What is @c.png?"], ""),
        (["What is @property in @d.png?"], ""),
    ],
)
def test_a_reference_to_a_file_is_reported_as_text(
    arguments: list[str],
    notice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a b.png", "c.png"):
        (tmp_path / name).write_bytes(png(4, 3))
    monkeypatch.setattr("app.cli.run.with_files", Mock(side_effect=AppError("It is damaged.")))
    assert main(["run", "--target", str(write_model(tmp_path / "m.gguf")), *arguments]) == 1
    assert capsys.readouterr().err == f"{notice}tandem: It is damaged.\n"


def test_a_running_server_gets_the_pictures_in_their_places() -> None:
    picture = {"type": "image_url", "image_url": {"url": read_picture(png(4, 3)).data_url}}
    messages = [{"role": "user", "content": [picture]}, {"role": "user", "content": "What?"}]
    asked = read_chat(Fields({"messages": messages}), DEFAULTS)
    sent = ServerAnswer(RunningServer("http://x/v1", "t", ""), DEFAULTS, as_json=False)._body(asked)
    assert sent["messages"] == messages
