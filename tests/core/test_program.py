"""Programs: found, run with a time limit, their end described, and their log."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.core.log import logged_to, written_by
from app.core.program import ExitStatus, crash_reason, find_program, limited_run, python_command, python_environment


def test_on_windows_the_working_folder_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, here = tmp_path / "System32", tmp_path / "downloaded"
    for place in (folder, here):
        place.mkdir()
        (place / "clip.exe").touch()
    (here / "rocm-smi.exe").touch()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", os.pathsep.join(("", ".", "downloaded", f'"{folder}"')))
    monkeypatch.setattr(sys, "platform", "win32")

    assert find_program("clip") == str(folder / "clip.exe")
    assert find_program("rocm-smi") is None


def test_path_comes_before_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").touch(0o755)
    (tmp_path / "other" / "vendors").touch(0o755)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path / "first"))

    assert find_program("tool", (str(tmp_path / "other"),)) == str(tmp_path / "first" / "tool")
    assert find_program("vendors", (str(tmp_path / "other"),)) == str(tmp_path / "other" / "vendors")
    assert find_program("vendors") is None


@pytest.mark.skipif(sys.platform == "win32", reason="process groups and locks of POSIX")
def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    import fcntl

    hang = "while True: time.sleep(60)"
    body = f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.close(1)\n{hang}"

    alive = tmp_path / "alive"
    child = f"import fcntl, time; file = open({str(alive)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n{hang}"
    start = f"subprocess.Popen([sys.executable, '-c', {child!r}])"
    waits = f"while not os.path.exists({str(alive)!r}): time.sleep(0.01)"
    code = f"import os, signal, subprocess, sys, time\n{start}\n{waits}\n{body}"

    with pytest.raises(subprocess.TimeoutExpired):
        limited_run([sys.executable, "-c", code], 1, dict(os.environ))

    with alive.open("a") as file:
        # The child's lock ends with the child.
        fcntl.flock(file, fcntl.LOCK_EX)


@pytest.mark.parametrize(
    ("code", "how", "crash"),
    [
        (-11, "crashed (SIGSEGV)", True),
        (-9, "was killed by the system", True),
        (-15, "was ended by SIGTERM", False),
        (0xC0000005, "crashed (a memory access violation)", True),
        # A wheel for newer processors.
        (0xC000001D, "crashed (an instruction that this processor does not have)", True),
        (1, "ended with code 1", False),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_exit_status_is_described(code: int, how: str, crash: bool) -> None:
    assert (ExitStatus(code).how, ExitStatus(code).is_crash) == (how, crash)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            (
                "terminate called after throwing an instance of 'vk::DeviceLostError'\n"
                "  what():  vk::Queue::submit: ErrorDeviceLost\nAborted (core dumped)\n"
            ),
            "vk::Queue::submit: ErrorDeviceLost",
        ),
        (
            (
                "2026-11-29 02:11:11,123 tandem.llama: CUDA error: out of memory\n"
                "2026-11-29 02:11:11,123 tandem.llama: current device: 0, in function alloc at ggml-cuda.cu:520\n"
                "/build/ggml/src/ggml-cuda/ggml-cuda.cu:103: CUDA error\n"
            ),
            "CUDA error: out of memory",
        ),
        (
            "loading\n/build/ggml-rpc.cpp:511: Remote RPC server crashed or returned malformed response\n",
            "ggml-rpc.cpp:511: Remote RPC server crashed or returned malformed response",
        ),
        (
            (
                "graph_compute: ggml_backend_sched_graph_compute_async failed with error 1\n"
                "process_ubatch: failed to compute graph, compute status: 1\n"
                "decode: removing memory module entries for seq_id = 0, pos = [24, +inf)\n"
                "llama_decode: failed to decode, ret = 2\n"
            ),
            None,
        ),
        ("out of memory\n" + "later\n" * 20, "later"),
        ("", None),
    ],
    ids=["exception", "cuda", "abort", "stopped", "long ago", "silent"],
)
def test_the_reason_of_a_crash_is_found_among_other_lines(output: str, reason: str | None) -> None:
    assert crash_reason(output) == reason


def test_long_input_and_output_of_a_child_are_complete() -> None:
    question = b"a" * (1 << 20)
    code = "import sys; sys.stderr.write('hm'); sys.stdout.write(sys.stdin.read().upper()); sys.exit(3)"

    done = limited_run(python_command("-c", code), 60, python_environment(), question)

    assert (done.returncode, done.stdout, done.stderr) == (3, question.upper(), b"hm")


def test_messages_of_long_ago_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "tandem.log"
    began = time.time()
    with logged_to(file) as log:
        os.write(log, b"2026-01-01 10:00:00,123 tandem.llama: failed to parse grammar\n")
        logging.getLogger("tandem.llama").error("CUDA error: out of memory")
        os.write(log, b"ggml-cuda.cu:103: CUDA error\n")

    lines = written_by(os.getpid(), file, began).splitlines()

    assert [line.rpartition(" tandem.llama: ")[2] for line in lines] == [
        "CUDA error: out of memory",
        "ggml-cuda.cu:103: CUDA error",
    ]


def test_a_process_that_wrote_nothing_has_no_text(tmp_path: Path) -> None:
    assert written_by(1, tmp_path / "tandem.log", 0.0) == ""


def test_an_earlier_process_with_the_same_number_is_another(tmp_path: Path) -> None:
    file = tmp_path / "tandem.log"
    file.write_text(f"2026-01-01 10:00:00 tandem: process {os.getpid()}\nggml-cuda.cu:103: CUDA error\n")

    assert written_by(os.getpid(), file, time.time()) == ""
