"""A full or lost GPU; see `tests.llama.test_vulkan`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.llama.placement_runs import write_pair
from tests.llama.stub_libraries import compile_library, needs_compiler
from tests.llama.tiny_heads import write_target
from tests.llama.tiny_model import Size
from tests.tandem import Said, run_process

pytestmark = [pytest.mark.native, pytest.mark.vulkan, pytest.mark.usefixtures("vulkan"), needs_compiler]
Failing = Callable[..., Said]
_FULL, _LOST = "2", "4"
"""Vulkan's errors for memory and for a lost device, without the sign."""


@pytest.fixture
def failing(tmp_path: Path) -> Failing:
    """Return a function that runs a command in a process whose GPU fails, and checks the exit code."""
    shim = compile_library(tmp_path / "shim.so", Path(__file__).with_name("vulkan_shim.c").read_text())

    def run_command(*arguments: str, code: int = 1, **limits: object) -> Said:
        variables = {f"TEST_VULKAN_{name.upper()}": str(value) for name, value in limits.items()}
        variables["LD_PRELOAD"] = f"{shim} libvulkan.so.1"
        return run_process(*arguments, "--device", "Vulkan0", code=code, **variables)

    return run_command


def test_a_full_device_is_one_sentence_with_options(failing: Failing) -> None:
    done = failing("run", "--no-draft", "--ctx", "8192", "Name a color.", bytes=150 << 20)

    assert "On Vulkan0 there is not enough memory" in done.err
    assert "--ctx 4096" in done.err


def test_an_answer_goes_on_without_a_draft_that_does_not_fit(failing: Failing, tmp_path: Path) -> None:
    target = write_target(tmp_path / "target.gguf")
    draft = write_target(tmp_path / "draft.gguf", Size(n_repeats=50))
    pair = ("--target", str(target), "--draft", str(draft), "--draft-device", "Vulkan0")
    done = failing("run", *pair, "--fit", "off", "--ctx", "1024", "--max-tokens", "2", "a", code=0, bytes=20 << 20)

    assert "Running without this draft. On Vulkan0 there is not enough memory" in done.err


@pytest.mark.parametrize(("error", "reason"), [(_FULL, "ErrorOutOfDeviceMemory"), (_LOST, "ErrorDeviceLost")])
@pytest.mark.parametrize("isolate", [(), ("--isolate",)])
def test_a_device_that_fails_in_an_answer_is_the_reason(
    failing: Failing, tmp_path: Path, error: str, reason: str, isolate: tuple[str, ...]
) -> None:
    # Without a tensor in RAM, the prompt would have batches of several sizes, which need many shaders.
    pair = (*write_pair("model", tmp_path), "--no-draft", "--override-tensor", "no-tensor=cpu")
    done = failing("run", *pair, *isolate, "Name a color.", submissions=200, error=error)

    assert "Traceback" not in done.err
    assert done.out
    assert f"The {'engine process' if isolate else 'program'} crashed: vk::" in done.sentences
    assert reason in done.sentences
    assert ("use a shorter context" in done.sentences) is (error == _FULL)
