"""Fixtures for all tests: separate folders, the demo models, and usual signals."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from app.llama.child import SafeFiles
from app.llama.installed import STARTED, files_identity
from tests.tandem import Said, Tandem

# Hypothesis has no deadline, because the machine may be busy, and repeats the same examples in every run.
# `pytest --hypothesis-profile hunt` tries more of them.
_WITHOUT_DEADLINE = settings(deadline=None, suppress_health_check=(HealthCheck.too_slow,))
settings.register_profile("repeatable", _WITHOUT_DEADLINE, derandomize=True, max_examples=40)
settings.register_profile("hunt", _WITHOUT_DEADLINE, max_examples=3000)
settings.load_profile("repeatable")
ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""External termination signals."""
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script starts background jobs with SIGINT ignored, and the tested programs would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Bytecode is written in any environment: workers and child processes would compile everything again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads of several processes that spin while waiting for each other are many times slower than single threads.
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")

# Tests must not use the developer's clipboard, terminal multiplexer, Hugging Face account or cache. The variables are
# removed before any module reads them.
for _name in (
    *("DISPLAY", "WAYLAND_DISPLAY", "TMUX", "TMUX_PANE"),
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT"),
):
    os.environ.pop(_name, None)

# llama.cpp is known to start on this machine, so nothing is written to the developer's cache before `own_folders`.
os.environ[STARTED] = files_identity()


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, and collect less often.

    Every screen is garbage with reference cycles, which is slow to find and cheap to keep for a while.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Replace the developer's home and XDG folders."""
    home = tmp_path_factory.mktemp("home")
    # Workers of one run share the cache; each has its own home within the folder of the run.
    run = home.parents[1] if "PYTEST_XDIST_WORKER" in os.environ else home.parent
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(home / name.lower()))
        for name in ("HOME", "USERPROFILE"):
            patch.setenv(name, str(home))
        patch.setenv("XDG_CACHE_HOME", str(run / "cache"))
        yield home


@pytest.fixture(scope="session", autouse=True)
def quiet_machine() -> Iterator[None]:
    """Freeze the counters of CPU use, so that no result depends on other programs."""
    counters = psutil.cpu_times(percpu=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("psutil.cpu_times", lambda percpu=False: counters)
        if hasattr(os, "getloadavg"):
            patch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
        yield


@pytest.fixture
def trial_loads() -> None:
    """Let a test load unknown model files in a child process first, as the program does."""


@pytest.fixture(autouse=True)
def trusted_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load model files without a trial, which costs a child process for each file of a pair; see `trial_loads`."""
    if "trial_loads" not in request.fixturenames:
        monkeypatch.setattr(SafeFiles, "survived", lambda *_: True)


@pytest.fixture(scope="session")
def demo_target() -> Path:
    """Return the file of SmolLM2-135M-Instruct, a real chat model of 98 MB."""
    from app.llama import demo

    return demo.target_file()


@pytest.fixture(scope="session")
def demo_draft(own_folders: Path) -> Path:
    """Return the file of the demo's draft model, made once per test run."""
    from app.core.paths import cache_dir
    from app.llama import demo

    cache_dir().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_dir() / "draft.lock"):
        return demo.draft_file(cache_dir())


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore signal handlers after a test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDS)}
    for number in ENDS:
        # The test run may ignore them, as under nohup.
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of the test that contains Tandem's configuration and data."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


@pytest.fixture
def tandem(capsys: pytest.CaptureFixture[str]) -> Tandem:
    """Return a function that runs a command in this process."""
    from app.cli import main

    def run(*words: str, code: int = 0) -> Said:
        capsys.readouterr()
        assert main([*words]) == code
        return Said(*capsys.readouterr())

    return run
