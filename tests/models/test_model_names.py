"""Names of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.models.catalog import Catalog, Pair, shipped_file
from app.models.gguf import GgufHeader
from app.models.model_facts import model_facts
from app.models.model_names import apart, file_type, known_as, part_names, part_of, parts_here, quantization
from app.models.pair_summary import pair_texts, title_of
from app.models.source import HubModel, LocalModel
from app.worker.known_pairs import pair_by_models


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Qwen2.5-Coder-32B-Instruct-Q4_K_M.gguf", "Qwen2.5-Coder-32B-Instruct"),
        ("qwen2.5-coder-7b-q8_0.gguf", "qwen2.5-coder-7b"),
        ("SmolLM2-135M-Instruct.Q4_1.98362432.draft-q2_k.gguf", "SmolLM2-135M-Instruct"),
        ("Qwen3-30B-A3B-UD-Q4_K_XL-00001-of-00002.gguf", "Qwen3-30B-A3B"),
        ("gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b"),
        ("sha256-0123456789abcdef0123456789abcdef.gguf", "From Inside"),
        ("model.gguf", "From Inside"),
        ("Q4_0.gguf", "Q4_0"),
        ("-Q4_K_M.gguf", "From Inside"),
    ],
)
def test_a_model_is_called_after_its_file(file: str, name: str) -> None:
    assert known_as(file, "From Inside") == name
    assert known_as(file, name) == name


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
    [
        ("Q4_K_M/big-q8_0.gguf", "Q8_0"),
        ("Q4_K_M/big.gguf", "Q4_K_M"),
        ("big-F16-Q4_0.gguf", "Q4_0"),
        ("big.gguf", ""),
        ("m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("m-iq3_xxs.gguf", "IQ3_XXS"),
        ("a.BF16.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("m-Q4_K_M_8k.gguf", "Q4_K_M"),
        ("m-Q4_0_4_4.gguf", ""),
    ],
)
def test_a_quantization_is_reported_last_in_the_file_name_or_else_by_the_folder(name: str, told: str) -> None:
    assert quantization(name) == told


def test_the_list_and_the_headers_name_models_alike() -> None:
    for pair in Catalog(shipped_file()).pairs.values():
        if isinstance(pair.target, HubModel) and pair.target.file:
            metadata = {"general.architecture": "llama", "general.name": "A Training Run"}
            file = pair.target.file.rpartition("/")[2]
            facts = model_facts(GgufHeader(metadata, 99), file=file, size=1)
            assert pair_texts(pair)[0] == f"{facts.name} {pair.target.quant}"


def test_own_files_are_named_by_their_file_names() -> None:
    pair, _ = pair_by_models("/models/of/mine/Big-7B-Q4_K_M.gguf", "/models/Big-0.5B-Q8_0.gguf")
    assert pair.title == "Big-7B Q4_K_M + 0.5B Q8_0"
    assert title_of(HubModel("owner/Big-7B-GGUF", quant="Q4_K_M"), None) == "Big-7B Q4_K_M"


def test_a_draft_of_the_same_name_is_reported_by_its_quantization_or_its_file() -> None:
    target = LocalModel(Path("/a/Big-Q8_0.gguf"))
    assert pair_texts(Pair("", "", target, LocalModel(Path("/b/Big-Q2_K.gguf")))) == ("Big Q8_0", "Q2_K")
    assert pair_texts(Pair("", "", target, LocalModel(Path("/b/Big.Q8_0.gguf")))) == ("Big Q8_0", "Big.Q8_0.gguf")
    assert pair_texts(Pair("", "", target, LocalModel(Path("/b/Big-Q8_0.gguf")))) == ("Big Q8_0", "the same file")


# Split models


FIRST, SECOND = "m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00002-of-00002.gguf"


@pytest.mark.parametrize(
    ("name", "stem", "number", "count"),
    [
        (FIRST, "m-Q4_0", 1, 2),
        ("Q4_0/" + SECOND, "Q4_0/m-Q4_0", 2, 2),
        ("m-00009-of-00002.gguf", "m", 9, 2),
        (FIRST.upper(), "M-Q4_0", 1, 2),
    ],
)
def test_a_part_is_reported_by_its_name(name: str, stem: str, number: int, count: int) -> None:
    assert part_of(name) == (stem, number, count)


@pytest.mark.parametrize("name", ["m.gguf", "m-00001-of-00002", "m-1-of-2.gguf", "m-00001-of-00002.gguf.part"])
def test_a_whole_model_is_its_only_part(name: str) -> None:
    assert part_of(name) is None
    assert part_names(name) == [name]


@pytest.mark.parametrize("ending", [".gguf", ".GGUF"])
def test_any_part_names_them_all_and_spells_them_as_its_own(ending: str) -> None:
    stems = [FIRST.removesuffix(".gguf"), SECOND.removesuffix(".gguf")]

    for stem in stems:
        assert part_names(stem + ending) == [stem + ending for stem in stems]


def test_only_present_parts_of_a_split_model_count(tmp_path: Path) -> None:
    first, second = tmp_path / FIRST, tmp_path / SECOND
    assert parts_here(first) == []
    second.touch()
    assert parts_here(first) == [second]
    first.touch()
    assert parts_here(first) == parts_here(second) == [first, second]
    # Anyone who reads a whole one says that it is not there.
    assert parts_here(tmp_path / "m.gguf") == [tmp_path / "m.gguf"]
