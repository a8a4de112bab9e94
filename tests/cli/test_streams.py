"""Unusable standard streams, and signals during the start."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from app.cli.run import run, with_files
from app.cli.streams import cancel_on_interrupt, is_closed_pipe
from app.conversations.attached import Attachment, compose
from app.conversations.message import pictures_in
from app.core.errors import INTERRUPTED, UsageError
from app.core.pictures import MARK, PictureLimits
from tests.conftest import ENDS
from tests.core.test_pictures import png
from tests.tandem import run_python

posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes streams")
ATTACHED = compose("Explain.", [Attachment("standard input", "Grüße\nan alle")])


def in_shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run `$TANDEM` in a shell."""
    environment = {**os.environ, "TANDEM": f"{sys.executable} -m app"}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment, check=False)


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")


@posix
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("run - <&-", 2, "The prompt is empty."),
        ("run - </dev/zero", 1, "Standard input is larger than 8 MB."),
        ("run --prompt-file /dev/zero", 1, "/dev/zero is a device or a pipe, not a file."),
        pytest.param("settings >/dev/full", 1, "Input or output failed: No space left on device.", marks=needs_full),
        pytest.param("--help >/dev/full", 1, "Input or output failed: No space left on device.", marks=needs_full),
    ],
)
def test_unusable_stream_is_reported(line: str, code: int, said: str) -> None:
    ended = in_shell(f"$TANDEM {line}")
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (code, f"tandem: {said}")


@posix
def test_closed_stderr_is_reopened() -> None:
    code = 'import os; from app.cli.streams import prepare; prepare(); print(os.open("/dev/zero", os.O_RDONLY) > 2)'
    assert in_shell(f"{sys.executable} -c '{code}' 2>&-").stdout == "True\n"


@posix
def test_a_deleted_current_folder_is_no_traceback(tmp_path: Path) -> None:
    ended = in_shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && $TANDEM run --target x.gguf hi")
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 1


def test_closed_pipe_is_recognized(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_closed_pipe(BrokenPipeError())
    assert not is_closed_pipe(OSError(22, "Invalid argument"))
    monkeypatch.setattr(sys, "platform", "win32")
    assert is_closed_pipe(OSError(22, "Invalid argument"))


@pytest.mark.parametrize("given", [{"prompt_file": Path("-")}, {"prompt": "-"}, {}])
def test_stdin_is_not_prompt_and_file(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.run.read_pair", lambda given: None)
    with pytest.raises(UsageError, match="cannot be both the prompt and a file"):
        run(file=[Path("-")], **given)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[BinaryIO]:
    """Return the write end of a pipe on stdin."""
    reading, writes = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writes, "wb") as writing:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


@posix
@pytest.mark.parametrize(
    ("data", "text", "pictures"),
    [
        ("Grüße\r\nan alle".encode(), ATTACHED, []),
        (
            "Grüße\r\nan alle".encode("cp1252"),
            ATTACHED,
            [],
        ),
        (png(4, 3), f"{MARK}Explain.", [png(4, 3)]),
        (b"", "Explain.", []),
    ],
    ids=["utf-8", "cp1252", "picture", "empty"],
)
def test_a_pipe_comes_before_the_prompt(data: bytes, text: str, pictures: list[bytes], pipe: BinaryIO) -> None:
    pipe.write(data)
    pipe.close()

    message = with_files("Explain.", (), PictureLimits(), takes_stdin=True)
    assert (message.content, [each.data for each in pictures_in([message])]) == (text, pictures)


def test_the_null_device_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as null:
        monkeypatch.setattr(sys, "stdin", null)

        assert with_files("Explain.", (), PictureLimits(), takes_stdin=True).content == "Explain."


@posix
def test_a_pipe_that_stays_open_is_named(
    pipe: BinaryIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.cli.run._SILENCE_S", 0.0)
    monkeypatch.setattr("app.cli.run.read_input", lambda: b"")
    with_files("Explain.", (), PictureLimits(), takes_stdin=True)

    assert "Waiting for the end of standard input" in capsys.readouterr().err


def test_nothing_slow_is_imported_before_ctrl_c_is_handled() -> None:
    # Without the startup code of packages, which may import anything.
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import app.cli; "
        "print({'typing', 're', 'click', 'dataclasses', 'app.cli.command_line'} & {*sys.modules})"
    )
    here = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-S", "-c", code, here], capture_output=True, text=True, check=False, cwd=here
    )
    assert ended.stdout == "set()\n"


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_the_first_signal_cancels_and_ctrl_c_after_it_ends(number: signal.Signals) -> None:
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(number)
        # The sender may signal the whole process group, and the parent process passes it on.
        signal.raise_signal(signal.SIGTERM)
        assert asked == [True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_ignored_signals_stay_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(number)
        assert asked == []
    assert signal.getsignal(number) is signal.SIG_IGN


INTERRUPT = """
import signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
"""A program that sends SIGINT to itself at its first import; `sitecustomize` runs before any other code."""


@pytest.mark.parametrize(
    ("command", "module"),
    [
        (["-m", "app", "pairs", "list"], "app.core.errors"),
        (["-c", "import sys; from app.cli import main; sys.exit(main(['pairs', 'list']))"], "app.cli.command_line"),
    ],
    ids=["module", "script"],
)
def test_ctrl_c_during_startup_is_silent(tmp_path: Path, command: list[str], module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT.format(module=module))

    said = run_python(*command, code=INTERRUPTED, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))

    assert said == ("", "")
