"""Fixtures for every test: folders of their own, the small real model, the real pair where it is at hand."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

# No assertion is timed, and an example that a busy machine holds up is no failure. The same code, the same verdict;
# `pytest --hypothesis-profile hunt` looks further.
_PATIENT = settings(deadline=None, suppress_health_check=(HealthCheck.too_slow,))
settings.register_profile("repeatable", _PATIENT, derandomize=True)
settings.register_profile("hunt", _PATIENT, max_examples=3000)
settings.load_profile("repeatable")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a script starts what runs in its background; the programs that are tested would be deaf to it as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads that wait for each other by spinning, in several processes at once, are many times slower than one each.
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")

# The clipboard, the multiplexer and the hub's account and cache of the person who runs the tests are not theirs; before
# anything is imported that looks there.
for _name in (
    *("DISPLAY", "WAYLAND_DISPLAY", "TMUX", "TMUX_PANE"),
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT"),
):
    os.environ.pop(_name, None)

REAL_MODELS = Path(os.environ.get("TANDEM_TEST_MODELS", Path.home() / ".cache" / "tandem-test-models"))


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: whatever looks for garbage need not go through them every time.

    Every screen is garbage in cycles, which is expensive to look for and cheap to keep for a while.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nothing is read from or written to the folders of the person who runs the tests."""
    home = tmp_path_factory.mktemp("home")
    # Of those who share the work each has a folder in one. What a cache holds is the same for all of them.
    run = home.parents[1] if "PYTEST_XDIST_WORKER" in os.environ else home.parent
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(home / name.lower()))
        for name in ("HOME", "USERPROFILE"):
            patch.setenv(name, str(home))
        patch.setenv("XDG_CACHE_HOME", str(run / "cache"))
        yield home


@pytest.fixture(scope="session")
def demo_target() -> Path:
    """SmolLM2-135M-Instruct, a real chat model of 98 MB."""
    from app.llama import demo

    return demo.target_file()


@pytest.fixture(scope="session")
def demo_draft(own_folders: Path) -> Path:
    """The demo's draft, made once per test run."""
    from app.core.paths import cache_dir
    from app.llama import demo

    cache_dir().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_dir() / "draft.lock"):
        return demo.draft_file(cache_dir())


@pytest.fixture
def real_model() -> Callable[[str], Path]:
    """A function from a file name to its path among the real pair's files; skips where it is absent."""

    def find(name: str) -> Path:
        path = REAL_MODELS / name
        if not path.is_file():
            pytest.skip(f"{path} is absent; set TANDEM_TEST_MODELS to a folder with the Qwen2.5-Coder pair")
        return path

    return find


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything of one test is, Tandem's own folders included."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path
