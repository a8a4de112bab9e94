"""A command whose standard streams are closed, full or without an end says so, and never with a traceback."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from app.cli import main
from app.cli.run import _read_prompt, _with_files, run
from app.cli.streams import read_whole
from app.conversations.attached import Attachment, compose
from app.conversations.textfile import MAX_BYTES
from app.core.errors import UsageError

posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes streams")


def in_shell(line: str, buffered: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `$TANDEM` in a shell."""
    environment = {**os.environ, "TANDEM": f"{sys.executable} -m app", "PYTHONUNBUFFERED": "" if buffered else "1"}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment, check=False)


@posix
def test_closed_standard_input_is_an_empty_one() -> None:
    ended = in_shell("$TANDEM run - <&-")
    assert (ended.returncode, ended.stderr) == (2, "tandem: The prompt is empty.\n")


@posix
def test_closed_standard_output_is_a_failure() -> None:
    ended = in_shell("$TANDEM settings path >&-")
    assert ended.returncode == 1
    assert ended.stderr == "tandem: The output cannot be written: Bad file descriptor.\n"


@posix
def test_a_terminal_that_is_gone_changes_nothing_else() -> None:
    import pty

    ours, theirs = pty.openpty()
    code = (
        "import sys; from app.cli.streams import prepare; prepare(); print(sys.stderr.isatty(), flush=True); input()\n"
        "print('lost', file=sys.stderr, flush=True); print('kept')"
    )
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=theirs) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        os.close(ours)
        assert process.communicate("\n")[0] == "kept\n"
    assert process.returncode == 0


@posix
def test_closed_standard_error_leaves_its_number_to_nobody() -> None:
    said = 'import os; from app.cli.streams import prepare; prepare(); print(os.open("/dev/zero", os.O_RDONLY) > 2)'
    assert in_shell(f"{sys.executable} -c '{said}' 2>&-").stdout == "True\n"


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("buffered", [False, True])
def test_a_full_disk_behind_standard_output_is_a_sentence(buffered: bool) -> None:
    ended = in_shell("$TANDEM settings >/dev/full", buffered)
    assert ended.returncode == 1
    assert ended.stderr == "tandem: The output cannot be written: No space left on device.\n"


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("line", ["--help", "--version", "pairs list --help"])
def test_help_that_finds_no_room_is_a_failure(line: str, buffered: bool) -> None:
    ended = in_shell(f"$TANDEM {line} >/dev/full", buffered)
    assert ended.returncode == 1
    assert ended.stderr == "tandem: The output cannot be written: No space left on device.\n"


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("way", ["2>/dev/full", "2>&-"])
def test_what_standard_error_cannot_take_changes_nothing_else(way: str, tmp_path: Path) -> None:
    (tmp_path / "tandem").mkdir()
    (tmp_path / "tandem" / "settings.toml").write_text("odd = 1")
    told = in_shell(f"XDG_CONFIG_HOME={tmp_path} $TANDEM settings --json")
    assert "odd is no setting" in told.stderr

    ended = in_shell(f"XDG_CONFIG_HOME={tmp_path} $TANDEM settings --json {way}")
    assert (ended.returncode, ended.stdout) == (0, told.stdout)
    assert in_shell(f"$TANDEM pairs show nope {way}").returncode == 2


_UNREAD = """
import errno, io, os, sys
from app.cli import main
class Pipe(io.FileIO):
    def write(self, data):
        if sys.platform == "win32":
            return super().write(data)
        sys.platform = "win32"
        raise OSError(errno.EINVAL, "Invalid argument")
sys.stdout = io.TextIOWrapper(io.BufferedWriter(Pipe(1, "w", closefd=False)), encoding="utf-8")
sys.exit(main(["settings", "path"]))
"""


@posix
@pytest.mark.parametrize(("reader", "code"), [("| cat; exit $PIPESTATUS", 0), (">file", 1)])
def test_on_windows_a_reader_who_has_gone_is_no_failure(reader: str, code: int, tmp_path: Path) -> None:
    """There a pipe that no one reads is an invalid argument, as many another thing is."""
    command = ["bash", "-c", f'cd {tmp_path}; "$0" -c "$1" {reader}', sys.executable, _UNREAD]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, bool(code))


