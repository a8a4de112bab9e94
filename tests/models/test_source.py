"""Models as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.errors import UsageError
from app.models.source import HubModel, LocalModel, parse_source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("owner/repo", HubModel("owner/repo")),
        ("owner/repo:Q4_K_M", HubModel("owner/repo", quant="Q4_K_M")),
        ("owner/repo:sub/x.gguf", HubModel("owner/repo", file="sub/x.gguf")),
        ("owner/repo/sub/x.gguf", HubModel("owner/repo", file="sub/x.gguf")),
        ("owner/repo@v1.0:q8", HubModel("owner/repo", quant="q8", revision="v1.0")),
        ("hf.co/owner/repo:q4", HubModel("owner/repo", quant="q4")),
        ("https://huggingface.co/owner/repo", HubModel("owner/repo")),
        ("https://huggingface.co/owner/repo/tree/dev", HubModel("owner/repo", revision="dev")),
        (
            "https://huggingface.co/owner/repo/resolve/main/a%20b.gguf?download=true",
            HubModel("owner/repo", file="a b.gguf"),
        ),
        (
            "https://huggingface.co/owner/repo/blob/refs%2Fpr%2F1/sub/x.gguf",
            HubModel("owner/repo", file="sub/x.gguf", revision="refs/pr/1"),
        ),
        ("_owner/re-po_1.5:q4", HubModel("_owner/re-po_1.5", quant="q4")),
        ("/models/x.gguf", LocalModel(Path("/models/x.gguf"))),
        ("x.gguf", LocalModel(Path("x.gguf").absolute())),
    ],
)
def test_every_way_to_write_a_model(text: str, expected: object) -> None:
    assert repr(parse_source(text)) == repr(expected)
    assert repr(parse_source(str(expected))) == repr(expected), "what is shown can be typed"


@pytest.mark.parametrize("text", ["http://[::1/x", "https://x]/y", "http://x\x1b[31m/y"])
def test_an_address_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address on the hub"):
        parse_source(text)


def test_a_file_that_exists_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "repo").touch()

    assert parse_source("owner/repo") == LocalModel(tmp_path / "owner" / "repo")


@pytest.mark.parametrize(
    "text",
    [
        *["", "word", "https://example.com/owner/repo", "ftp://huggingface.co/a/b", "a/b/c", "\0"],
        *["owner/a--b", "owner/a--b:Q8_0", "owner/x.git", "https://hf.co/owner/x.git", "owner/a b", "owner/a-:Q8_0"],
    ],
)
def test_what_names_no_model_is_reported(text: str) -> None:
    with pytest.raises(UsageError):
        parse_source(text)


def test_the_home_of_an_unknown_user_is_a_plain_path() -> None:
    assert parse_source("~no one-of-that-name/x.gguf") == LocalModel(Path("~no one-of-that-name/x.gguf").absolute())


def test_a_file_of_a_folder_that_is_here_is_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(parse_source("models/big.gguf"), HubModel)
    (tmp_path / "models").mkdir()
    assert parse_source("models/big.gguf") == LocalModel(tmp_path / "models" / "big.gguf")
    assert isinstance(parse_source("owner/repo:models/big.gguf"), HubModel)


def test_a_quantization_is_the_same_however_it_is_written() -> None:
    assert len({HubModel("a/b", quant=quant) for quant in ("Q4_K_M", "q4_k_m")}) == 1
    assert len({HubModel("a/b", quant=quant) for quant in ("Q4_K_M", "Q4_K_S", None)}) == 3
    assert HubModel("a/b", size=1) == HubModel("a/b", size=2)
