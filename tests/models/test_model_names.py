"""Names of models and sources, as people write them and as lists show them."""

from pathlib import Path

import pytest

from app.core.errors import UsageError
from app.core.units import GB
from app.models.catalog import Catalog, Pair, shipped_file
from app.models.gguf import GgufHeader
from app.models.model_facts import model_facts
from app.models.model_names import apart, file_type, known_as, part_names, part_of, parts_here, quantization
from app.models.pair_summary import pair_texts, title_of
from app.models.progress import FileProgress
from app.models.setup_task import SetupProgress, Stage
from app.models.source import HubModel, LocalModel, parse_source
from app.worker.known_pairs import pair_by_models


@pytest.mark.parametrize(
    ("file", "name", "quant"),
    [
        ("Qwen2.5-Coder-32B-Instruct-Q4_K_M.gguf", "Qwen2.5-Coder-32B-Instruct", "Q4_K_M"),
        ("qwen2.5-coder-7b-q8_0.gguf", "qwen2.5-coder-7b", "Q8_0"),
        ("SmolLM2-135M-Instruct.Q4_1.98362432.draft-q2_k.gguf", "SmolLM2-135M-Instruct", "Q2_K"),
        ("Qwen3-30B-A3B-UD-Q4_K_XL-00001-of-00002.gguf", "Qwen3-30B-A3B", "UD-Q4_K_XL"),
        ("gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b", "MXFP4"),
        ("m-iq3_xxs.gguf", "m", "IQ3_XXS"),
        ("a.BF16.gguf", "a", "BF16"),
        ("m-Q4_K_M_8k.gguf", "m", "Q4_K_M"),
        ("m-Q4_0_4_4.gguf", "m", ""),
        # The last quantization of the file name counts, or else the folder's.
        ("Q4_K_M/big-q8_0.gguf", "big", "Q8_0"),
        ("Q4_K_M/big.gguf", "big", "Q4_K_M"),
        ("big-F16-Q4_0.gguf", "big", "Q4_0"),
        ("big.gguf", "big", ""),
        # These file names say nothing about the model.
        ("sha256-0123456789abcdef0123456789abcdef.gguf", "From Inside", ""),
        ("model.gguf", "From Inside", ""),
        ("Q4_0.gguf", "Q4_0", "Q4_0"),
        ("-Q4_K_M.gguf", "From Inside", "Q4_K_M"),
    ],
)
def test_a_model_is_called_after_its_file(file: str, name: str, quant: str) -> None:
    assert (known_as(file, "From Inside"), quantization(file)) == (name, quant)
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
def test_a_draft_name_shows_only_its_difference_from_the_target(target: str, draft: str, rest: str) -> None:
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


def test_the_list_and_the_headers_name_models_alike() -> None:
    for pair in Catalog(shipped_file()).pairs.values():
        if isinstance(pair.target, HubModel) and pair.target.file:
            metadata = {"general.architecture": "llama", "general.name": "A Training Run"}
            file = pair.target.file.rpartition("/")[2]
            facts = model_facts(GgufHeader(metadata, 99), file=file, size=1)
            assert pair_texts(pair)[0] == f"{facts.name} {pair.target.quant}"


def test_own_files_are_named_by_their_file_names() -> None:
    pair = pair_by_models("/models/of/mine/Big-7B-Q4_K_M.gguf", "/models/Big-0.5B-Q8_0.gguf").pair
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
    ("name", "part", "names"),
    [
        (FIRST, ("m-Q4_0", 1, 2), [FIRST, SECOND]),
        (SECOND, ("m-Q4_0", 2, 2), [FIRST, SECOND]),
        (f"Q4_0/{SECOND}", ("Q4_0/m-Q4_0", 2, 2), [f"Q4_0/{FIRST}", f"Q4_0/{SECOND}"]),
        ("m-00001-OF-00001.GGUF", ("m", 1, 1), ["m-00001-of-00001.GGUF"]),
        *((name, None, [name]) for name in ("m.gguf", "m-00001-of-00002", "m-1-of-2.gguf", f"{FIRST}.part")),
    ],
)
def test_any_part_gives_the_names_of_all_parts(name: str, part: tuple[str, int, int] | None, names: list[str]) -> None:
    assert (part_of(name), part_names(name)) == (part, names)


def test_only_present_parts_of_a_split_model_count(tmp_path: Path) -> None:
    first, second = tmp_path / FIRST, tmp_path / SECOND
    assert parts_here(first) == []
    second.touch()
    assert parts_here(first) == [second]
    first.touch()
    assert parts_here(first) == parts_here(second) == [first, second]
    # Reading the file of a whole model reports that it is missing.
    assert parts_here(tmp_path / "m.gguf") == [tmp_path / "m.gguf"]


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


def test_a_file_or_a_path_in_a_folder_that_is_here_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(parse_source("models/big.gguf"), HubModel)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "repo").touch()
    for text in ("models/repo", "models/big.gguf"):
        assert parse_source(text) == LocalModel(tmp_path / text)
    assert isinstance(parse_source("owner/repo:models/big.gguf"), HubModel)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("http://[::1/x", "https://x]/y", "http://x\x1b[31m/y"), "is not an address on the hub"),
        (("https://example.com/owner/repo", "ftp://huggingface.co/a/b"), "is not an address on the hub"),
        (("", "word", "a/b/c", "\0", "owner/a--b", "owner/a--b:Q8_0"), "names no model"),
        (("owner/x.git", "https://hf.co/owner/x.git", "owner/a b", "owner/a-:Q8_0"), "names no model"),
    ],
)
def test_what_names_no_model_is_reported(texts: tuple[str, ...], message: str) -> None:
    for text in texts:
        with pytest.raises(UsageError, match=message):
            parse_source(text)


def test_the_home_of_an_unknown_user_is_a_plain_path() -> None:
    assert parse_source("~no one-of-that-name/x.gguf") == LocalModel(Path("~no one-of-that-name/x.gguf").absolute())


def test_a_quantization_is_the_same_however_it_is_written() -> None:
    assert len({HubModel("a/b", quant=quant) for quant in ("Q4_K_M", "q4_k_m")}) == 1
    assert len({HubModel("a/b", quant=quant) for quant in ("Q4_K_M", "Q4_K_S", None)}) == 3
    assert HubModel("a/b", size=1) == HubModel("a/b", size=2)


@pytest.mark.parametrize(
    ("bytes_per_s", "pace"), [(120_000, "  120 kB/s  4 h 37 min left"), (2e9, "  2000 MB/s  1 s left"), (0.0, "")]
)
def test_the_line_has_the_speed_and_the_time_left(bytes_per_s: float, pace: str) -> None:
    progress = SetupProgress(Stage.DOWNLOADING, (FileProgress("target", 0, 2 * GB),), bytes_per_s)

    assert progress.line == f"target 0 MB of 2.0 GB{pace}"
