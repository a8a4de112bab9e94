"""`tandem pairs check --all` against a hub whose files are gone, changed, newer or renamed."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.models.catalog import Catalog, Pair, shipped_file
from app.models.source import HubModel
from tests.cli.json_keys import CATALOG_CHECK
from tests.models.hub.faults import Status
from tests.models.hub.loopback import LoopbackHub
from tests.tandem import Tandem

CHECK = ["pairs", "check", "--all"]
NAMES = ("same", "newer", "replaced", "moved", "rewritten", "removed", "wrong", "page", "sized")


@pytest.fixture
def entries(hub: LoopbackHub, home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Pair]:
    """One pair for each repository of the hub, as the catalog names it."""
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
    hub.replace("owner/newer-GGUF", "newer-Q4_K_M.gguf", b"GGUF another")
    hub.add("owner/replaced-GGUF", {"replaced-v2-Q4_K_M.gguf": b"GGUF another"})
    hub.rename("owner/moved-GGUF", "other/moved-GGUF")
    rewritten = hub.repos["owner/rewritten-GGUF"]
    rewritten.change({"README.md": b"x"})
    rewritten.forget(next(iter(rewritten.commits)))
    del hub.repos["owner/removed-GGUF"]
    entries["wrong"] = _target(entries["wrong"], sha256="0" * 64)
    entries["sized"] = _target(entries["sized"], size=7)
    entries["page"] = _target(entries["page"], sha256=None, size=None)
    hub.replace("owner/page-GGUF", "page-Q4_K_M.gguf", b"<html>")
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
    hub.replace("owner/newer-GGUF", "newer-Q4_K_M.gguf", b"GGUF another")

    found = tandem(*CHECK, "--json").json
    assert all(tuple(one) == CATALOG_CHECK for one in found)
    assert {one["pairs"][0] for one in found if one["state"] != "unchanged"} == {"newer"}
    ranges = hub.asked(origin="cdn")
    assert len(ranges) == len(NAMES)
    assert {request.sent for request in ranges} == {4}, "no file is downloaded"


@pytest.mark.parametrize("fails", ["files", "refusal"])
def test_what_could_not_be_asked_is_not_called_gone(
    hub: LoopbackHub, entries: dict[str, Pair], tandem: Tandem, fails: str
) -> None:
    if fails == "files":
        hub.faults.add(Status(403), origin="cdn", times=None)
    else:
        hub.faults.add(Status(451), "/api/*", times=None)

    assert set(_states(tandem).values()) == {"unknown"}


@pytest.mark.parametrize("words", [["pairs", "check"], [*CHECK, "demo"]])
def test_all_or_a_name_is_checked(words: list[str], tandem: Tandem) -> None:
    assert "--all" in tandem(*words, code=2).err
