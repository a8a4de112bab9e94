"""The files of the installed llama.cpp, read without loading it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.llama import installed

LINUX = ["libggml-base.so", "libggml-base.so.0.25.3", "libggml-cpu.so", "libggml.so", "libllama.so.0", "libmtmd.so"]
WINDOWS = ["ggml-base.dll", "ggml-cpu.dll", "ggml.dll", "llama.dll", "mtmd.dll"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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
