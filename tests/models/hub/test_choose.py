"""Which file of a repository is chosen."""

import pytest

from app.core.errors import HubError
from app.models.hub.choose import RemoteFile, choose, draft_layers, models_in, projector_for
from app.models.source import HubModel

REPO = "owner/repo"


def files(*names: str) -> list[RemoteFile]:
    return [RemoteFile(name, 1000 + i) for i, name in enumerate(names)]


COMMON_FILES = files("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q4_0.gguf", "m-IQ3_XXS.gguf", "README.md", "mmproj-m-f16.gguf")


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("Q4_K_M", "m-Q4_K_M.gguf"),
        ("q4km", "m-Q4_K_M.gguf"),
        ("Q4", "m-Q4_K_M.gguf"),
        ("q8", "m-Q8_0.gguf"),
        ("iq3-xxs", "m-IQ3_XXS.gguf"),
    ],
)
def test_quantizations_are_read_in_common_spellings(wanted: str, name: str) -> None:
    assert choose(HubModel(REPO, quant=wanted), COMMON_FILES).name == name


def test_default_quantizations_of_target_and_draft() -> None:
    assert choose(HubModel(REPO), COMMON_FILES).name == "m-Q4_K_M.gguf"
    assert choose(HubModel(REPO), COMMON_FILES, draft=True).name == "m-Q8_0.gguf"


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


def test_a_missing_quantization_or_file_lists_the_others() -> None:
    with pytest.raises(HubError, match="no complete quantization Q5_K_M") as failed:
        choose(HubModel(REPO, quant="Q5_K_M"), COMMON_FILES)
    assert "Q4_K_M" in failed.value.hint
    with pytest.raises(HubError) as failed:
        choose(HubModel(REPO, file="m-Q4_K_S.gguf"), COMMON_FILES)
    assert "m-Q4_K_M.gguf" in failed.value.hint


def test_a_split_model_needs_all_of_its_parts() -> None:
    parts = files("m-Q4_K_M-00002-of-00002.gguf", "m-Q4_K_M-00001-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf")

    chosen = choose(HubModel(REPO, quant="q4_k_m"), parts)

    assert [file.path for file in chosen.files] == ["m-Q4_K_M-00001-of-00002.gguf", "m-Q4_K_M-00002-of-00002.gguf"]
    assert len(models_in(parts)) == 1
    assert choose(HubModel(REPO, file="m-Q4_K_M-00002-of-00002.gguf"), parts) == chosen
    for wanted in (HubModel(REPO, file="m-Q8_0-00001-of-00002.gguf"), HubModel(REPO, quant="q8_0")):
        with pytest.raises(HubError, match="no complete"):
            choose(wanted, parts)


def test_repacked_quantizations_are_told_apart() -> None:
    packed = files("m-Q4_0_4_4.gguf", "m-Q4_0.gguf", "m-Q4_0_8_8.gguf")

    assert choose(HubModel(REPO, quant="q4_0"), packed).name == "m-Q4_0.gguf"
    assert choose(HubModel(REPO, quant="q4_0_8_8"), packed).name == "m-Q4_0_8_8.gguf"


def test_models_with_the_same_quantization_are_ambiguous() -> None:
    with pytest.raises(HubError, match="matches several"):
        choose(HubModel(REPO, quant="Q4_0"), files("small-Q4_0.gguf", "large-Q4_0.gguf"))


def test_a_repository_without_models_is_reported() -> None:
    with pytest.raises(HubError, match="no GGUF model"):
        choose(HubModel(REPO), files("model.safetensors", "mmproj-f16.gguf"))


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


def test_draft_layers_are_chosen_as_a_draft_from_a_repository_of_their_own() -> None:
    heads = files("Qwen3-8B-EAGLE3-Q8_0.gguf", "Qwen3-8B-EAGLE3-Q4_K_M.gguf")
    assert choose(HubModel(REPO), heads, draft=True).name == "Qwen3-8B-EAGLE3-Q8_0.gguf"
    with pytest.raises(HubError, match="holds no GGUF model"):
        choose(HubModel(REPO), heads)
    assert models_in([*COMMON_FILES, *heads]) == models_in(COMMON_FILES)


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


def test_draft_blocks_are_found_beside_their_target() -> None:
    found = files("Q-Q8_0.gguf", "dflash-Q-Q8_0.gguf", "Q-DFlash2-Q4_0.gguf", "dspark-Q-Q8_0.gguf")
    assert [model.name for model in models_in(found)] == ["Q-Q8_0.gguf"]
    assert len(draft_layers(found)) == 3


def test_a_model_with_an_mtp_layer_is_a_model_and_the_layer_alone_is_none() -> None:
    names = [model.name for model in models_in(files("Qwen3.5-9B-MTP-Q4_K_M.gguf", "mtp-gemma-4.gguf"))]
    assert names == ["Qwen3.5-9B-MTP-Q4_K_M.gguf"]
    mixed = files("Qwen3.5-9B-Q4_K_M.gguf", "MTP/mtp-Qwen3.5-9B-F16.gguf", "MTP/mtp-Qwen3.5-9B-Q8_0.gguf")
    assert [model.quant for model in draft_layers(mixed)] == ["Q8_0", "F16"]
    assert choose(HubModel(REPO), mixed[1:], draft=True).quant == "Q8_0"
    assert choose(HubModel(REPO), mixed, draft=True).quant == "Q4_K_M"


def test_the_mtp_layer_at_the_root_comes_before_those_in_a_folder() -> None:
    layers = ("MTP/gemma-4-12B-it-Q8_0-MTP.gguf", "MTP/gemma-4-12B-it-BF16-MTP.gguf", "mtp-gemma-4-12B-it.gguf")
    found = files("gemma-4-12B-it-qat-UD-Q4_K_XL.gguf", *layers)
    assert [model.name for model in models_in(found)] == ["gemma-4-12B-it-qat-UD-Q4_K_XL.gguf"]
    assert [model.name for model in draft_layers(found)] == [layers[2], layers[0], layers[1]]
