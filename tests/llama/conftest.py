"""The small real model, loaded once, fresh contexts over it, and even smaller models."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from app.hardware.devices import Device
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.devices import build, devices
from app.llama.fitting import fit_pair, machine_room
from app.llama.model import Model
from app.llama.pair import NativePair
from app.llama.params import PairParams
from app.settings.model_params import ContextParams, ModelParams
from app.worker import loading
from tests.llama.engines import Running
from tests.llama.params import pair_params
from tests.llama.tiny_hybrid import write_granite_hybrid, write_lfm2, write_qwen35
from tests.llama.tiny_model import write_model

NewContext = Callable[..., Context]
OpenModel = Callable[..., Model]
OpenPair = Callable[..., NativePair]
Load = Callable[..., NativePair]
Begin = Callable[..., Running]
WINDOW_ALONE = "window-alone.gguf"
"""A target of this name has a sliding-window cache."""
_SHADERS = os.environ.get("MESA_SHADER_CACHE_DIR", str(Path.home() / ".cache" / "tandem-test-shaders"))
"""Folder of compiled shaders; tests get another home folder."""


@pytest.fixture(scope="session")
def model(demo_target: Path) -> Iterator[Model]:
    yield from _loaded(demo_target)


@pytest.fixture(scope="session")
def draft_model(demo_draft: Path) -> Iterator[Model]:
    yield from _loaded(demo_draft)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Return what the test opens; it is closed after the test, the latest first."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def new_context(model: Model, opened: ExitStack) -> NewContext:
    """Return a function that makes contexts, of the target by default, and closes them after the test."""

    def make(
        n_ctx: int = 256,
        *,
        of: Model = model,
        cancel: CancelFlag | None = None,
        n_outputs: int = 8,
        **params: Any,
    ) -> Context:
        # Two threads that wait for each other on busy cores are a hundred times slower than one, the default.
        return opened.enter_context(closing(Context(of, ContextParams(n_ctx, n_outputs=n_outputs, **params), cancel)))

    return make


@pytest.fixture
def context(new_context: NewContext) -> Context:
    return new_context()


@pytest.fixture
def open_model(opened: ExitStack) -> OpenModel:
    """Return a function that loads a model, and frees it after the test."""
    return lambda path, params=None: opened.enter_context(closing(Model(open_model_file(path), params)))


@pytest.fixture
def open_pair(opened: ExitStack) -> OpenPair:
    """Return a function that loads a pair, and closes it after the test.

    It takes the parameters of a pair, or the arguments of `pair_params`.
    """

    def load(target: Path | PairParams, draft: Path | None = None, **more: Any) -> NativePair:
        params = target if isinstance(target, PairParams) else pair_params(target, draft, **more)
        return opened.enter_context(closing(NativePair(params, CancelFlag(), lambda *_: True)))

    return load


@pytest.fixture
def load(open_pair: OpenPair) -> Load:
    """Return a function that loads a tiny pair whose caches round nothing; `mtp` drafts with the target's layers."""

    def make(target: Path, draft: Path | None = None, *, mtp: bool = False) -> NativePair:
        settings = {"model.kv_type": "f32", "draft.kv_type": "f32"}
        settings |= {"model.swa_full": "off"} if target.name == WINDOW_ALONE else {}
        return open_pair(target, draft, n_ctx=1024, model=ModelParams(load_mtp=mtp), settings=settings)

    return make


@pytest.fixture
def begin(opened: ExitStack) -> Begin:
    """Return a function that starts to load the pair of some flags in an engine; it is closed after the test."""

    def make(*flags: str) -> Running:
        running = Running(*flags)
        opened.callback(running.engine.close, 60)
        return running

    return make


@pytest.fixture(scope="session")
def pair(demo_target: Path, demo_draft: Path) -> Iterator[NativePair]:
    """Return the small real model with its draft; their caches may hold any text."""
    params = pair_params(demo_target, demo_draft, n_ctx=512)
    with closing(NativePair(params, CancelFlag(), lambda *_: True)) as loaded:
        yield loaded


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes models of a few kilobytes with given changes."""
    numbers = iter(range(100))
    template = "<|start|>{{ messages[-1].content }}<|end|>"
    return lambda **changes: write_model(
        tmp_path / f"{next(numbers)}.gguf", **{"tokenizer__chat_template": template, **changes}
    )


@pytest.fixture(scope="session", params=[write_qwen35, write_lfm2, write_granite_hybrid])
def hybrid(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """A tiny model with a recurrent state, for several architectures."""
    yield from _loaded(request.param(tmp_path_factory.mktemp("hybrid") / "model.gguf"))


@pytest.fixture(scope="session", params=[write_qwen35, write_lfm2])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """A hybrid model whose earlier states llama.cpp can save."""
    yield from _loaded(request.param(tmp_path_factory.mktemp("kept") / "model.gguf"))


def _loaded(path: Path) -> Iterator[Model]:
    with closing(Model(open_model_file(path))) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def vulkan() -> Iterator[Device]:
    """Show this process and its children two software GPUs; return the first. See `tests.llama.test_vulkan`."""
    with pytest.MonkeyPatch.context() as patch:
        # llama.cpp leaves software devices out unless they are named; named twice, one device acts as two GPUs.
        patch.setenv("GGML_VK_VISIBLE_DEVICES", "0,0")
        patch.setenv("MESA_SHADER_CACHE_DIR", _SHADERS)
        # Compiles in half the time.
        patch.setenv("GALLIVM_PERF", "nopt")
        # Batches of many sizes need many shaders.
        patch.setattr("app.llama.context._FIRST_GPU_CHUNK", 64)
        if "Vulkan" not in build().backends:
            pytest.skip("the installed llama.cpp is built without Vulkan; tests/llama/test_vulkan.py has the command")
        found = machine_room.memory_rooms(devices())
        if not (gpus := [device for device in found if device.backend == "Vulkan"]):
            pytest.skip("Vulkan shows no device; install mesa-vulkan-drivers, and run the tests marked vulkan alone")
        for module in (fit_pair, loading):
            # Otherwise a child process lists them for every load.
            patch.setattr(module, "memory_rooms", lambda: found)
        yield gpus[0]


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that gives this machine other devices."""

    def give(*devices: Device) -> None:
        for module in (fit_pair, loading):
            monkeypatch.setattr(module, "memory_rooms", lambda: devices)

    return give
