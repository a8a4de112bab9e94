"""Layers on a graphics processor, on machines without one: Vulkan's software device (Mesa's lavapipe).

It is tens of times slower than the processor and rounds otherwise, so only a few tokens are made, and texts are
compared on one device only. It needs a build with Vulkan and the driver; on Debian and Ubuntu, in a virtual environment
of its own, about half an hour on one core:

    apt-get install -y --no-install-recommends libvulkan-dev glslc spirv-headers mesa-vulkan-drivers
    CMAKE_ARGS="-DGGML_VULKAN=on -DCMAKE_CXX_FLAGS=-I$PWD/tests/llama/headers" python -m pip install \\
        --force-reinstall --no-deps --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36
    python -m pytest -m vulkan

The headers add what Vulkan's own have from 1.3.268 on (Debian 12 has 1.3.239), and nothing to newer ones. llama.cpp
leaves software devices out unless `GGML_VK_VISIBLE_DEVICES` names them; to try one by hand:

    GGML_VK_VISIBLE_DEVICES=0 tandem run --device Vulkan0 --max-tokens 8 "Name a color."
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.program import python_command, python_environment
from app.hardware.devices import Device
from app.llama.child import probe
from app.settings.placement import KV_TYPES

pytestmark = [pytest.mark.native, pytest.mark.vulkan]
# Without it llama.cpp leaves software devices out, and it is read once in a process: so everything runs in children.
_SHOW = "GGML_VK_VISIBLE_DEVICES"

_TIE = 2.0
"""Most that a logit of eight rows may differ; 1.1 was seen: half-precision sums, other orders of summation."""

_DRAFTING = ("--draft-n-max", "3", "--draft-p-min", "0")
"""Drafts whatever the draft model is unsure of too: otherwise five tokens may well be without a draft."""

Tandem = Callable[..., Any]


@pytest.fixture(scope="module")
def vulkan() -> Device:
    """The first Vulkan device, as llama.cpp has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_SHOW, os.environ.get(_SHOW, "0"))
        build, devices = probe()
    if "Vulkan" not in build.backends:
        pytest.skip("the installed llama.cpp is built without Vulkan; this module's docstring has the command")
    found = [device for device in devices if device.backend == "Vulkan"]
    if not found:
        pytest.skip("Vulkan finds no device; install mesa-vulkan-drivers")
    return found[0]


@pytest.fixture
def device(vulkan: Device) -> str:
    return vulkan.name


@pytest.fixture
def software(vulkan: Device) -> str:
    """Return the name of a software renderer."""
    if vulkan.kind != "software":
        pytest.skip(f"{vulkan.description} is a card")
    return vulkan.name


def run(*command: str) -> Any:
    """The JSON of a command in a process that sees the device."""
    environment = {_SHOW: "0", **python_environment()}
    done = subprocess.run(python_command(*command), env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def tandem(vulkan: Device) -> Tandem:
    """A function that runs a command in a process that sees the device, and gives its JSON."""
    return lambda *arguments: run("-m", "app", *arguments, "--json")


def answer(tandem: Tandem, *flags: str) -> Any:
    return tandem("run", "--temp", "0", "--max-tokens", "5", "--ctx", "512", *flags, "Name a color.")


@pytest.mark.parametrize("layers", ["all", "10"])
def test_all_layers_or_some(tandem: Tandem, device: str, layers: str) -> None:
    said = answer(tandem, "--no-draft", "--device", device, "--gpu-layers", layers)

    assert said["device"] == device
    assert said["text"]
    # The device computes on while llama.cpp returns: the prompt takes as long as its first token waits for it.
    assert said["timings"]["prompt_ms"] > said["timings"]["first_token_ms"] / 2


def test_drafts_are_verified_on_the_device_with_weights_in_ram(tandem: Tandem, device: str) -> None:
    partly = ("--device", device, "--gpu-layers", "10", "--draft-device", "cpu", "--offload-min-batch", "2")
    said = answer(tandem, *_DRAFTING, *partly)

    assert said["text"]
    assert said["timings"]["draft_n"] > 0


def test_drafts_change_nothing_on_one_device(tandem: Tandem, device: str) -> None:
    plain = answer(tandem, "--no-draft", "--device", device)
    # Named twice: a draft is not put on a device that the processor plays because its target is there.
    both = answer(tandem, *_DRAFTING, "--device", device, "--gpu-layers", "all", "--draft-device", device)
    apart = answer(tandem, *_DRAFTING, "--device", device, "--draft-device", "cpu")
    behind = answer(tandem, *_DRAFTING, "--device", "cpu", "--draft-device", device, "--draft-gpu-layers", "10")

    assert (both["device"], apart["device"]) == (device, f"{device}, draft on CPU")
    assert behind["device"] == f"CPU, draft on {device}"
    assert plain["text"] == both["text"] == apart["text"]
    for drafted in (both, apart, behind):
        assert drafted["speculation"]["drafter"] == "model"
        assert drafted["timings"]["draft_n"] > 0


def test_the_tokens_are_those_of_the_cpu_but_for_near_ties(vulkan: Device, demo_target: Path) -> None:
    said = run("-m", "tests.llama.near_tie", str(demo_target), vulkan.name, "8")

    assert len(said["device"]) == 8
    # Where the two choose differently, the processor nearly chose the same.
    assert max(said["margins"]) < _TIE
    assert said["largest"] < _TIE
    # Not the processor under another name: that would agree to the last bit.
    assert said["largest"] > 0


@pytest.mark.parametrize("flags", [(), ("--fit", "off")])
def test_a_software_renderer_is_used_only_by_name(tandem: Tandem, software: str, flags: tuple[str, ...]) -> None:
    assert answer(tandem, "--draft-n-max", "3", *flags)["device"] == "CPU"


def test_the_doctor_shows_where_the_layers_go(tandem: Tandem, device: str, demo_target: Path) -> None:
    said = tandem("doctor", "--target", str(demo_target), "--ctx", "2048", "--device", device)

    (target,) = said["pair"]["models"]
    assert (target["device"], target["layers_offloaded"], target["layers"]) == (device, 31, 31)
    # 30 layers, 3 heads of 64 for keys and as many for values.
    assert target["kv"] == 2048 * 30 * 2 * 3 * 64 * KV_TYPES["f16"].n_bytes
    assert {need["device"] for need in said["pair"]["needs"]} == {device, "cpu"}
