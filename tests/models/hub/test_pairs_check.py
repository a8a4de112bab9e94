"""Incompatible models, and `tandem pairs check --all` against a hub whose files changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.models.catalog import Catalog, Pair, shipped_file
from app.models.hub import cache
from app.models.source import HubModel
from tests.cli.json_keys import CATALOG_CHECK
from tests.llama.gguf_files import I32, STRING, Array
from tests.models.hub.faults import status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, tiny
from tests.tandem import Tandem

pytestmark = pytest.mark.usefixtures("home")

CHECK = ["pairs", "check", "--all"]
NAMES = ("same", "newer", "replaced", "moved", "rewritten", "removed", "wrong", "page", "sized")


@pytest.fixture
def entries(hub: LoopbackHub, home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Pair]:
    """One pair for each repository of the hub, in the catalog's names."""
    pairs = {}
    for name in NAMES:
        content = b"GGUF" + name.encode() * 100
        repo = hub.add(f"owner/{name}-GGUF", {f"{name}-Q4_K_M.gguf": content})
        [file] = repo.files.values()
        source = HubModel(repo.name, None, file.path, repo.resolve("main") or "", file.size, file.sha256)
        pairs[name] = Pair(name, name.title(), source, None)

    def known() -> Catalog:
        found = Catalog(shipped_file())
        found.pairs, found.unread = pairs, None
        return found

    monkeypatch.setattr("app.cli.pairs_check.catalog", known)
    return pairs


def _target(pair: Pair, **changes: object) -> Pair:
    assert isinstance(pair.target, HubModel)
    return replace(pair, target=replace(pair.target, **changes))  # type: ignore[arg-type]


def _states(tandem: Tandem) -> dict[str, str]:
    return {one["pairs"][0]: one["state"] for one in tandem(*CHECK, "--json", code=1).json}


def test_what_differs_is_listed_by_urgency(hub: LoopbackHub, entries: dict[str, Pair], tandem: Tandem) -> None:
    hub.repos["owner/newer-GGUF"].change({"newer-Q4_K_M.gguf": b"GGUF another"})
    hub.add("owner/replaced-GGUF", {"replaced-v2-Q4_K_M.gguf": b"GGUF another"})
    hub.rename("owner/moved-GGUF", "other/moved-GGUF")
    rewritten = hub.repos["owner/rewritten-GGUF"]
    rewritten.change({"README.md": b"x"})
    del rewritten.commits[next(iter(rewritten.commits))]
    del hub.repos["owner/removed-GGUF"]
    entries["wrong"] = _target(entries["wrong"], sha256="0" * 64)
    entries["sized"] = _target(entries["sized"], size=7)
    entries["page"] = _target(entries["page"], sha256=None, size=None)
    hub.repos["owner/page-GGUF"].change({"page-Q4_K_M.gguf": b"<html>"})
    entries["page"] = _target(entries["page"], revision="main")

    assert _states(tandem) == {
        **dict.fromkeys(("removed", "replaced", "rewritten"), "gone"),
        **dict.fromkeys(("wrong", "sized", "page"), "changed"),
        "newer": "newer",
        "moved": "renamed",
        "same": "unchanged",
    }

    out = tandem(*CHECK, code=1).out
    said = " ".join(out.split())
    assert "renamed moved: owner/moved-GGUF:moved-Q4_K_M.gguf: The" in said
    assert "The repository is other/moved-GGUF now." in said
    assert "It has 504 bytes; the catalog says 7." in said
    assert "same:" not in said
    assert "9 files: 1 unchanged, 1 renamed, 1 newer, 3 changed, 3 gone; 8 with a checksum" in said
    assert out.index("gone ") < out.index("changed ") < out.index("newer ") < out.index("renamed ")


def test_a_catalog_without_differences_passes(hub: LoopbackHub, entries: dict[str, Pair], tandem: Tandem) -> None:
    hub.repos["owner/newer-GGUF"].change({"newer-Q4_K_M.gguf": b"GGUF another"})

    found = tandem(*CHECK, "--json").json
    assert all(tuple(one) == CATALOG_CHECK for one in found)
    assert {one["pairs"][0] for one in found if one["state"] != "unchanged"} == {"newer"}
    ranges = hub.asked(origin="cdn")
    assert len(ranges) == len(NAMES)
    assert {request.sent for request in ranges} == {4}, "no file is downloaded"


