"""An installed llama.cpp starts in a child first: it crashes, hangs or lacks a library, and this process survives."""

import os
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.core.errors import Interrupted
from app.core.program import python_environment
from app.hardware.builds import LibraryError
from app.hardware.installation import installation
from app.hardware.system import System
from app.llama import start_check
from app.llama.start_check import STARTED, check_start
from tests.llama.stub_libraries import CRASHES, HANGS, HARMLESS, compile_library, needs_compiler


@pytest.fixture(autouse=True)
def untested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTED, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(start_check, "cache_dir", lambda: tmp_path / "cache")


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, *needed: Path) -> None:
    """Let child processes load another library instead of the installed library."""
    compile_library(folder / "lib" / "libllama.so", code, *needed)
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(folder / "lib"))


def fails() -> LibraryError:
    with pytest.raises(LibraryError) as caught:
        check_start()
    assert STARTED not in os.environ
    return caught.value


@needs_compiler
def test_a_crash_is_one_sentence_with_a_command_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, CRASHES)

    assert "it uses instructions that this CPU does not have" in fails().message
    # Another wheel would not replace the libraries in that folder.
    assert fails().hint.endswith(
        f"instead of the one in {tmp_path / 'lib'}: {installation(System().name).unset_command}"
    )


@needs_compiler
def test_a_hang_ends_at_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, HANGS)
    monkeypatch.setattr(start_check, "_DEADLINE_S", 0.5)

    assert "a trial start took longer than 0.5 seconds" in fails().message


@needs_compiler
def test_the_user_can_stop_a_start_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, HANGS)

    with pytest.raises(Interrupted):
        check_start(lambda: True)
    assert STARTED not in os.environ


@needs_compiler
@pytest.mark.skipif(find_library("vulkan") is not None, reason="the Vulkan loader is installed")
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = compile_library(tmp_path / "libvulkan.so.1", HARMLESS)
    install(tmp_path, monkeypatch, HARMLESS, loader)
    loader.unlink()

    assert "libvulkan.so.1 is missing, which belongs to the Vulkan loader" in fails().message


@needs_compiler
@pytest.mark.parametrize("flags", [[], ["--isolate"]])
def test_a_command_prints_the_sentence_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    install(tmp_path, monkeypatch, CRASHES)
    command = [sys.executable, "-P", "-m", "app", "run", *flags, "hi"]
    done = subprocess.run(command, env=python_environment(), capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first == ("tandem: llama.cpp cannot run here: it uses instructions that this CPU does not have.")
    assert second.endswith("LLAMA_CPP_LIB_PATH")


def test_another_release_of_the_binding_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python imports this module in every child before anything else.
    (tmp_path / "sitecustomize.py").write_text("import llama_cpp; llama_cpp.__version__ = '9.9.9'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    error = fails()
    assert "it is llama-cpp-python 9.9.9, and Tandem needs " in error.message
    assert "llama-cpp-python==" in error.hint


def test_files_that_started_once_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Mock(return_value=True)
    monkeypatch.setattr(start_check, "_survives", tried)
    for identity in ("old", "old", "new", "old"):
        monkeypatch.setattr(start_check, "files_identity", lambda identity=identity: identity)
        monkeypatch.delenv(STARTED, raising=False)
        check_start()

    assert tried.call_count == 2


def test_the_installed_build_starts_and_its_children_do_not_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    check_start()

    monkeypatch.setattr(start_check, "cache_dir", lambda: Path("/nowhere"))
    monkeypatch.setattr(start_check, "_survives", lambda _: pytest.fail("this process has tested these files"))
    check_start()


def test_a_folder_that_cannot_be_written_costs_only_another_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file in the place of the folder")
    monkeypatch.setattr(start_check, "_survives", lambda _: True)

    check_start()
    assert STARTED in os.environ


def test_a_child_that_the_system_kills_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr("app.core.child.python_command", lambda *_: (sys.executable, "-c", code))

    check_start()
    assert not (tmp_path / "cache").exists(), "the next start tries again"
