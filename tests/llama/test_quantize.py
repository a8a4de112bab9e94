"""Making the demo's draft: whole or not at all."""

from __future__ import annotations

import codecs
import errno
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.core.errors import ModelFileError, ModelLoadError, UsageError
from app.llama import demo
from app.llama import quantize as quantize_module
from app.llama.checks import open_model_file
from app.llama.library import native
from app.llama.model import Model
from app.llama.quantize import _put, quantize
from tests.llama.tiny_model import write_model

pytestmark = pytest.mark.native


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_model(tmp_path / "source.gguf")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_result_is_a_model_in_a_new_folder(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "new" / "deep" / "result.gguf"
    quantize(source, result, "q8_0")
    model = Model(open_model_file(result))
    assert model.quantization == "Q8_0"
    model.close()
    assert names_in(result.parent) == ["result.gguf"]


def test_on_windows_the_result_is_named_in_the_code_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def western(name: str) -> codecs.CodecInfo | None:
        return codecs.lookup("cp1252") if name == "mbcs" else None

    monkeypatch.setattr(sys, "platform", "win32")
    codecs.register(western)
    try:
        assert quantize_module._for_stream(Path("C:/Jürgen/x")) == "C:/Jürgen/x".encode("cp1252")
        assert quantize_module._for_stream(Path("C:/Юрий/x")) == "C:/Юрий/x".encode()
    finally:
        codecs.unregister(western)


def test_on_windows_a_result_that_another_process_uses_already_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, other: Path) -> Path:
        raise PermissionError(errno.EACCES, "in use", str(other))

    monkeypatch.setattr(Path, "replace", refuse)
    made, result = tmp_path / "made", tmp_path / "result"
    made.touch()
    with pytest.raises(PermissionError):
        _put(made, result)

    result.touch()
    _put(made, result)


@pytest.mark.parametrize("data", [None, b"", b"hello", b"GGUF" + bytes(100)])
def test_a_source_that_is_no_model_is_told(tmp_path: Path, data: bytes | None) -> None:
    source, result = tmp_path / "bad.gguf", tmp_path / "out" / "result.gguf"
    if data is not None:
        source.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"bad\.gguf"):
        quantize(source, result, "q8_0")
    assert not result.parent.exists()


def test_a_source_whose_data_are_cut_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with source.open("r+b") as file:
        file.truncate(source.stat().st_size - 5000)
    result = tmp_path / "out" / "result.gguf"
    with pytest.raises(ModelLoadError, match=r"result\.gguf could not be made from source\.gguf: .+\.$"):
        quantize(source, result, "q8_0")
    assert names_in(result.parent) == []


def test_an_unknown_type_is_told(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='The file type is "q9"; it must be one of q2_k'):
        quantize(source, tmp_path / "result.gguf", "q9")


def test_a_folder_that_cannot_be_made_is_told(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelLoadError, match=r"result\.gguf cannot be written: .+\.$") as caught:
        quantize(source, tmp_path / "file" / "result.gguf", "q8_0")
    assert caught.value.hint


def test_a_folder_in_the_place_of_the_result_is_told_and_nothing_is_left(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "out" / "result.gguf"
    result.mkdir(parents=True)
    with pytest.raises(ModelLoadError, match="cannot be written"):
        quantize(source, result, "q8_0")
    assert names_in(result.parent) == ["result.gguf"]


def test_an_interruption_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native_quantize = native.llama_model_quantize

    def interrupt(*arguments: object) -> None:
        assert native_quantize(*arguments) == 0
        raise KeyboardInterrupt

    monkeypatch.setattr(native, "llama_model_quantize", interrupt)
    result = tmp_path / "out" / "result.gguf"
    with pytest.raises(KeyboardInterrupt):
        quantize(source, result, "q8_0")
    assert names_in(result.parent) == []


def test_the_old_result_stays_until_the_new_one_is_complete(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tmp_path / "out" / "result.gguf"
    result.parent.mkdir()
    result.write_text("old")
    native_quantize = native.llama_model_quantize

    def look(*arguments: object) -> int:
        code = native_quantize(*arguments)
        assert result.read_text() == "old"
        return int(code)

    monkeypatch.setattr(native, "llama_model_quantize", look)
    quantize(source, result, "q8_0")
    open_model_file(result)


def test_several_processes_at_once_make_one_result(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "out" / "result.gguf"
    script = (
        "import sys; from pathlib import Path; from app.llama.quantize import quantize; sys.stdin.read(1);"
        "quantize(Path(sys.argv[1]), Path(sys.argv[2]), 'q8_0')"
    )
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(source), str(result)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    for maker in makers:
        # They are loaded and wait; now they all go.
        assert maker.stdin is not None
        maker.stdin.write(b"x")
        maker.stdin.flush()
    for maker in makers:
        _, errors = maker.communicate(timeout=60)
        assert maker.returncode == 0, errors
    assert names_in(result.parent) == ["result.gguf"]
    Model(open_model_file(result)).close()


# The demo


def test_the_demo_draft_is_made_once(demo_target: Path, demo_draft: Path) -> None:
    made = demo_draft.stat().st_mtime_ns
    assert demo.draft_file(demo_draft.parent.parent) == demo_draft
    assert demo_draft.stat().st_mtime_ns == made
    assert demo_draft.stat().st_size < demo_target.stat().st_size


def test_a_demo_that_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PACKAGE", "no_such_package_anywhere")
    with pytest.raises(ModelFileError, match="not installed") as caught:
        demo.draft_file(tmp_path)
    assert "pip install" in caught.value.hint


def test_a_full_disk_is_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "llama_model_quantize", lambda *_: 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(ModelLoadError, match=r"the disk of .* is full"):
        quantize(source, tmp_path / "small.gguf", "q2_k")
    assert not list(tmp_path.glob("small*"))