def test_a_projector_that_is_no_model_file_is_named(hub: LoopbackHub, entries: dict[str, Pair], tandem: Tandem) -> None:
    name = NAMES[0]
    files = {f"{name}-Q4_K_M.gguf": b"GGUF", "mmproj-F16.gguf": b"<html>"}
    repo = hub.add(f"owner/with-{name}-GGUF", files)
    file = repo.files[f"{name}-Q4_K_M.gguf"]
    source = HubModel(repo.name, None, file.path, repo.resolve("main") or "", file.size, file.sha256)
    entries[name] = Pair(name, name.title(), source, None)
    assert "mmproj-F16.gguf is not a GGUF file." in tandem(*CHECK, code=1).out


def test_an_unreachable_hub_is_one_sentence(hub: LoopbackHub, entries: dict[str, Pair], tandem: Tandem) -> None:
    hub.close()
    out, err = tandem(*CHECK, code=1)

    assert (out, err.count("cannot be reached")) == ("", 1)


@pytest.mark.parametrize("fails", ["files", "refusal"])
def test_what_could_not_be_asked_is_not_called_gone(
    hub: LoopbackHub, entries: dict[str, Pair], tandem: Tandem, fails: str
) -> None:
    if fails == "files":
        hub.faults.add(status(403), origin="cdn", times=None)
    else:
        hub.faults.add(status(451), "/api/*", times=None)

    assert set(_states(tandem).values()) == {"unknown"}


@pytest.mark.parametrize("words", [["pairs", "check"], [*CHECK, "demo"]])
def test_all_or_a_name_is_checked(words: list[str], tandem: Tandem) -> None:
    assert "--all" in tandem(*words, code=2).err


STUCK, KEEPING, MUTE = "owner/stuck-GGUF", "owner/keeping-GGUF", "owner/mute-GGUF"
"""Models whose recurrent state cannot be rolled back, as target and as draft, and a model without a vocabulary."""
NO_DRAFT = f"Use it without a draft: tandem setup --target {STUCK}"
OTHER_DRAFT = f"Choose another draft, or none: tandem pairs find {TARGET}"
OTHER_TARGET = "Choose another target, or a recommended pair: tandem pairs list"


@pytest.fixture
def models(pair: LoopbackHub, tmp_path: Path) -> LoopbackHub:
    for repo, changes in (
        (STUCK, {"general__architecture": "mamba"}),
        (KEEPING, {"general__architecture": "lfm2"}),
        (MUTE, {"tokenizer__ggml__tokens": Array(STRING, []), "tokenizer__ggml__token_type": Array(I32, [])}),
    ):
        pair.add(repo, {"m-Q4_0.gguf": tiny(tmp_path / repo, "m.gguf", **changes)})
    return pair


@pytest.mark.parametrize(
    ("target", "draft", "helps"),
    [
        (TARGET, "owner/other-GGUF", OTHER_DRAFT),
        (TARGET, KEEPING, OTHER_DRAFT),
        (STUCK, DRAFT, NO_DRAFT),
        (STUCK, "owner/other-GGUF", NO_DRAFT),
        (MUTE, DRAFT, OTHER_TARGET),
    ],
)
def test_the_fix_for_incompatible_models_is_shown(
    models: LoopbackHub, tandem: Tandem, target: str, draft: str, helps: str
) -> None:
    assert helps in tandem("setup", "--target", target, "--draft", draft, "--yes", code=1).sentences
    assert helps in " ".join(tandem("pairs", "check", target, draft, code=1).out.split())
    assert tandem("pairs", "check", target, draft, "--json", code=1).json["compatible"] is False
    assert not list(cache.folder().rglob("*.gguf"))


def test_find_refuses_a_target_without_rollback(models: LoopbackHub, tandem: Tandem) -> None:
    said = tandem("pairs", "find", STUCK, code=1).sentences
    assert "m cannot use a draft model" in said
    assert NO_DRAFT in said
    assert not models.asked("/api/models")


@pytest.mark.parametrize(
    ("target", "alone"), [(TARGET, "N-gram drafting needs no draft model"), (KEEPING, "It works without a draft")]
)
def test_where_no_draft_is_found_the_target_alone_is_named(
    models: LoopbackHub, tandem: Tandem, target: str, alone: str
) -> None:
    said = tandem("pairs", "find", target, code=1).sentences
    assert "No draft with the vocabulary of" in said
    assert f"{alone}: tandem setup --target {target}" in said
