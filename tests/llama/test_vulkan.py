"""Layers on a GPU, on machines without one: Vulkan's software device (Mesa's lavapipe), once and twice.

It is tens of times slower than the CPU and rounds otherwise, so only a few tokens are made, and texts are compared on
one device only. It needs a build with Vulkan, RPC for remote devices, and the driver. Mesa 22.3 of Debian 12 crashes by
itself with draft layers; Mesa 25 of its backports does not. About half an hour on two cores:

    apt-get install -y --no-install-recommends libvulkan-dev glslc spirv-headers
    apt-get install -y --no-install-recommends mesa-vulkan-drivers  # on Debian 12 with -t bookworm-backports
    CMAKE_ARGS="-DGGML_VULKAN=on -DGGML_RPC=on -DCMAKE_CXX_FLAGS=-I$PWD/tests/llama/headers" python -m pip install \\
        --force-reinstall --no-deps --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36
    python -m pytest -m vulkan

The published wheel for Vulkan does as well, without the remote device.

The headers add what Vulkan's own have from 1.3.268 on (Debian 12 has 1.3.239), and nothing to newer ones. llama.cpp
leaves software devices out unless `GGML_VK_VISIBLE_DEVICES` names them; named twice, it plays two GPUs. Compiling the
shaders takes most of the time, so they are kept in `~/.cache/tandem-test-shaders`. To try the device by hand:

    GGML_VK_VISIBLE_DEVICES=0 tandem run --device Vulkan0 --max-tokens 8 "Name a color."
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.program import python_command, python_environment
from app.hardware.devices import Device
from app.llama.child import probe
from app.settings.placement import KV_TYPES
from tests.llama.stub_libraries import compile_library, needs_compiler
from tests.llama.test_remote import Server
from tests.llama.tiny_heads import write_dense_mtp, write_target

pytestmark = [pytest.mark.native, pytest.mark.vulkan, pytest.mark.timeout(900)]
# Without it llama.cpp leaves software devices out, and it is read once in a process: so everything runs in children.
_SHOW = "GGML_VK_VISIBLE_DEVICES"
_SHADERS = Path.home() / ".cache" / "tandem-test-shaders"
_ENVIRONMENT = {
    _SHOW: "0,0",
    "MESA_SHADER_CACHE_DIR": os.environ.get("MESA_SHADER_CACHE_DIR", str(_SHADERS)),
}
_TINY = {"GALLIVM_PERF": "nopt"}
"""Setting of Mesa for tiny models: it compiles shaders in half the time and runs them more slowly."""

_TIE = 2.0
"""Most that a logit of eight rows may differ; 1.1 was seen: half-precision sums, other orders of summation."""

_DRAFTING = ("--draft-n-max", "3", "--draft-p-min", "0")
"""Draft unlikely tokens too: otherwise five tokens may have no draft."""
_SHARING = ("dflash", "dflash2", "dspark", "gemma4", "gemma4-window")
"""Kinds of drafts that must be on the devices of their target."""
_OTHERS = ("model", "eagle3", "dspark-reduced", "mtp-alone", "mtp-hybrid", "mtp-dense", "chain-step35")
_TWO = "Vulkan0,Vulkan1"
_PLACEMENTS = {
    "beside": ("--device", "Vulkan0"),
    "second": ("--device", "Vulkan1"),
    "both": ("--device", _TWO),
    "partly": ("--device", "Vulkan0", "--gpu-layers", "2", "--flash-attn", "off"),
    "unplanned": ("--device", _TWO, "--fit", "off"),
    "draft in RAM": ("--device", "Vulkan0", "--draft-device", "cpu"),
    "no draft layers": ("--device", "Vulkan1", "--draft-gpu-layers", "0"),
    "apart": ("--device", "Vulkan1", "--draft-device", "Vulkan0"),
    "split, draft first": ("--device", _TWO, "--tensor-split", "3,1", "--draft-device", "Vulkan0"),
    "target in RAM": ("--device", "cpu", "--draft-device", "Vulkan0"),
}
"""Flags by what they do; the last five name a place for the draft."""
_NAMED = ("draft in RAM", "no draft layers", "apart", "split, draft first", "target in RAM")
_EXPERTS = {
    "all experts in RAM": ("--device", "Vulkan0", "--cpu-moe"),
    "some experts in RAM": ("--device", "Vulkan0", "--n-cpu-moe", "1"),
    "tensors in RAM": ("--device", "Vulkan0", "--override-tensor", "ffn_up=cpu"),
}
_SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { int type; const void *next; uint64_t size; uint32_t kind; } AllocateInfo;
typedef void (*Function)(void);
typedef Function (*Lookup)(void *, const char *);
static int (*allocate)(void *, const AllocateInfo *, const void *, void *);
static int (*submit)(void *, uint32_t, const void *, void *);
static uint64_t taken, submitted;
static uint64_t limit(const char *name) { char *value = getenv(name); return value ? strtoull(value, 0, 10) : ~0ull; }
static int limited_allocate(void *device, const AllocateInfo *info, const void *callbacks, void *memory) {
  if (taken + info->size > limit("TEST_VULKAN_BYTES")) return -2;  /* VK_ERROR_OUT_OF_DEVICE_MEMORY */
  int result = allocate(device, info, callbacks, memory);
  if (!result) taken += info->size;
  return result;
}
static int limited_submit(void *queue, uint32_t n, const void *infos, void *fence) {
  if (++submitted > limit("TEST_VULKAN_SUBMISSIONS")) return -4;  /* VK_ERROR_DEVICE_LOST */
  return submit(queue, n, infos, fence);
}
static Function wrapped(const char *name, Function found) {
  if (found && !strcmp(name, "vkAllocateMemory")) { *(Function *)&allocate = found; return (Function)limited_allocate; }
  if (found && !strcmp(name, "vkQueueSubmit")) { *(Function *)&submit = found; return (Function)limited_submit; }
  return found;
}
Function vkGetDeviceProcAddr(void *device, const char *name) {
  return wrapped(name, ((Lookup)dlsym(RTLD_NEXT, "vkGetDeviceProcAddr"))(device, name));
}
Function vkGetInstanceProcAddr(void *instance, const char *name) {
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (Function)vkGetDeviceProcAddr;
  return wrapped(name, ((Lookup)dlsym(RTLD_NEXT, "vkGetInstanceProcAddr"))(instance, name));
}
"""
"""A library that fails like a GPU that is full, or gone."""

