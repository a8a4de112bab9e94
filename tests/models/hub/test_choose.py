"""Which file of a repository is chosen."""

import pytest

from app.core.errors import HubError
from app.models.hub.choose import RemoteFile, choose, draft_layers, models_in, projector_for
from app.models.source import HubModel

REPO = "owner/repo"


def files(*names: str) -> list[RemoteFile]:
    return [RemoteFile(name, 1000 + i) for i, name in enumerate(names)]


COMMON_FILES = files("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q4_0.gguf", "m-IQ3_XXS.gguf", "README.md", "mmproj-m-f16.gguf")


HEADS = files("Qwen3-8B-EAGLE3-Q8_0.gguf", "Qwen3-8B-EAGLE3-Q4_K_M.gguf")
SPLIT = files("m-Q4_K_M-00002-of-00002.gguf", "m-Q4_K_M-00001-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf")
REPACKED = files("m-Q4_0_4_4.gguf", "m-Q4_0.gguf", "m-Q4_0_8_8.gguf")
WITH_MTP = files("Qwen3.5-9B-Q4_K_M.gguf", "MTP/mtp-Qwen3.5-9B-F16.gguf", "MTP/mtp-Qwen3.5-9B-Q8_0.gguf")


@pytest.mark.parametrize(
    ("quant", "listed", "draft", "name"),
    [
        # Quantizations in common spellings
        ("Q4_K_M", COMMON_FILES, False, "m-Q4_K_M.gguf"),
        ("q4km", COMMON_FILES, False, "m-Q4_K_M.gguf"),
        ("Q4", COMMON_FILES, False, "m-Q4_K_M.gguf"),
        ("q8", COMMON_FILES, False, "m-Q8_0.gguf"),
        ("iq3-xxs", COMMON_FILES, False, "m-IQ3_XXS.gguf"),
        ("q4_0", REPACKED, False, "m-Q4_0.gguf"),
        ("q4_0_8_8", REPACKED, False, "m-Q4_0_8_8.gguf"),
        ("q4_k_m", SPLIT, False, "m-Q4_K_M-00001-of-00002.gguf"),
        # The defaults of targets and drafts
        (None, COMMON_FILES, False, "m-Q4_K_M.gguf"),
        (None, COMMON_FILES, True, "m-Q8_0.gguf"),
        (None, HEADS, True, "Qwen3-8B-EAGLE3-Q8_0.gguf"),
        (None, WITH_MTP, True, "Qwen3.5-9B-Q4_K_M.gguf"),
        (None, WITH_MTP[1:], True, "MTP/mtp-Qwen3.5-9B-Q8_0.gguf"),
    ],
)
def test_a_quantization_or_the_default_chooses_a_file(
    quant: str | None, listed: list[RemoteFile], draft: bool, name: str
) -> None:
    assert choose(HubModel(REPO, quant=quant), listed, draft=draft).name == name


@pytest.mark.parametrize(
    ("source", "listed", "message", "hint"),
    [
        (HubModel(REPO, quant="Q5_K_M"), COMMON_FILES, "no complete quantization Q5_K_M", "Q4_K_M"),
        (HubModel(REPO, file="m-Q4_K_S.gguf"), COMMON_FILES, r"no complete file m-Q4_K_S\.gguf", "m-Q4_K_M.gguf"),
        (HubModel(REPO, file="m-Q8_0-00001-of-00002.gguf"), SPLIT, "no complete file", "Q4_K_M"),
        (HubModel(REPO, quant="q8_0"), SPLIT, "no complete quantization", "It has Q4_K_M."),
        (HubModel(REPO, quant="Q4_0"), files("a-Q4_0.gguf", "b-Q4_0.gguf"), "matches several", "a-Q4_0.gguf"),
        (HubModel(REPO), files("model.safetensors", "mmproj-f16.gguf"), "no GGUF model", "⟨pairs.find=owner/repo⟩"),
        (HubModel(REPO), HEADS, "no GGUF model", "⟨pairs.find=owner/repo⟩"),
    ],
)
def test_what_cannot_be_chosen_is_named_with_the_alternatives(
    source: HubModel, listed: list[RemoteFile], message: str, hint: str
) -> None:
    with pytest.raises(HubError, match=message) as failed:
        choose(source, listed)
    assert hint in failed.value.hint


