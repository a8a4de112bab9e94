"""Layers on a GPU, tested with Mesa's lavapipe, a software Vulkan device, once and twice.

The installed llama.cpp must be built with Vulkan, and with RPC for the remote device. The build takes about half an
hour on two cores of Debian 13:

    apt-get install -y --no-install-recommends libvulkan-dev glslc spirv-headers mesa-vulkan-drivers
    CMAKE_ARGS="-DGGML_VULKAN=on -DGGML_RPC=on -DCMAKE_CXX_FLAGS=-I$PWD/tests/llama/headers" python -m pip install \
        --force-reinstall --no-deps --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36
    python -m pytest tests/llama/test_vulkan*.py -n 2

The published wheel for Vulkan works too, without the remote device. Debian 12 needs `mesa-vulkan-drivers` from its
backports, because its own Mesa 22.3 crashes with draft layers; the headers add what its Vulkan headers lack. To try the
device by hand:

    GGML_VK_VISIBLE_DEVICES=0 tandem run --device Vulkan0 --max-tokens 8 "Name a color."

Compiling the shaders takes most of the first run, and LLVM 15 of Debian 12 compiles single ones for minutes. Later runs
take a minute and a half of CPU time on Debian 13 (Mesa 25.0, LLVM 19): 115 s with `-n 2` on two busy cores. Every
process loads the shaders from `~/.cache/tandem-test-shaders` again, so most tests share a process, few shapes and short
texts. An abort of llama.cpp ends a worker of `-n`, which is replaced.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli import tune
from app.core.errors import Interrupted, UsageError
from app.engine import prompt_cache
from app.engine.cache import TokenCache
from app.hardware.devices import Device
from app.llama import devices
from app.llama.checks import open_model_file
from app.llama.context import _FIRST_GPU_CHUNK, Context
from app.llama.fitting.fit_pair import fitting_of
from app.llama.fitting.machine_room import memory_rooms
from app.llama.library import captured_log
from app.llama.model import Model
from app.llama.pair import NativePair
from app.models.memory_estimate import _BATCH_COPIES
from app.models.model_facts import read_facts
from app.settings.model_params import ModelParams
from app.settings.placement import CPU, KV_TYPES
from app.worker.loading import asked_here
from tests.llama.conftest import NewContext, OpenModel
from tests.llama.generation import answer
from tests.llama.params import loader_of
from tests.llama.placement_runs import drafting, load, run, write_pair
from tests.llama.test_remote import Server
from tests.llama.test_state_files import assert_same_text
from tests.llama.tiny_heads import write_dense_mtp, write_target
from tests.llama.tiny_hybrid import WINDOW, write_gemma3, write_granite_hybrid, write_lfm2, write_qwen35
from tests.llama.tiny_model import Size
from tests.tandem import Tandem

pytestmark = [pytest.mark.native, pytest.mark.vulkan, pytest.mark.usefixtures("vulkan"), pytest.mark.timeout(900)]
_LARGEST_DIFFERENCE = 2.0
"""Limit for the difference of SmolLM2's logits from the CPU's; half-precision sums make it 1.1."""

_SHARING_KINDS = ("dflash", "dflash2", "dspark", "gemma4", "gemma4-window")
"""Kinds of drafts that must be on the devices of their target."""
_IN_TARGET = ("mtp-hybrid", "mtp-dense", "chain-step35")
_OTHER_KINDS = ("eagle3", "dspark-reduced", "mtp-alone", *_IN_TARGET)
_TWO_DEVICES = "Vulkan0,Vulkan1"
_PLACEMENTS = {
    "beside": ("--device", "Vulkan0"),
    "second": ("--device", "Vulkan1"),
    "both": ("--device", _TWO_DEVICES),
    "partly": ("--device", "Vulkan0", "--gpu-layers", "2", "--flash-attn", "off"),
    "unplanned": ("--device", _TWO_DEVICES, "--fit", "off"),
    "draft in RAM": ("--device", "Vulkan0", "--draft-device", "cpu"),
    "no draft layers": ("--device", "Vulkan1", "--draft-gpu-layers", "0"),
    "apart": ("--device", "Vulkan1", "--draft-device", "Vulkan0"),
    "split, draft first": ("--device", _TWO_DEVICES, "--tensor-split", "3,1", "--draft-device", "Vulkan0"),
    "target in RAM": ("--device", "cpu", "--draft-device", "Vulkan0"),
    "all experts in RAM": ("--device", "Vulkan0", "--cpu-moe"),
    "some experts in RAM": ("--device", "Vulkan0", "--n-cpu-moe", "1"),
    "tensors in RAM": ("--device", "Vulkan0", "--override-tensor", "ffn_up=cpu"),
}
_WITHOUT_EXPERTS = [*_PLACEMENTS][:-3]
_NAMES_DRAFT_DEVICE = ("draft in RAM", "no draft layers", "apart", "split, draft first", "target in RAM")
_CASES = [
    *((kind, placement) for kind in ("model", "dflash") for placement in _WITHOUT_EXPERTS),
    *((kind, placement) for kind in (*_SHARING_KINDS[1:], *_OTHER_KINDS) for placement in ("both", "apart")),
    *(("mtp-alone", placement) for placement in [*_PLACEMENTS][-3:]),
]
"""Every placement with a draft model and with layers that share tensors; every kind where devices may differ."""
_BUFFER_SIZE = re.compile(r"(\S+) (?:model|KV|RS|compute) buffer size =\s*([\d.]+) MiB")


Files = Callable[[str], list[str]]
JsonOf = Callable[..., Any]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return a function that writes the files of a kind once, and returns the flags that name them."""
    return cache(lambda kind: write_pair(kind, tmp_path_factory.mktemp("pair")))