@posix
@pytest.mark.parametrize("line", ["run --target x.gguf hi", "settings path", "pairs list"])
def test_a_folder_that_is_gone_is_a_sentence(line: str, tmp_path: Path) -> None:
    ended = in_shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && $TANDEM {line}")
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, "was deleted" in ended.stderr) in ((0, False), (1, True))


@posix
@pytest.mark.parametrize("line", ["run --prompt-file /dev/zero", "run - </dev/zero", "compare - </dev/zero"])
def test_a_prompt_without_an_end_is_refused(line: str) -> None:
    ended = in_shell(f"$TANDEM {line}")
    assert ended.returncode == 2
    assert "is larger than 8 MB" in ended.stderr


@posix
def test_a_prompt_file_called_dash_is_standard_input(pipe: BinaryIO) -> None:
    pipe.write("Grüße\n".encode())
    pipe.close()
    assert _read_prompt(argparse.Namespace(prompt_file=Path("-"))) == "Grüße\n"


@pytest.mark.parametrize("given", [{"prompt_file": Path("-")}, {"prompt": "-"}, {}])
def test_standard_input_is_not_two_things(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.run.read_options", lambda args: None)
    with pytest.raises(UsageError, match="Standard input is the prompt or a file before it, not both"):
        run(argparse.Namespace(file=[Path("-")], **given))


def test_a_prompt_is_read_up_to_the_limit() -> None:
    assert len(read_whole(BytesIO(b"a" * MAX_BYTES), "it")) == MAX_BYTES
    with pytest.raises(UsageError, match="it is larger"):
        read_whole(BytesIO(b"a" * (MAX_BYTES + 1)), "it")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_prompt_of_windows_is_the_same_prompt(encoding: str) -> None:
    assert read_whole(BytesIO("Grüße\r\nan alle\r\n".encode(encoding)), "it") == "Grüße\nan alle\n"


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[BinaryIO]:
    """The writing end of a pipe on standard input."""
    reading, writes = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writes, "wb") as writing:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


@posix
def test_a_pipe_that_nobody_asked_for_is_told_and_left_alone(
    pipe: BinaryIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be the rest of a script, or the other lines of a loop."""
    pipe.write(b"echo second")
    pipe.close()

    assert _with_files("first", ()) == "first"
    assert "--file - puts it before the prompt" in capsys.readouterr().err
    assert sys.stdin.read() == "echo second"


@posix
@pytest.mark.parametrize("ended", [False, True])
def test_a_pipe_that_says_nothing_is_neither_waited_for_nor_told(
    pipe: BinaryIO, capsys: pytest.CaptureFixture[str], ended: bool
) -> None:
    if ended:
        pipe.close()

    assert _with_files("first", ()) == "first"
    assert capsys.readouterr().err == ""


@posix
def test_a_pipe_goes_before_the_prompt_where_that_is_asked_for(
    pipe: BinaryIO, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe.write(b"what is 2+2\n")
    pipe.close()

    assert _with_files("answer in German", [Path("-")]) == compose(
        "answer in German", [Attachment("standard input", "what is 2+2\n")]
    )
    assert capsys.readouterr().err == ""


def test_standard_input_is_not_the_prompt_and_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--file", "-", "-"]) == main(["run", "--file", "-"]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_setting_that_is_nowhere_is_not_taken_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "unset", "sampling.tmep"]) == 2
    assert 'Did you mean "sampling.temp"?' in capsys.readouterr().err


def test_what_takes_time_is_imported_where_an_interruption_is_heard() -> None:
    look = "import sys, app.cli; print(sorted({'click', 'dataclasses', 'app.cli.command_line'} & sys.modules.keys()))"
    ended = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_nothing_slow_is_imported_before_an_interruption_can_be_one() -> None:
    # Without the packages' own start, which may import anything.
    code = "import sys; sys.path.insert(0, sys.argv[1]); import app.cli; print({'typing', 're'} & {*sys.modules})"
    here = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-S", "-c", code, here], capture_output=True, text=True, check=False, cwd=here
    )
    assert ended.stdout == "set()\n"
