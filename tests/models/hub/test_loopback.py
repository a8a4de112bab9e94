"""The real client works against the loopback hub, and raises there what it raises against the real one."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import (
    HfApi,
    HfFileSystem,
    constants,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    list_models,
    model_info,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    LocalEntryNotFoundError,
)
from huggingface_hub.hf_api import RepoFile, RepoFolder

from tests.models.hub.content import HOSTILE_NAMES, HubFile, HubRepo
from tests.models.hub.faults import Drip, Stall
from tests.models.hub.loopback import LoopbackHub

MODEL = bytes(range(256)) * 400
README = b"# Tiny\n" * 300
SHA256 = hashlib.sha256(MODEL).hexdigest()
NAME = "owner/tiny-GGUF"
FILES = {"tiny-Q4_0.gguf": MODEL, "README.md": README, "config.json": b"{}", "sub/deep/part.gguf": MODEL[:1000]}


@pytest.fixture
def repo(hub: LoopbackHub) -> HubRepo:
    return hub.add(NAME, FILES, licence="apache-2.0", downloads=7)


def test_an_lfs_file_ends_up_in_the_cache_as_from_the_real_hub(repo: HubRepo, hub: LoopbackHub) -> None:
    path = Path(hf_hub_download(NAME, "tiny-Q4_0.gguf"))

    folder = Path(constants.HF_HUB_CACHE) / "models--owner--tiny-GGUF"
    assert path == folder / "snapshots" / repo.commit / "tiny-Q4_0.gguf"
    assert path.resolve() == folder / "blobs" / SHA256
    assert path.read_bytes() == MODEL
    assert (folder / "refs" / "main").read_text() == repo.commit
    assert [(r.origin, r.method, r.status) for r in hub.asked("*.gguf")] == [
        ("hub", "HEAD", 302),
        ("hub", "GET", 302),
        ("cdn", "GET", 200),
    ]
    assert hub.asked(origin="cdn")[0].sent == len(MODEL)


def test_a_small_file_comes_by_way_of_resolve_cache(repo: HubRepo, hub: LoopbackHub) -> None:
    path = Path(hf_hub_download(NAME, "README.md"))

    assert path.read_bytes() == README
    assert path.resolve().name == hashlib.sha1(b"blob %d\0" % len(README) + README).hexdigest()
    assert [r.status for r in hub.asked("README.md", method="HEAD")] == [307, 200]
    assert all(r.origin == "hub" for r in hub.asked())


def test_a_file_already_there_is_not_fetched_again(repo: HubRepo, hub: LoopbackHub) -> None:
    first = hf_hub_download(NAME, "tiny-Q4_0.gguf")
    fetched = len(hub.asked(method="GET"))

    assert hf_hub_download(NAME, "tiny-Q4_0.gguf", revision=repo.commit) == first
    assert hf_hub_download(NAME, "tiny-Q4_0.gguf") == first
    assert len(hub.asked(method="GET")) == fetched


def test_a_replaced_file_is_a_new_commit_and_the_old_one_stays(repo: HubRepo, hub: LoopbackHub) -> None:
    old = repo.commit
    hub.replace(NAME, "tiny-Q4_0.gguf", b"other")

    assert Path(hf_hub_download(NAME, "tiny-Q4_0.gguf")).read_bytes() == b"other"
    assert Path(hf_hub_download(NAME, "tiny-Q4_0.gguf", revision=old)).read_bytes() == MODEL
    assert repo.commit != old


def test_metadata_is_read_from_the_redirect(repo: HubRepo, hub: LoopbackHub) -> None:
    told = get_hf_file_metadata(hf_hub_url(NAME, "tiny-Q4_0.gguf"))

    assert (told.commit_hash, told.etag, told.size) == (repo.commit, SHA256, len(MODEL))
    assert told.location.startswith(hub.cdn_endpoint)
    assert told.xet_file_data is not None


def test_the_cdn_calls_a_file_by_another_hash_than_the_hub(repo: HubRepo) -> None:
    answer = httpx2.get(hf_hub_url(NAME, "tiny-Q4_0.gguf"), follow_redirects=True)

    assert answer.content == MODEL
    assert len(answer.headers["etag"].strip('"')) == 64
    assert SHA256 not in answer.headers["etag"]


def test_model_info_lists_files_with_their_hashes(repo: HubRepo) -> None:
    told = model_info(NAME, files_metadata=True)

    assert told.sha == repo.commit
    assert told.gguf == {"total": len(MODEL), "architecture": "llama", "context_length": 2048}
    assert told.gated is False
    assert told.tags == ["gguf", "license:apache-2.0"]
    assert told.siblings is not None
    files = {s.rfilename: s for s in told.siblings}
    model, config = files["tiny-Q4_0.gguf"], files["config.json"]
    assert model.lfs is not None
    assert (model.size, model.lfs.sha256, model.lfs.pointer_size) == (len(MODEL), SHA256, 131)
    assert (config.size, config.lfs) == (2, None)
    assert [s.size for s in model_info(NAME).siblings or []] == [None] * 4
    assert model_info(NAME, revision=repo.commit[:7]).sha == repo.commit
    assert model_info(NAME, expand=["gguf"]).siblings is None


@pytest.mark.parametrize("page_size", [None, 1, 2])
def test_a_tree_is_listed_page_by_page(repo: HubRepo, hub: LoopbackHub, page_size: int | None) -> None:
    hub.page_size = page_size
    top = list(HfApi().list_repo_tree(NAME))
    every = {item.path: item for item in HfApi().list_repo_tree(NAME, recursive=True, expand=True)}

    assert [item.path for item in top] == ["README.md", "config.json", "sub", "tiny-Q4_0.gguf"]
    assert sorted(every) == sorted([*FILES, "sub", "sub/deep"])
    model = every["tiny-Q4_0.gguf"]
    assert isinstance(model, RepoFile)
    assert model.lfs is not None
    assert model.lfs.sha256 == SHA256
    assert model.last_commit is not None
    assert isinstance(every["sub/deep"], RepoFolder)
    assert [item.path for item in HfApi().list_repo_tree(NAME, "sub/deep")] == ["sub/deep/part.gguf"]
    with pytest.raises(EntryNotFoundError):
        list(HfApi().list_repo_tree(NAME, "nowhere"))


def test_paths_and_branches_can_be_asked_for(repo: HubRepo) -> None:
    assert [item.path for item in HfApi().get_paths_info(NAME, ["config.json", "sub", "no"])] == ["config.json", "sub"]
    assert [branch.target_commit for branch in HfApi().list_repo_refs(NAME).branches] == [repo.commit]
    assert HfApi().file_exists(NAME, "config.json")
    assert not HfApi().file_exists(NAME, "no.json")


def test_models_are_found_by_word_format_and_author(repo: HubRepo, hub: LoopbackHub) -> None:
    hub.add("owner/tiny", {"model.safetensors": b"0"}, downloads=9)
    hub.add("other/tiny-coder-GGUF", FILES, downloads=8, gated="manual")
    hub.add("owner/hidden-tiny-GGUF", FILES, private=True)

    assert [m.id for m in list_models(search="Tiny", filter="gguf", sort="downloads")] == [
        "other/tiny-coder-GGUF",
        NAME,
    ]
    assert [m.id for m in list_models(search="tiny", author="owner", sort="downloads", limit=1)] == ["owner/tiny"]
    assert [m.id for m in list_models(gated=True)] == ["other/tiny-coder-GGUF"]
    assert list(list_models(search="nothing")) == []
    hub.page_size = 1
    assert len(list(list_models())) == 3
    found = next(iter(islice(list_models(author="other", expand=["gguf", "gated", "downloads"]), 1)))
    assert (found.gated, found.downloads) == ("manual", 8)
    assert found.gguf is not None


def test_a_file_can_be_read_in_ranges(repo: HubRepo, hub: LoopbackHub) -> None:
    with HfFileSystem().open(f"{NAME}/tiny-Q4_0.gguf", "rb", block_size=1024) as file:
        file.seek(5000)
        assert file.read(10) == MODEL[5000:5010]
    (part,) = hub.asked(origin="cdn")
    assert part.status == 206
    assert part.sent < len(MODEL)


@pytest.mark.parametrize(
    ("asked", "status", "told", "body"),
    [
        ("bytes=0-0", 206, f"bytes 0-0/{len(MODEL)}", MODEL[:1]),
        ("bytes=5-9", 206, f"bytes 5-9/{len(MODEL)}", MODEL[5:10]),
        ("bytes=102000-", 206, f"bytes 102000-{len(MODEL) - 1}/{len(MODEL)}", MODEL[102000:]),
        ("bytes=-3", 206, f"bytes {len(MODEL) - 3}-{len(MODEL) - 1}/{len(MODEL)}", MODEL[-3:]),
        ("bytes=5-999999999", 206, f"bytes 5-{len(MODEL) - 1}/{len(MODEL)}", MODEL[5:]),
        ("bytes=102400-", 416, f"bytes */{len(MODEL)}", None),
        ("bytes=9-5", 200, None, MODEL),
        ("bytes=0-1,4-5", 200, None, MODEL),
        ("lines=1-2", 200, None, MODEL),
    ],
    ids=lambda value: value if isinstance(value, str) and "=" in value else "",
)
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_range_is_answered_as_the_hub_does(
    hub: LoopbackHub, tmp_path: Path, asked: str, status: int, told: str | None, body: bytes | None, on_disk: bool
) -> None:
    (tmp_path / "model").write_bytes(MODEL)
    hub.add(NAME, {"model.gguf": tmp_path / "model" if on_disk else MODEL})
    url = hf_hub_url(NAME, "model.gguf")

    answer = httpx2.get(url, headers={"Range": asked}, follow_redirects=True)
    assert (answer.status_code, answer.headers.get("content-range")) == (status, told)
    assert body is None or answer.content == body
    head = httpx2.head(url, headers={"Range": asked}, follow_redirects=True)
    assert (head.status_code, head.content) == (status, b"")
    assert head.headers["content-length"] == answer.headers["content-length"]


def test_a_range_holds_only_while_the_file_is_the_same(repo: HubRepo) -> None:
    url = hf_hub_url(NAME, "tiny-Q4_0.gguf")
    etag = httpx2.head(url, follow_redirects=True).headers["etag"]

    def status(**headers: str) -> int:
        return httpx2.get(url, headers=headers, follow_redirects=True).status_code

    assert status(Range="bytes=1-2", **{"If-Range": etag}) == 206
    assert status(Range="bytes=1-2", **{"If-Range": '"older"'}) == 200
    assert status(**{"If-None-Match": etag}) == 304


def test_an_old_name_leads_to_the_new_one(repo: HubRepo, hub: LoopbackHub) -> None:
    hub.moved["old/name"] = NAME

    assert model_info("old/name").id == NAME
    assert model_info(NAME.upper()).id == NAME
    assert Path(hf_hub_download("old/name", "config.json")).read_bytes() == b"{}"


def test_an_expired_address_is_refused(repo: HubRepo, hub: LoopbackHub) -> None:
    location = get_hf_file_metadata(hf_hub_url(NAME, "tiny-Q4_0.gguf")).location
    hub.expire_links()

    assert httpx2.get(location).status_code == 403
    assert httpx2.get(hf_hub_url(NAME, "tiny-Q4_0.gguf"), follow_redirects=True).content == MODEL


def test_text_comes_compressed_to_those_who_take_it(repo: HubRepo) -> None:
    url = hf_hub_url(NAME, "README.md")
    packed = httpx2.get(url, follow_redirects=True)
    plain = httpx2.get(url, headers={"Accept-Encoding": "identity"}, follow_redirects=True)

    assert packed.content == plain.content == README
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-length" not in packed.headers
    assert int(plain.headers["content-length"]) == len(README)


def test_hostile_names_are_listed_as_they_are(hub: LoopbackHub) -> None:
    hub.add(NAME, dict.fromkeys(HOSTILE_NAMES, b"x"))

    assert {s.rfilename for s in model_info(NAME, files_metadata=True).siblings or []} == set(HOSTILE_NAMES)
    listed = {item.path for item in HfApi().list_repo_tree(NAME, recursive=True) if isinstance(item, RepoFile)}
    assert listed == set(HOSTILE_NAMES)


def test_a_listing_of_a_hundred_thousand_files(hub: LoopbackHub) -> None:
    hub.add(NAME, {f"part-{n:06d}.gguf": b"" for n in range(100_000)})

    assert len(model_info(NAME).siblings or []) == 100_000
    assert len(list(islice(HfApi().list_repo_tree(NAME, recursive=True), 2500))) == 2500
    assert len(hub.asked("*/tree/*")) == 3


def test_a_large_file_is_served_from_disk(hub: LoopbackHub, tmp_path: Path) -> None:
    size = 64 * 1024 * 1024
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    hub.add(NAME, {"large.gguf": HubFile("large.gguf", tmp_path / "large", known_sha256="0" * 64)})

    with httpx2.stream("GET", hf_hub_url(NAME, "large.gguf"), follow_redirects=True) as answer:
        assert sum(len(piece) for piece in answer.iter_raw()) == size
    assert hub.asked(origin="cdn")[0].sent == size


def test_offline_asks_nobody(hub: LoopbackHub, repo: HubRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(LocalEntryNotFoundError):
        hf_hub_download(NAME, "config.json")
    assert hub.asked() == []


def test_nothing_is_left_running() -> None:
    def ours() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.endswith(("acceptor", "connection"))]

    with LoopbackHub() as hub, httpx2.Client() as client:
        hub.add(NAME, FILES)
        assert client.get(f"{hub.endpoint}/api/models/{NAME}").status_code == 200
        assert sorted(ours()) == ["cdn acceptor", "hub acceptor", "hub connection"]
    assert ours() == []
    assert hub.errors == []


def test_a_hub_that_closes_lets_go_of_everything() -> None:
    with ThreadPoolExecutor(2) as pool:
        with LoopbackHub() as own:
            own.add(NAME, {"model.gguf": MODEL})
            stall = own.faults.add(Stall(10), origin="cdn", times=None)
            own.faults.add(Drip(10), "/api/models")
            paths = (f"{NAME}/resolve/main/model.gguf", "api/models")
            answers = [pool.submit(httpx2.get, f"{own.endpoint}/{path}", follow_redirects=True) for path in paths]
            assert stall.reached.wait(10)
            own.journal.wait(lambda requests: any(r.path == "/api/models" and r.held for r in requests))
        for answer in answers:
            answer.exception(10)
    assert not [t for t in threading.enumerate() if t.name.endswith(("acceptor", "connection"))]
