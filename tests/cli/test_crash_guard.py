"""The parent process: exit codes and signals pass through it, and a crash is explained."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent

import psutil
import pytest

from tests.hanging import HANGS_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")

_PROGRAM = """
import os, signal, sys, time, types
import app.cli
from app.cli.command import Command

def command(**given):
{body}

sys.modules["app.cli.fake"] = types.SimpleNamespace(command=command)
init = Command.__init__
Command.__init__ = lambda *args, **more: init(*args, **{{**more, "function": "fake:command"}})
sys.exit(app.cli.main())
"""
_CRASH = "from app.core.log import guarded_stderr\nfrom app.core.paths import log_file\n"
_CRASH += "with guarded_stderr(log_file()):\n    os.write(2, {output!r})\n    os.kill(os.getpid(), signal.{signal})"
_OUT_OF_MEMORY = (
    b"terminate called after throwing an instance of 'vk::OutOfDeviceMemoryError'\n"
    b"  what():  vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"
)
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts the program with another command."""
    started: list[subprocess.Popen[str]] = []

    def begin(body: str, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        code = _PROGRAM.format(body=indent(body, "    "))
        root = str(Path(__file__).parents[2])
        command = [sys.executable, "-c", code, *words]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, stderr=stderr, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def _ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=HANGS_S)
    return process.returncode, output, " ".join(errors.split())


def test_the_exit_code_is_that_of_the_command(start: Start) -> None:
    assert _ended(start("print('done')\nreturn 7", "run", "hi")) == (7, "done\n", "")


def test_a_crash_in_an_answer_is_explained_from_the_log(start: Start) -> None:
    crash = _CRASH.format(output=_OUT_OF_MEMORY, signal="SIGABRT")

    code, output, errors = _ended(start(f"print('The sea', end='', flush=True)\n{crash}", "run", "hi"))

    assert (code, output) == (1, "The sea")
    assert errors == (
        "tandem: The program crashed: vk::Device::allocateMemory: ErrorOutOfDeviceMemory. "
        "Memory ran out; use a shorter context (--ctx), no draft (--no-draft) or a smaller pair."
    )


def test_the_sentence_has_a_line_of_its_own_on_a_terminal(start: Start) -> None:
    body = "sys.stderr.write('Loading the models  40%\\x1b[2m')\nsys.stderr.flush()\nos.abort()"
    terminal, theirs = os.openpty()
    process = start(body, "run", "hi", stderr=theirs)
    os.close(theirs)
    with os.fdopen(terminal, "rb", buffering=0) as screen:
        shown = b""
        while b"crashed" not in shown:
            shown += screen.read(4096)
    process.wait(HANGS_S)

    assert b"40%\x1b[2m\x1b[0m\r\ntandem: The program crashed (SIGABRT)" in shown


def test_an_earlier_crash_in_the_log_is_not_the_reason(start: Start) -> None:
    _ended(start(_CRASH.format(output=_OUT_OF_MEMORY, signal="SIGABRT"), "run", "hi"))

    _, _, errors = _ended(start(_CRASH.format(output=b"", signal="SIGSEGV"), "run", "hi"))

    assert errors.startswith("tandem: The program crashed (SIGSEGV). If it happens again,")


@pytest.mark.parametrize("port", ["8123", "0"])
def test_a_server_starts_again_on_its_port_with_its_models_isolated(start: Start, port: str) -> None:
    crash = (
        "    from app.cli.running_server import RunningServer, announced\n"
        "    with announced(RunningServer('http://127.0.0.1:8123/v1', '', '')):\n"
        f"{indent(_CRASH.format(output=b'', signal='SIGSEGV'), ' ' * 8)}"
    )
    body = f"if 'isolate' not in given:\n{crash}\nprint(given['port'])"

    code, output, errors = _ended(start(body, "serve", "--port", port))

    assert (code, output) == (0, "8123\n")
    assert errors == "tandem: The program crashed (SIGSEGV). The server starts again with --isolate."


def test_a_server_that_crashes_with_isolated_models_ends(start: Start) -> None:
    code, _, errors = _ended(start(_CRASH.format(output=b"", signal="SIGSEGV"), "serve", "--isolate"))

    assert code == 1
    assert errors.startswith("tandem: The program crashed (SIGSEGV). If it happens again,")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_reaches_the_program(start: Start, number: signal.Signals) -> None:
    # Python handles a signal right before a sleep only after the sleep.
    body = (
        f"signal.signal({int(number)}, lambda *_: os._exit(5))\nprint('ready', flush=True)\nwhile True: time.sleep(0.1)"
    )
    process = start(body, "run", "hi")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    process.send_signal(number)

    assert process.wait(HANGS_S) == 5


def test_an_end_by_another_signal_is_passed_on(start: Start) -> None:
    code, _, errors = _ended(start("os.kill(os.getpid(), signal.SIGUSR1)", "run", "hi"))

    assert (code, errors) == (-signal.SIGUSR1, "")


def test_the_program_ends_when_its_parent_is_killed(start: Start) -> None:
    process = start("print(os.getpid(), flush=True)\ntime.sleep(600)", "run", "hi")
    assert process.stdout is not None
    program = psutil.Process(int(process.stdout.readline()))

    os.kill(process.pid, signal.SIGKILL)

    program.wait(HANGS_S)


def test_the_parent_imports_nothing_heavy() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import app.cli.crash_guard; print(*sys.modules)"
    root = str(Path(__file__).parents[2])

    done = subprocess.run([sys.executable, "-S", "-c", code, root], capture_output=True, text=True, check=True)

    assert not {"typing", "re", "enum", "subprocess"} & {*done.stdout.split()}