@pytest.fixture
def json_of(tandem: Tandem) -> JsonOf:
    """Return a function that runs a command and returns its JSON, from the last line."""
    return lambda *words: json.loads(tandem(*words, "--json").out.splitlines()[-1])


@pytest.fixture(scope="module")
def endpoint(vulkan: Device) -> Iterator[str]:
    """Serve the CPU of this machine as a remote device."""
    if "RPC" not in devices.build().backends:
        pytest.skip("the installed llama.cpp is built without RPC; this module's docstring has the command")
    server = Server()
    yield server.endpoint
    server.kill()


@pytest.mark.parametrize(("kind", "placement"), _CASES)
def test_drafts_change_nothing_in_any_placement(files: Files, kind: str, placement: str) -> None:
    result = run(*files(kind), *_PLACEMENTS[placement])

    assert result.is_equal
    assert result.n_drafted > 0
    can_part = kind not in (*_SHARING_KINDS, *_IN_TARGET)
    assert (", draft on " in result.device) is (
        can_part and (placement in _NAMES_DRAFT_DEVICE or placement in ("both", "unplanned"))
    )
    is_moved = kind in _SHARING_KINDS and placement in _NAMES_DRAFT_DEVICE
    assert any("shares tensors" in notice for notice in result.notices) is is_moved


@pytest.mark.usefixtures("trial_loads")
def test_the_trial_of_draft_layers_uses_the_devices_of_the_plan(files: Files) -> None:
    assert run(*files("dflash"), *_PLACEMENTS["split, draft first"]).n_drafted > 0


@pytest.mark.parametrize("kv_type", ["f16", "bf16", "q8_0"])
def test_drafts_change_nothing_with_other_caches(tmp_path: Path, kv_type: str) -> None:
    size = Size(n_heads=1, head=32)
    paths = [write_target(tmp_path / f"{seed}.gguf", size, seed=seed) for seed in (0, 1)]
    placed = ("--target", str(paths[0]), "--draft", str(paths[1]), "--device", "Vulkan0")
    result = run(*placed, "--kv-type", kv_type, "--draft-kv-type", kv_type)

    assert (result.is_equal, result.device) == (True, "Vulkan0")
    assert result.n_drafted > 0


