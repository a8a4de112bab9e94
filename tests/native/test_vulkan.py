"""Layers on a graphics processor, on machines without one: Vulkan's software device (Mesa's lavapipe).

It is far slower than the processor and rounds otherwise, so only a few tokens are made, and texts are compared on one
device only. The installed llama.cpp must be built with Vulkan, and the driver be there; on Debian and Ubuntu:

    apt-get install -y libvulkan-dev glslc spirv-headers mesa-vulkan-drivers
    CMAKE_ARGS="-DGGML_VULKAN=on" pip install --force-reinstall --no-deps --no-cache-dir \\
        --no-binary llama-cpp-python llama-cpp-python==0.3.36
    python -m pytest -m vulkan

(Vulkan headers before 1.3.268, as Debian 12 has them, lack `VK_EXT_layer_settings`, and the build says so.)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.hardware.fit import KV_BYTES
from app.llama.devices import probe

pytestmark = [pytest.mark.native, pytest.mark.vulkan]
# Without it llama.cpp leaves software devices out, and it is read once in a process: so everything runs in children.
_SHOW = "GGML_VK_VISIBLE_DEVICES"

Tandem = Callable[..., Any]


@pytest.fixture(scope="module")
def device() -> str:
    """llama.cpp's name of the first Vulkan device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_SHOW, os.environ.get(_SHOW, "0"))
        build, devices = probe()
    if "Vulkan" not in build.backends:
        pytest.skip("the installed llama.cpp is built without Vulkan; this module's docstring has the command")
    found = [device.name for device in devices if device.backend == "Vulkan"]
    if not found:
        pytest.skip("Vulkan finds no device; install mesa-vulkan-drivers")
    return found[0]


@pytest.fixture
def tandem(device: str) -> Tandem:
    """A function that runs a command in a process that sees the device, and gives its JSON."""

    def run(*arguments: str) -> Any:
        environment = {_SHOW: "0", **os.environ}
        command = [sys.executable, "-m", "app", *arguments, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def answer(tandem: Tandem, *flags: str) -> Any:
    return tandem("run", "--temp", "0", "--max-tokens", "5", "--ctx", "512", *flags, "Name a colour.")


def test_all_layers_or_some(tandem: Tandem, device: str) -> None:
    for layers in ("all", "10"):
        said = answer(tandem, "--no-draft", "--device", device, "--gpu-layers", layers)

        assert said["device"] == device
        assert said["text"]


def test_drafts_change_nothing_on_one_device(tandem: Tandem, device: str) -> None:
    plain = answer(tandem, "--no-draft", "--device", device)
    drafted = answer(tandem, "--draft-n-max", "3", "--device", device, "--draft-device", "cpu")

    assert drafted["text"] == plain["text"]
    assert drafted["device"] == f"{device}, draft on CPU"


def test_a_quantised_cache(tandem: Tandem, device: str) -> None:
    assert answer(tandem, "--no-draft", "--device", device, "--kv-type", "q8_0")["text"]


def test_the_doctor_tells_where_the_layers_go(tandem: Tandem, device: str, demo_target: Path) -> None:
    said = tandem("doctor", "--target", str(demo_target), "--ctx", "2048", "--device", device)

    (target,) = said["pair"]["models"]
    assert (target["device"], target["layers_offloaded"], target["layers"]) == (device, 31, 31)
    # 30 layers, 3 heads of 64 for keys and as many for values.
    assert target["kv"] == 2048 * 30 * 2 * 3 * 64 * KV_BYTES["f16"]
    assert {need["device"] for need in said["pair"]["needs"]} == {device, "cpu"}
