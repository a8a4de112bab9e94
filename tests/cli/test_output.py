"""Output on terminals, in pipes and in result files: the status line, the answer, wrapped text, errors."""

import io
import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from app.cli import main
from app.cli.output import AnswerPrinter, LineFile, check_writable, columns_of, for_reading, status, write_file
from app.core.errors import AppError, HubError, UsageError
from app.engine.text.segments import Segment
from tests.tandem import Screen

THOUGHT = Segment("so", None, reasoning=True)
SENTENCE = "The draft was trained for 4,096 tokens of context, the target for 32,768."


@pytest.mark.parametrize(
    ("platform", "environment", "codes"),
    [
        ("linux", {"TERM": "xterm"}, True),
        ("linux", {"TERM": "dumb"}, False),
        ("win32", {}, False),
        ("win32", {"WT_SESSION": "1"}, True),
    ],
)
def test_escape_codes_are_written_only_to_terminals_that_support_them(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], codes: bool
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("TERM", "TERM_PROGRAM", "WT_SESSION", "ANSICON", "ConEmuANSI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr", screen := Screen())
    status.show("Loading")
    status.say("Loaded")
    AnswerPrinter(screen, screen).print([THOUGHT])
    assert ("\x1b" in screen.getvalue()) == codes
    assert "Loaded\n" in screen.getvalue()


def test_no_color_keeps_the_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen, reasoning = Screen(), Screen()
    monkeypatch.setattr("sys.stderr", screen)
    status.show("Loading")
    AnswerPrinter(screen, reasoning).print([THOUGHT])
    assert "Loading" in screen.getvalue()
    assert reasoning.getvalue() == "so"


@pytest.mark.parametrize("stream", [Screen, io.StringIO])
def test_an_answer_has_no_control_characters(stream: type[io.StringIO]) -> None:
    answer = stream()
    printer = AnswerPrinter(answer, stream())
    printer.print([Segment("a\x1b]52;c;eA==\x07\u202e\u200b\tb")])
    printer.end()
    assert answer.getvalue() == "a]52;c;eA==\tb\n"


def test_an_error_replaces_the_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> NoReturn:
        raise HubError("The hub cannot be found.", "Look here.\nOr there.")

    monkeypatch.setattr("app.cli.pairs_check.resolve", offline)
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert main(["pairs", "find", "owner/some-GGUF"]) == 1
    shown = screen.getvalue().rpartition("\x1b[K")[2]
    assert shown == "tandem: The hub cannot be found.\n        Look here.\n        Or there.\n"


def test_ctrl_c_clears_the_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.compare.measured_pairs.machine_capacity", interrupted)
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert main(["pairs", "list"]) == 130
    assert "Looking at this machine" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[K")


def test_questions_go_to_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", Screen(" Yes\n"))
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert not status.can_ask
    monkeypatch.setattr("sys.stderr", screen := Screen())
    status.show("Looking")

    assert status.can_ask
    assert (status.ask("Download? "), status.ask("And now? ")) == ("yes", None)

    assert screen.getvalue().endswith("\x1b[KDownload? And now? ")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert not status.can_ask


def test_text_is_wrapped_for_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert columns_of(Screen()) == 40
    assert for_reading(SENTENCE, Screen(), 8) == (
        "The draft was trained for 4,096 tokens\n        of context, the target for\n        32,768."
    )
    assert for_reading(f"  {SENTENCE}", Screen()).split("\n")[1].startswith("  of")
    assert for_reading(SENTENCE, io.StringIO(), 8) == SENTENCE
    command = "Set one up: tandem setup --target owner/big-GGUF:Q4_K_M --draft owner/small-GGUF"
    assert for_reading(command, Screen()) == command, "it can be copied"


def test_errors_and_the_status_line_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert main(["run", "--file", "a", "--tmp", "3", "Why is the sky blue, and the grass green?"]) == 2
    first, *others = screen.getvalue().splitlines()
    assert first == "tandem: No such option '--tmp'. (Did you"
    assert others[0].startswith(" " * 8)
    assert len(others[0]) <= 40

    status.show(SENTENCE)
    assert screen.getvalue().endswith(SENTENCE[:39]), "a wrapped status line could not be cleared"


def test_unwritable_path_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (tmp_path, tmp_path / "gone" / "file"):
        with pytest.raises(UsageError, match="cannot be written"):
            LineFile(wrong)
    check_writable(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="permission denied"):
        check_writable(tmp_path / "new")


def test_the_first_line_replaces_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("old\n")
    lines = LineFile(file)
    assert file.read_text() == "old\n"
    lines.add("a", "b")
    assert file.read_text() == "a\nb\n"
    lines.add("c")
    lines.close()
    assert file.read_text() == "a\nb\nc\n"


def test_a_failed_write_is_reported_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = LineFile(folder / "runs.jsonl")
    folder.rmdir()
    lines.add("a")
    lines.add("b")
    with pytest.raises(AppError, match="No such file") as caught:
        lines.close()
    assert caught.value.exit_code == 1
    LineFile(None).add("nowhere")


@pytest.mark.skipif(sys.platform == "win32", reason="has no such pipes")
def test_result_is_written_to_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "result\n")
    assert os.read(reading, 100) == b"result\n"
    os.close(reading)
