"""llama.cpp ends its process in the middle of an answer: commands say why, and `run` keeps what it has printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.llama.stub_libraries import compile_library, needs_compiler

pytestmark = [pytest.mark.native, needs_compiler]


@pytest.mark.parametrize("words", [["run", "--no-draft"], ["run", "--no-draft", "--isolate"], ["compare"]])
def test_an_exception_of_a_driver_is_the_reason(tmp_path: Path, words: list[str]) -> None:
    shim = compile_library(tmp_path / "crash.so", Path(__file__).with_name("crash_shim.c").read_text())
    environment = {**os.environ, "LD_PRELOAD": str(shim), "CRASH": "memory", "CRASH_AT": "8"}
    command = [sys.executable, "-m", "app", *words, "--temp", "0", "Count to a thousand."]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert bool(done.stdout) is (words[0] == "run")
    assert "crashed: vk::Device::allocateMemory: ErrorOutOfDeviceMemory." in " ".join(done.stderr.split())
    assert "Memory ran out; use a shorter context (--ctx)" in " ".join(done.stderr.split())
