"""A full or lost GPU; see `tests.llama.test_vulkan`."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.program import python_command, python_environment
from tests.llama.placement_runs import write_pair
from tests.llama.stub_libraries import compile_library, needs_compiler
from tests.llama.tiny_heads import write_target
from tests.llama.tiny_model import Size

pytestmark = [pytest.mark.native, pytest.mark.vulkan, pytest.mark.usefixtures("vulkan"), needs_compiler]
Failing = Callable[..., subprocess.CompletedProcess[str]]
_FULL, _LOST = "2", "4"
"""Vulkan's errors for memory and for a lost device, without the sign."""


@pytest.fixture
def failing(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command in a process whose GPU fails."""
    shim = compile_library(tmp_path / "shim.so", Path(__file__).with_name("vulkan_shim.c").read_text())

    def run_command(*arguments: str, **limits: object) -> subprocess.CompletedProcess[str]:
        environment = {f"TEST_VULKAN_{name.upper()}": str(value) for name, value in limits.items()}
        return subprocess.run(
            python_command("-m", "app", *arguments, "--device", "Vulkan0"),
            env={**python_environment(), **environment, "LD_PRELOAD": f"{shim} libvulkan.so.1"},
            capture_output=True,
            text=True,
        )

    return run_command


def test_a_full_device_is_one_sentence_with_options(failing: Failing) -> None:
    done = failing("run", "--no-draft", "--ctx", "8192", "Name a color.", bytes=150 << 20)

    assert done.returncode == 1
    assert "On Vulkan0 there is not enough memory" in done.stderr
    assert "--ctx 4096" in done.stderr


def test_an_answer_goes_on_without_a_draft_that_does_not_fit(failing: Failing, tmp_path: Path) -> None:
    target = write_target(tmp_path / "target.gguf")
    draft = write_target(tmp_path / "draft.gguf", Size(n_repeats=50))
    pair = ("--target", str(target), "--draft", str(draft), "--draft-device", "Vulkan0")
    done = failing("run", *pair, "--fit", "off", "--ctx", "1024", "--max-tokens", "2", "a", bytes=20 << 20)

    assert done.returncode == 0
    assert "Running without this draft. On Vulkan0 there is not enough memory" in done.stderr


@pytest.mark.parametrize(("error", "reason"), [(_FULL, "ErrorOutOfDeviceMemory"), (_LOST, "ErrorDeviceLost")])
@pytest.mark.parametrize("isolate", [(), ("--isolate",)])
def test_a_device_that_fails_in_an_answer_is_the_reason(
    failing: Failing, tmp_path: Path, error: str, reason: str, isolate: tuple[str, ...]
) -> None:
    # Without a tensor in RAM, the prompt would have batches of several sizes, which need many shaders.
    pair = (*write_pair("model", tmp_path), "--no-draft", "--override-tensor", "no-tensor=cpu")
    done = failing("run", *pair, *isolate, "Name a color.", submissions=200, error=error)
    said = " ".join(done.stderr.split())

    assert (done.returncode, "Traceback" in said) == (1, False)
    assert done.stdout
    assert f"The {'engine process' if isolate else 'program'} crashed: vk::" in said
    assert reason in said
    assert ("use a shorter context" in said) is (error == _FULL)
