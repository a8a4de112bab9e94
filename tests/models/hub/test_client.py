"""Absurd answers of a hub are errors: no path leaves its folder, no wait takes years, nothing crashes."""

import copy
import errno
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.utils import validate_repo_id

from app.core.errors import CacheError, HubError
from app.models.hub import cache
from app.models.hub.cache import cached_file
from app.models.hub.choose import safe_name
from app.models.hub.client import repository, search
from app.models.resolve import facts_of, resolve
from app.models.source import HubModel, is_repository
from tests.models.hub.faults import Fault, bad_json, edit_json
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import TARGET, Watched, no_demo, publish, tiny

NAME = "big-Q4_K_M.gguf"


def files_changed(**fields: Any) -> Fault:
    """Return a listing with other fields in every file."""

    def edit(listing: dict[str, Any]) -> dict[str, Any]:
        listing = copy.deepcopy(listing)
        for file in listing["siblings"]:
            file.pop("lfs", None)
            file.pop("blobId", None)
            file.update(fields)
        return listing

    return edit_json(edit)


def test_an_endless_answer_is_refused(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.models.hub.client._MAX_BYTES", 1 << 20)
    hub.add(TARGET, {"m.gguf": b"x"})
    hub.faults.add(bad_json("[" + "1," * (4 << 20)), "/api/*", times=None)

    with pytest.raises(HubError, match="too large a response"):
        repository(TARGET, "main")
    with pytest.raises(HubError, match="too large a response"):
        search("x", limit=3)


@pytest.mark.parametrize("name", ["a--b", "a..b", "x.git", "a b", "a-", "-a", ".a", "\xe9", "a" * 97])
def test_a_name_refused_by_the_client_is_reported(hub: LoopbackHub, name: str) -> None:
    source = HubModel(f"owner/{name}", file=NAME)

    assert not is_repository(source.repo)
    with pytest.raises(HubError, match="not a valid repository name"):
        resolve(source, no_demo, Watched())
    assert cached_file(source) is None
    assert not hub.requests


@pytest.mark.parametrize("name", ["a", "a-b.c_d", "_a_", "a.gitb", "a" * 96])
def test_a_name_accepted_by_the_client_is_valid(name: str) -> None:
    validate_repo_id(f"{name}/{name}")
    assert is_repository(f"{name}/{name}")


@pytest.mark.parametrize(
    "told", [{}, *({"lfs": {"sha256": sha256}} for sha256 in (5, "a" * 5000, "../../x", "", "\xe9"))]
)
def test_a_file_without_a_checksum_is_an_error(hub: LoopbackHub, tmp_path: Path, told: dict[str, Any]) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path)})
    hub.faults.add(files_changed(**told), "/api/*", times=None)
    found = resolve(HubModel(TARGET, file=NAME), no_demo, Watched())

    assert facts_of(found, Watched()).architecture == "llama"
    with pytest.raises(HubError, match="sends no checksum"):
        cache.missing_bytes(found.files[0])
    with pytest.raises(HubError, match="sends no checksum"):
        Watched().fetch(found.files[0])


def test_names_that_windows_cannot_have_are_left_out_there(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["aux.gguf", "CON", "a/nul.gguf", "what?.gguf", "end."]
    assert all(map(safe_name, names))

    monkeypatch.setattr(sys, "platform", "win32")

    assert not any(map(safe_name, names))
    assert safe_name("quants/auxiliary-00001-of-00002.gguf")


HOSTILE_NAMES = (
    "../../x.gguf",
    "a/../../../x.gguf",
    "/etc/x.gguf",
    "..\\..\\x.gguf",
    "C:\\x.gguf",
    "a//b.gguf",
    "./x.gguf",
    "line\nbreak.gguf",
    "\x1b[2J\x1b]0;title\x07.gguf",
    "nul\x00.gguf",
    "right-to-left-\u202efugg.gguf",
    "lone-surrogate-\ud800.gguf",
    "x" * 300 + ".gguf",
    "\xe9" * 150 + ".gguf",
    "a/" * 600 + "x.gguf",
    "",
)


def test_a_listing_with_hostile_names_gives_only_the_safe_ones(hub: LoopbackHub) -> None:
    hub.add(TARGET, {**dict.fromkeys(HOSTILE_NAMES, b"x"), "good-Q4_0.gguf": b"x", "sub/good-Q8_0.gguf": b"x"})

    listed = {file.path for file in repository(TARGET, "main").files}
    assert listed == {"good-Q4_0.gguf", "sub/good-Q8_0.gguf"}


@pytest.mark.parametrize(("name", "is_here"), [("x.gguf", True), ("../../../x.gguf", False), ("../abc/x.gguf", False)])
def test_a_name_in_a_catalog_does_not_lead_out_of_its_repository(hub: LoopbackHub, name: str, *, is_here: bool) -> None:
    repo = cache.folder() / "models--owner--big-GGUF"
    for folder in (repo / "refs", repo / "snapshots" / "abc"):
        folder.mkdir(parents=True)
    (repo / "refs" / "main").write_text("abc")
    for place in (cache.folder(), repo / "snapshots" / "abc"):
        (place / "x.gguf").touch()

    assert (cached_file(HubModel(TARGET, file=name)) is not None) is is_here


def test_a_cache_that_may_not_be_looked_at_is_an_error(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    file = publish(hub)

    def refuse(self: Path, *_: object, **__: object) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(CacheError):
        cache.missing_bytes(file)
    with pytest.raises(CacheError):
        cache.free_bytes()
