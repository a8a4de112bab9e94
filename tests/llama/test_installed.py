"""What the files of the installed llama.cpp tell, without loading it."""

from __future__ import annotations

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
    installed.build_kind.cache_clear()
    yield folder
    installed.build_kind.cache_clear()


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
def test_a_build_for_processors_has_no_other_library(folder: Path, names: list[str], only: bool) -> None:
    for name in names:
        (folder / name).touch()

    assert installed.computes_on_processors_only() is only


@pytest.mark.parametrize("variable", ["LLAMA_CPP_LIB_PATH", "GGML_BACKEND_PATH"])
def test_libraries_from_elsewhere_tell_nothing(folder: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LINUX:
        (folder / name).touch()
    monkeypatch.setenv(variable, "/elsewhere")

    assert not installed.computes_on_processors_only()


def test_another_installation_is_another_build(folder: Path) -> None:
    (folder / "libllama.so").write_text("a")
    first = installed.build_identity()
    assert installed.build_identity() == first

    (folder / "libllama.so").write_text("ab")
    assert installed.build_identity() != first


def test_a_library_that_is_a_link_to_nothing_belongs_to_the_build_too(folder: Path) -> None:
    before = installed.build_identity()
    (folder / "libllama.so").symlink_to("libllama.so.0")

    assert installed.build_identity() != before


def kind_in_another_process() -> str:
    installed.build_kind.cache_clear()
    return installed.build_kind()


def test_what_was_measured_with_a_build_holds_where_it_is_installed_again(folder: Path) -> None:
    (folder / "libllama.so").write_text("a")
    first = kind_in_another_process()
    (folder / "libllama.so").unlink()
    (folder / "libllama.so").write_text("b")
    assert kind_in_another_process() == first

    (folder / "libllama.so").write_text("longer")
    assert kind_in_another_process() != first


def test_what_is_installed_under_a_process_is_not_what_it_measures(folder: Path) -> None:
    (folder / "libllama.so").write_text("a")
    first = installed.build_kind()
    (folder / "libllama.so").write_text("longer")
    assert installed.build_kind() == first


@pytest.mark.parametrize("variable", ["LLAMA_CPP_LIB_PATH", "GGML_BACKEND_PATH"])
def test_another_build_in_the_same_place_elsewhere_is_another_one(
    folder: Path, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    library = elsewhere / "libllama.so"
    monkeypatch.setenv(variable, str(elsewhere if variable == "LLAMA_CPP_LIB_PATH" else library))
    library.write_text("a")
    first, whole = kind_in_another_process(), installed.build_identity()
    library.write_text("longer")
    assert kind_in_another_process() != first
    assert installed.build_identity() != whole