def test_all_parts_of_a_split_model_belong_to_it() -> None:
    chosen = choose(HubModel(REPO, file=SPLIT[0].path), SPLIT)

    assert chosen.files == (SPLIT[1], SPLIT[0])
    assert models_in(SPLIT) == [chosen]


def test_a_file_that_is_not_the_known_one_is_refused_with_both_hashes() -> None:
    known, other = "a" * 64, "b" * 64
    there = [RemoteFile("m.gguf", 1000, sha256=other)]

    with pytest.raises(HubError, match=rf"m\.gguf of owner/repo is not the file .* {other}, not {known}") as failed:
        choose(HubModel(REPO, file="m.gguf", sha256=known), there)
    assert failed.value.hint.endswith("⟨setup.latest⟩")
    assert choose(HubModel(REPO, file="m.gguf", size=1001, sha256=other), there).files == tuple(there)


def test_a_known_hash_counts_where_the_hub_shows_none() -> None:
    found = choose(HubModel(REPO, file="m.gguf", sha256="a" * 64), [RemoteFile("m.gguf", 1000)])

    assert found.files[0].sha256 == "a" * 64


def test_names_that_claim_many_parts_are_not_counted_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(*_: int) -> range:
        raise AssertionError("it counts as far as a name says")

    monkeypatch.setattr("app.models.hub.choose.range", counted, raising=False)

    assert models_in(files(*(f"m{i}-00001-of-99999.gguf" for i in range(20)))) == []


def test_the_nearest_name_is_searched_among_200(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def nearest(word: str, names: list[str], **_: object) -> list[str]:
        seen.append(len(names))
        return []

    monkeypatch.setattr("difflib.get_close_matches", nearest)

    with pytest.raises(HubError, match="has no complete file"):
        choose(HubModel(REPO, file="w.gguf"), files(*(f"m{i}.gguf" for i in range(5_000))))

    assert seen == [200]


@pytest.mark.parametrize(
    ("model", "listed", "found"),
    [
        ("m-Q4_K_M.gguf", ("mmproj-F32.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"), "mmproj-F16.gguf"),
        ("m-Q4_K_M.gguf", ("mmproj-m-Q8_0.gguf", "mmproj-m-f16.gguf"), "mmproj-m-Q8_0.gguf"),
        ("m-Q4_K_M.gguf", ("m.mmproj-Q8_0.gguf", "mmproj/other.gguf"), "m.mmproj-Q8_0.gguf"),
        ("q4/m.gguf", ("mmproj-Q8_0.gguf", "q4/mmproj-F16.gguf", "q8/mmproj-Q8_0.gguf"), "q4/mmproj-F16.gguf"),
        ("q4/m.gguf", ("mmproj-model.gguf", "q40/mmproj-F16.gguf"), "mmproj-model.gguf"),
        ("m.gguf", ("q4/mmproj-F16.gguf", "mmproj.txt"), None),
        ("b-Q4_K_M.gguf", ("mmproj-a-Q8_0.gguf", "mmproj-b-F16.gguf"), "mmproj-b-F16.gguf"),
    ],
)
def test_a_projector_is_found_in_the_folder_of_its_target_or_above(
    model: str, listed: tuple[str, ...], found: str | None
) -> None:
    projector = projector_for(model, files(model, *listed))
    assert (projector.path if projector is not None else None) == found


ROOT = ("mtp-gemma-4-12B-it.gguf", "MTP/gemma-4-12B-it-Q8_0-MTP.gguf", "MTP/gemma-4-12B-it-BF16-MTP.gguf")
BLOCKS = ("dflash-Q-Q8_0.gguf", "dspark-Q-Q8_0.gguf", "Q-DFlash2-Q4_0.gguf")


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("Q-Q8_0.gguf", BLOCKS),
        ("Qwen3.5-9B-MTP-Q4_K_M.gguf", ("mtp-gemma-4.gguf",)),
        ("Qwen3.5-9B-Q4_K_M.gguf", ("MTP/mtp-Qwen3.5-9B-Q8_0.gguf", "MTP/mtp-Qwen3.5-9B-F16.gguf")),
        ("gemma-4-12B-it-qat-UD-Q4_K_XL.gguf", ROOT),
    ],
)
def test_draft_layers_beside_a_model_are_no_models_and_the_preferred_come_first(
    model: str, layers: tuple[str, ...]
) -> None:
    found = files(model, *sorted(layers))

    assert [one.name for one in models_in(found)] == [model]
    assert [one.name for one in draft_layers(found)] == list(layers)
