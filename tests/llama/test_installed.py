"""The installed llama.cpp: its files, and its first start in a child, which may crash, hang or lack a library."""

import os
import sys
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.core.errors import Interrupted
from app.hardware.builds import LibraryError
from app.hardware.installation import installation
from app.hardware.system import System
from app.llama import installed
from app.llama.installed import STARTED, check_start
from tests.llama.stub_libraries import CRASHES, HANGS, HARMLESS, compile_library, needs_compiler
from tests.tandem import run_process

LINUX = ["libggml-base.so", "libggml-base.so.0.25.3", "libggml-cpu.so", "libggml.so", "libllama.so.0", "libmtmd.so"]
WINDOWS = ["ggml-base.dll", "ggml-cpu.dll", "ggml.dll", "llama.dll", "mtmd.dll"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The library folder of the installed llama.cpp, empty."""
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH", raising=False)
    monkeypatch.delenv("GGML_BACKEND_PATH", raising=False)
    folder = tmp_path / "lib"
    folder.mkdir()
    monkeypatch.setattr(installed, "_files", lambda: sorted(folder.iterdir()))
    installed.build_identity.cache_clear()
    yield folder
    installed.build_identity.cache_clear()


@pytest.mark.parametrize(
    ("names", "only"),
    [
        (LINUX, True),
        (WINDOWS, True),
        ([*LINUX, "libggml-cpu-haswell.so"], True),
        ([*LINUX, "libggml-cuda.so"], False),
        ([*LINUX, "libggml-vulkan.so.0"], False),
        ([*LINUX, "libggml-rpc.so"], False),
        ([*WINDOWS, "ggml-hip.dll"], False),
        ([*LINUX, "libsomething.so"], False),
        (["libllama.so"], False),
        ([], False),
    ],
)
def test_a_build_for_cpus_has_no_other_library(folder: Path, names: list[str], only: bool) -> None:
    for name in names:
        (folder / name).touch()

    assert installed.is_cpu_only_build() is only


@pytest.mark.parametrize("variable", ["LLAMA_CPP_LIB_PATH", "GGML_BACKEND_PATH"])
def test_libraries_named_by_variables_are_not_judged(
    folder: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in LINUX:
        (folder / name).touch()
    monkeypatch.setenv(variable, "/elsewhere")

    assert not installed.is_cpu_only_build()


def in_another_process() -> str:
    installed.build_identity.cache_clear()
    return installed.build_identity()


def test_a_build_is_identified_by_its_files(folder: Path) -> None:
    (folder / "libllama.so").write_text("a")
    first = in_another_process()
    (folder / "libllama.so").write_text("b")
    assert in_another_process() == first

    (folder / "libllama.so").write_text("longer")
    # An installation changed during the run is not what this process measures.
    assert installed.build_identity() == first
    longer = in_another_process()
    assert longer != first

    (folder / "libggml.so").symlink_to("libggml.so.0")
    assert in_another_process() != longer


# The first start


@pytest.fixture(autouse=True)
def untested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTED, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(installed, "cache_dir", lambda: tmp_path / "cache")


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
    monkeypatch.setattr(installed, "_DEADLINE_S", 0.5)

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
    said = run_process("run", *flags, "hi", code=1)

    assert not said.out
    first, second = said.err.splitlines()
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
    monkeypatch.setattr(installed, "_survives", tried)
    for identity in ("old", "old", "new", "old"):
        monkeypatch.setattr(installed, "files_identity", lambda identity=identity: identity)
        monkeypatch.delenv(STARTED, raising=False)
        check_start()

    assert tried.call_count == 2


def test_the_installed_build_starts_and_its_children_do_not_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    check_start()

    monkeypatch.setattr(installed, "cache_dir", lambda: Path("/nowhere"))
    monkeypatch.setattr(installed, "_survives", lambda _: pytest.fail("this process has tested these files"))
    check_start()


def test_a_folder_that_cannot_be_written_costs_only_another_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file in the place of the folder")
    monkeypatch.setattr(installed, "_survives", lambda _: True)

    check_start()
    assert STARTED in os.environ


def test_a_child_that_the_system_kills_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr("app.core.child.python_command", lambda *_: (sys.executable, "-c", code))

    check_start()
    assert not (tmp_path / "cache").exists(), "the next start tries again"
