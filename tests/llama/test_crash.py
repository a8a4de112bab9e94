"""llama.cpp ends its process in the middle of an answer: `tandem run` says why and keeps what it has printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.llama.stub_libraries import compile_library, needs_compiler

pytestmark = [pytest.mark.native, needs_compiler]


@pytest.mark.parametrize("isolate", [[], ["--isolate"]])
def test_an_exception_of_a_driver_is_the_reason(tmp_path: Path, isolate: list[str]) -> None:
    shim = compile_library(tmp_path / "crash.so", Path(__file__).with_name("crash_shim.c").read_text())
    environment = {**os.environ, "LD_PRELOAD": str(shim), "CRASH": "memory", "CRASH_AT": "8"}
    command = [sys.executable, "-m", "app", "run", "--temp", "0", "--no-draft", *isolate, "Count to a thousand."]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stdout
    assert "crashed: vk::Device::allocateMemory: ErrorOutOfDeviceMemory." in " ".join(done.stderr.split())
    assert "Memory ran out; use a shorter context (--ctx)" in " ".join(done.stderr.split())
