"""Which projector belongs to a target, and which file is refused before llama.cpp loads it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.errors import DamagedFileError, ModelFileError
from app.models.gguf import GgufHeader, read_header
from app.models.projector_file import check_projector, projector_beside
from tests.llama.tiny_model import write_model
from tests.llama.tiny_projector import write_mrope_target, write_projector


def target(folder: Path, name: str, write: Callable[[Path], Path] = write_model) -> tuple[Path, GgufHeader]:
    path = write(folder / name)
    return path, read_header(path)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("gemma-3-4b-it-Q4_K_M.gguf", "mmproj-gemma-3-4b-it-Q8_0.gguf"),
        ("SmolVLM-256M-Instruct-Q8_0.gguf", "SmolVLM-256M-Instruct.mmproj-f16.gguf"),
        ("SmolLM2-135M-Instruct-Q8_0.gguf", None),
    ],
)
def test_the_projector_beside_a_target_has_its_name_and_width(tmp_path: Path, name: str, chosen: str | None) -> None:
    for file in ("mmproj-gemma-3-4b-it-f32.gguf", "mmproj-gemma-3-4b-it-BF16.gguf", "mmproj-gemma-3-4b-it-Q8_0.gguf"):
        write_projector(tmp_path / file, "llava")
    write_projector(tmp_path / "SmolVLM-256M-Instruct.mmproj-f16.gguf", "llava")
    write_projector(tmp_path / "mmproj-gemma-3-4b-Q8_0.gguf", "llava", 64)
    (tmp_path / "mmproj-gemma.gguf").write_bytes(b"<html>")
    found = projector_beside(*target(tmp_path, name))
    assert found == (tmp_path / chosen if chosen is not None else None)


def test_a_projector_without_a_model_in_its_name_is_for_any_target_of_its_width(tmp_path: Path) -> None:
    write_projector(tmp_path / "mmproj-BF16.gguf", "llava")
    write_projector(tmp_path / "mmproj-model-f16.gguf", "llava")
    assert projector_beside(*target(tmp_path, "a.gguf")) == tmp_path / "mmproj-model-f16.gguf"


def test_a_projector_of_another_target_is_refused(tmp_path: Path) -> None:
    _, plain = target(tmp_path, "plain.gguf")
    _, sections = target(tmp_path, "sections.gguf", write_mrope_target)
    check_projector(write_projector(tmp_path / "a.gguf", "qwen2vl"), sections)
    with pytest.raises(ModelFileError, match="rows have 64 values, and the target takes 32"):
        check_projector(write_projector(tmp_path / "b.gguf", "llava", 64), plain)
    with pytest.raises(ModelFileError, match="type qwen2vl_merger"):
        check_projector(tmp_path / "a.gguf", plain)
    with pytest.raises(ModelFileError, match="type gemma4v"):
        check_projector(write_projector(tmp_path / "c.gguf", "gemma4"), sections)
    with pytest.raises(ModelFileError, match="is not a projector for pictures"):
        check_projector(tmp_path / "plain.gguf", plain)
    with pytest.raises(ModelFileError, match="is not a projector for pictures"):
        check_projector(write_projector(tmp_path / "d.gguf", "llava", clip__has_vision_encoder=None), plain)
    with pytest.raises(ModelFileError, match="There is no file"):
        check_projector(tmp_path / "missing.gguf", plain)


@pytest.mark.parametrize("n_missing", [64, 5_000, 100_000])
def test_a_projector_that_is_cut_short_is_refused(tmp_path: Path, n_missing: int) -> None:
    path, header = target(tmp_path, "a.gguf")
    whole = write_projector(tmp_path / "mmproj-a.gguf", "llava")
    whole.write_bytes(whole.read_bytes()[:-n_missing])
    with pytest.raises(DamagedFileError, match="cut short"):
        check_projector(whole, header)
    # It is chosen anyway, so that the user learns why pictures cannot be read.
    assert projector_beside(path, header) == whole