@pytest.mark.parametrize("kind", ["model", "dflash"])
def test_drafts_change_nothing_on_a_remote_device(endpoint: str, json_of: JsonOf, files: Files, kind: str) -> None:
    greedy = ("--rpc", endpoint, "--temp", "0", "--max-tokens", "6", "--ctx", "512")
    remote = ("run", *files(kind), *greedy, "Name a color.", "--draft-p-min", "0", "--draft-n-max", "3")
    own, named = json_of(*remote), json_of(*remote, "--device", "RPC0", "--draft-device", "RPC0")

    assert (own["device"], named["device"]) == ("RPC0" if kind in _SHARING_KINDS else "RPC0, draft on CPU", "RPC0")
    assert own["text"] == named["text"] == json_of("run", *files(kind), *greedy, "--no-draft", "Name a color.")["text"]
    assert min(said["timings"]["draft_n"] for said in (own, named)) > 0


def test_a_stop_is_obeyed_after_one_token_while_the_speed_is_unknown(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other tests have another number.
    monkeypatch.setattr("app.llama.context._FIRST_GPU_CHUNK", _FIRST_GPU_CHUNK)
    pair = load(*files("model"), *_PLACEMENTS["beside"])
    stops = iter([False])
    with pytest.raises(Interrupted):
        list(pair.target.read([2 + 37 * i % 250 for i in range(160)], lambda: next(stops, True)))

    assert len(pair.target) == 1
    pair.close()


@pytest.mark.parametrize("kind", ["model", "mtp-hybrid", "eagle3", "dflash", "gemma4"])
def test_restored_conversations_continue_as_new_ones(files: Files, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(prompt_cache, "_STORED_S", 0.0)
    prompts = {"first": [2 + 37 * i % 250 for i in range(160)], "second": [2 + 41 * i % 250 for i in range(160)]}

    def answers(pair: NativePair, *conversations: str) -> list[tuple[int, list[int]]]:
        found = []
        for name in conversations:
            pair.caches.prepare(prompts[name], name)
            n_read = len(prompts[name]) - pair.target.reuse(prompts[name])
            found.append((n_read, answer(pair, drafting(pair), prompts[name], 12)[0]))
        return found

    pair = load(*files(kind), "--device", "Vulkan0")
    first, second, again = answers(pair, "first", "second", "first")
    pair.close()
    pair = load(*files(kind), "--device", "Vulkan0")
    restarted = answers(pair, "first", "second")
    pair.close()

    # For a recurrent state, the last tokens are read again.
    assert max(n_read for n_read, _ in (again, *restarted)) <= 16
    assert [tokens for _, tokens in (again, *restarted)] == [first[1], first[1], second[1]]


@pytest.mark.parametrize(
    ("write", "swa_full"),
    [
        (write_gemma3, True),
        (write_gemma3, False),
        (write_qwen35, True),
        (write_lfm2, True),
        (write_granite_hybrid, True),
    ],
)
def test_windows_and_recurrent_states_are_those_of_the_cpu(
    tmp_path: Path, open_model: OpenModel, new_context: NewContext, write: Callable[[Path], Path], swa_full: bool
) -> None:
    path = write(tmp_path / "model.gguf")
    there, here = (open_model(path, ModelParams(devices=(name,))) for name in ("Vulkan0", CPU))
    fresh = partial(new_context, n_outputs=1, kv_type="f32", swa_full=swa_full)
    cache = TokenCache(fresh(of=there))
    prompt = [2 + 37 * i % 250 for i in range(3 * WINDOW)]
    list(cache.read(prompt, lambda: False))
    saved = cache.save()
    assert saved is not None
    cache.rollback(0)
    list(cache.read(prompt[::-1], lambda: False))
    cache.restore(saved)

    assert_same_text(cache, TokenCache(fresh(of=there)), [*prompt, 7, 8, 9])
    cache.rollback(0)
    assert_same_text(cache, TokenCache(fresh(of=here)), prompt)


def test_logits_of_a_real_model_are_those_of_the_cpu_but_for_rounding(
    demo_target: Path, open_model: OpenModel, new_context: NewContext
) -> None:
    rows = []
    for name in ("Vulkan0", CPU):
        model = open_model(demo_target, ModelParams(devices=(name,)))
        context = new_context(128, of=model, n_outputs=1)
        context.decode(
            model.tokenize("The capital of France is Paris, and the capital of Italy is", parse_special=False), 1
        )
        rows.append(context.logits(0).copy())
        for token in model.tokenize(" Rome, which", parse_special=False):
            context.decode([token], 1)
            rows.append(context.logits(0).copy())
    there, here = np.array(rows).reshape(2, -1)

    # The CPU under another name would agree in every bit.
    assert 0 < np.abs(there - here).max() < _LARGEST_DIFFERENCE


def needs_and_buffers(*flags: str) -> dict[str, tuple[int, int]]:
    """Return the estimated and the allocated bytes of each device but RAM, where mapped files count in full."""
    rooms = memory_rooms(devices.devices())
    asked = asked_here(loader_of("--no-draft", "--ctx", "512", *flags), lambda: rooms)
    found = fitting_of(asked, rooms)
    allocated: Counter[str] = Counter()
    with captured_log() as log:
        model = Model(open_model_file(asked.target), found.params.model)
        Context(model, found.params.target_context(found.needs.target.n_ctx)).close()
        model.close()
    for name, size in _BUFFER_SIZE.findall(log()):
        allocated[name] += round(float(size) * (1 << 20))
    return {load.device: (load.need_bytes, allocated[load.device]) for load in found.plan.loads if load.device != CPU}


def test_each_device_takes_what_was_estimated(tmp_path: Path, demo_target: Path) -> None:
    tied, untied = write_target(tmp_path / "tied.gguf"), write_dense_mtp(tmp_path / "untied.gguf")
    whole, both, some = _PLACEMENTS["beside"], _PLACEMENTS["both"], ("--device", "Vulkan0", "--gpu-layers", "3")
    experts = _PLACEMENTS["all experts in RAM"]
    for path, placements in ((demo_target, (whole, some, both)), (tied, (both,)), (untied, (whole, both, experts))):
        # llama.cpp's estimate for devices after the first copies hidden rows twice.
        rows = _BATCH_COPIES * 512 * read_facts(path).graph.embedding * np.float32().nbytes
        for flags in placements:
            found = needs_and_buffers("--target", str(path), *flags)
            assert found.keys() == set(flags[1].split(","))
            for device, (estimated, allocated) in found.items():
                most = allocated + rows * (device == "Vulkan1")
                assert 0.98 * allocated <= estimated <= 1.02 * most


@pytest.mark.parametrize("flags", [(), ("--fit", "off")])
def test_a_software_renderer_is_used_only_by_name(
    json_of: JsonOf, vulkan: Device, files: Files, flags: tuple[str, ...]
) -> None:
    if vulkan.kind != "software":
        pytest.skip(f"{vulkan.description} is a card")

    assert json_of("run", "--max-tokens", "2", *files("model"), *flags, "Name a color.")["device"] == "CPU"


def test_the_doctor_shows_where_the_layers_go(json_of: JsonOf, demo_target: Path) -> None:
    said = json_of("doctor", "--target", str(demo_target), "--ctx", "2048", "--device", "Vulkan0")

    (target,) = said["pair"]["models"]
    assert (target["device"], target["layers_offloaded"], target["layers"]) == ("Vulkan0", 31, 31)
    # 30 layers, 3 heads of 64 for keys and as many for values.
    assert target["kv"] == 2048 * 30 * 2 * 3 * 64 * KV_TYPES["f16"].n_bytes
    assert {need["device"] for need in said["pair"]["needs"]} == {"Vulkan0", "cpu"}


def test_the_prompt_takes_until_its_first_token(json_of: JsonOf, files: Files) -> None:
    timings = json_of("run", "--device", "Vulkan0", "--max-tokens", "2", *files("model"), "Name a color.")["timings"]

    # The device is still computing when llama.cpp returns.
    assert timings["prompt_ms"] > timings["first_token_ms"] / 2


def test_tensors_on_a_device_without_layers_are_refused(files: Files) -> None:
    with pytest.raises(UsageError, match="Vulkan1"):
        load(*files("mtp-dense"), "--device", "Vulkan0", "--override-tensor", "ffn_up=Vulkan1")


def test_commands_that_measure_use_the_device(
    json_of: JsonOf, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(tune, "BUDGET_NS", 1_000_000_000)
    placed = (*files("model"), *_PLACEMENTS["beside"])

    assert json_of("tune", *placed)["device"] == "Vulkan0"
    assert "Vulkan0" in str(json_of("bench", "--quick", "--max-tokens", "4", *placed)["facts"])