Tandem = Callable[..., Any]


@pytest.fixture(scope="module")
def vulkan() -> Device:
    """The first Vulkan device, as llama.cpp has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_SHOW, _ENVIRONMENT[_SHOW])
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


@pytest.fixture(scope="module")
def endpoint(vulkan: Device) -> Iterator[str]:
    """Serve the CPU of this machine as a remote device."""
    if "RPC" not in probe()[0].backends:
        pytest.skip("the installed llama.cpp is built without RPC; this module's docstring has the command")
    server = Server()
    yield server.endpoint
    server.kill()


def finished(*command: str, question: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that sees two devices."""
    everything = {**python_environment(), **_ENVIRONMENT, **environment}
    return subprocess.run(
        python_command(*command), env=everything, input=question, capture_output=True, text=True, timeout=800
    )


def run(*command: str, question: str = "", **environment: str) -> Any:
    """Return the JSON of each line that a command prints in such a process."""
    done = finished(*command, question=question, **environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def tandem(vulkan: Device) -> Tandem:
    """A function that runs a command in a process that sees the devices, and gives its JSON."""
    return lambda *arguments: run("-m", "app", *arguments, "--json")[0]


def answer(tandem: Tandem, *flags: str) -> Any:
    return tandem("run", "--temp", "0", "--max-tokens", "5", "--ctx", "512", *flags, "Name a color.")


@pytest.mark.parametrize("layers", ["all", "10"])
def test_all_layers_or_some(tandem: Tandem, device: str, layers: str) -> None:
    said = answer(tandem, "--no-draft", "--device", device, "--gpu-layers", layers)

    assert said["device"] == device
    assert said["text"]
    # The device computes on while llama.cpp returns: the prompt takes as long as its first token waits for it.
    assert said["timings"]["prompt_ms"] > said["timings"]["first_token_ms"] / 2


@pytest.mark.parametrize("flags", [(), ("--kv-type", "q8_0", "--isolate")])
def test_drafts_change_nothing_on_one_device(tandem: Tandem, device: str, flags: tuple[str, ...]) -> None:
    plain = answer(tandem, "--no-draft", "--device", device, *flags)
    drafted = answer(tandem, *_DRAFTING, "--device", device, *flags)

    assert drafted["device"] == device
    assert drafted["text"] == plain["text"]
    assert drafted["timings"]["draft_n"] > 0


@pytest.mark.parametrize("kind", [*_SHARING, *_OTHERS])
def test_drafts_change_nothing_wherever_both_are(device: str, kind: str, tmp_path: Path) -> None:
    placements = _PLACEMENTS | (_EXPERTS if kind in ("mtp-dense", "mtp-alone") else {})
    question = json.dumps([*placements.values()])
    found = run("-m", "tests.llama.placement_runs", kind, str(tmp_path), question=question, **_TINY)

    has_file = not kind.startswith(("mtp-hybrid", "mtp-dense", "chain"))
    for name, result in zip(placements, found, strict=True):
        assert (name, result["is_equal"], result["is_restored"]) == (name, True, True)
        assert result["n_drafted"] > 0, name
        together = kind in _SHARING or not has_file
        apart = name in _NAMED or name == "both" or name == "unplanned"
        assert (", draft on " in result["device"]) is (apart and not together), name
        assert any("shares tensors" in notice for notice in result["notices"]) is (name in _NAMED and kind in _SHARING)


@pytest.mark.parametrize("kind", ["model", "eagle3", "dflash", "gemma4"])
def test_drafts_change_nothing_on_a_remote_device(endpoint: str, kind: str, tmp_path: Path) -> None:
    question = json.dumps([("--rpc", endpoint), ("--rpc", endpoint, "--device", "RPC0", "--draft-device", "RPC0")])
    own, named = run("-m", "tests.llama.placement_runs", kind, str(tmp_path), question=question, **_TINY)

    assert own["device"] == ("RPC0" if kind in _SHARING else "RPC0, draft on CPU")
    assert named["device"] == "RPC0"
    for result in (own, named):
        assert (result["is_equal"], result["is_restored"], result["n_drafted"] > 0) == (True, True, True)


def test_each_device_takes_what_was_estimated(vulkan: Device, tmp_path: Path, demo_target: Path) -> None:
    tied, untied = write_target(tmp_path / "tied.gguf"), write_dense_mtp(tmp_path / "untied.gguf")
    part = ("--device", "Vulkan0", "--ctx", "512", "--gpu-layers")
    whole, some, experts = (*part, "all"), (*part, "3"), (*part, "all", "--cpu-moe")
    for path, placements in ((demo_target, [whole, some]), (tied, [whole, some]), (untied, [whole, some, experts])):
        found = run("-m", "tests.llama.device_memory", str(path), question=json.dumps(placements))
        assert len(found) == len(placements)
        for by_device in found:
            for estimated, allocated in by_device.values():
                assert estimated == pytest.approx(allocated, rel=0.02)


@pytest.fixture
def shim(vulkan: Device, tmp_path: Path) -> str:
    return f"{compile_library(tmp_path / 'libshim.so', _SHIM)} libvulkan.so.1"


@needs_compiler
def test_a_full_device_is_one_sentence_with_options(shim: str, device: str) -> None:
    command = ("-m", "app", "run", "--no-draft", "--device", device, "--ctx", "8192", "Name a color.")
    done = finished(*command, LD_PRELOAD=shim, TEST_VULKAN_BYTES=str(150 << 20))

    assert done.returncode == 1
    assert f"On {device} there is not enough memory" in done.stderr
    assert "--gpu-layers" in done.stderr


@needs_compiler
def test_a_lost_device_ends_an_isolated_engine_alone(shim: str, device: str) -> None:
    command = ("-m", "app", "run", "--isolate", "--no-draft", "--device", device, "--ctx", "512", "Name a color.")
    done = finished(*command, LD_PRELOAD=shim, TEST_VULKAN_SUBMISSIONS="60")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "The engine" in done.stderr


def test_the_tokens_are_those_of_the_cpu_but_for_near_ties(vulkan: Device, demo_target: Path) -> None:
    (said,) = run("-m", "tests.llama.near_tie", str(demo_target), vulkan.name, "8")

    assert len(said["device"]) == 8
    # Different choices are near ties of the CPU.
    assert max(said["margins"]) < _TIE
    assert said["largest"] < _TIE
    # The CPU under another name would agree to the last bit.
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
