"""llama.cpp ends its process in the middle of an answer: commands say why, and `run` keeps what it has printed."""

from pathlib import Path

import pytest

from tests.llama.stub_libraries import compile_library, needs_compiler
from tests.tandem import run_process

pytestmark = [pytest.mark.native, needs_compiler]


@pytest.mark.parametrize("words", [["run", "--no-draft"], ["run", "--no-draft", "--isolate"], ["compare"]])
def test_an_exception_of_a_driver_is_the_reason(tmp_path: Path, words: list[str]) -> None:
    shim = compile_library(tmp_path / "crash.so", Path(__file__).with_name("crash_shim.c").read_text())
    crash = {"LD_PRELOAD": str(shim), "CRASH": "memory", "CRASH_AT": "8"}

    said = run_process(*words, "--temp", "0", "Count to a thousand.", code=1, **crash)

    assert bool(said.out) is (words[0] == "run")
    assert "crashed: vk::Device::allocateMemory: ErrorOutOfDeviceMemory." in said.sentences
    assert "Memory ran out; use a shorter context (--ctx)" in said.sentences
