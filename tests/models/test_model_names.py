"""One name for a model, wherever it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.known_pairs import choose_pair
from app.models.catalog import Catalog, shipped_file
from app.models.gguf import GgufHeader
from app.models.model_facts import model_facts
from app.models.model_names import apart, file_type, known_as, quantization
from app.models.pair_names import pair_texts, source_texts, title_of
from app.models.source import HubModel, LocalModel


def test_the_name_inside_counts_where_the_files_shows_nothing() -> None:
    assert known_as("sha256-0123456789abcdef.gguf", "Inside") == "Inside"
    assert known_as("big-Q4_K_M.gguf", "Inside") == "big"
    assert known_as("-Q4_K_M.gguf", "Inside") == "Inside"
    assert known_as("model.gguf", "") == "model"


@pytest.mark.parametrize(
    ("target", "draft", "rest"),
    [
        ("Big-7B", "Big-0.5B", "0.5B"),
        ("Big-7B-Instruct", "big-0.5B-instruct", "0.5B"),
        ("Big", "Big-Small", "Small"),
        ("Big-Small", "Small", ""),
        ("Small-Big", "Small", ""),
        ("Big", "Small-Big", "Small"),
        ("Big", "Other", "Other"),
    ],
)
def test_a_draft_is_called_what_shows_it_from_its_target(target: str, draft: str, rest: str) -> None:
    assert apart(target, draft) == rest


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("Q4_K - Medium", "Q4_K_M"),
        ("Q3_K - Large", "Q3_K_L"),
        ("Q2_K - Medium", "Q2_K"),
        ("Q2_K - Small", "Q2_K_S"),
        ("Q8_0", "Q8_0"),
    ],
)
def test_a_file_type_is_spelled_as_in_file_names(name: str, spelled: str) -> None:
    assert file_type(name) == spelled


@pytest.mark.parametrize(
    ("name", "told"),
    [("Q4_K_M/big-q8_0.gguf", "Q8_0"), ("Q4_K_M/big.gguf", "Q4_K_M"), ("big-F16-Q4_0.gguf", "Q4_0"), ("big.gguf", "")],
)
def test_a_quantization_is_reported_last_in_the_file_name_or_else_by_the_folder(name: str, told: str) -> None:
    assert quantization(name) == told


def test_the_list_calls_a_pair_what_the_chat_and_the_checks_will_call_it() -> None:
    for pair in Catalog([shipped_file()]).pairs.values():
        if isinstance(pair.target, HubModel) and pair.target.file:
            metadata = {"general.architecture": "llama", "general.name": "A Training Run"}
            file = pair.target.file.rpartition("/")[2]
            facts = model_facts(GgufHeader(3, 1, metadata, 99), file=file, size=1, quant="", whole=True)
            assert pair_texts(pair)[0] == f"{facts.name} {pair.target.quant}"


def test_files_of_ones_own_are_called_after_themselves_not_after_their_folders() -> None:
    pair, _ = choose_pair({"target": "/models/of/mine/Big-7B-Q4_K_M.gguf", "draft": "/models/Big-0.5B-Q8_0.gguf"})
    assert pair.title == "Big-7B Q4_K_M + 0.5B Q8_0"
    assert title_of(HubModel("owner/Big-7B-GGUF", quant="Q4_K_M"), None) == "Big-7B Q4_K_M"


def test_a_draft_of_the_same_name_is_reported_by_its_quantization_or_its_file() -> None:
    target = LocalModel(Path("/a/Big-Q8_0.gguf"))
    assert source_texts(target, LocalModel(Path("/b/Big-Q2_K.gguf"))) == ("Big Q8_0", "Q2_K")
    assert source_texts(target, LocalModel(Path("/b/Big.Q8_0.gguf"))) == ("Big Q8_0", "Big.Q8_0.gguf")
    assert source_texts(target, LocalModel(Path("/b/Big-Q8_0.gguf"))) == ("Big Q8_0", "the same file")
