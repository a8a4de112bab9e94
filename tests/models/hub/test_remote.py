"""Listings and headers from the hub, hostile ones too."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_api

from app.core.errors import HubError, Interrupted, ModelFileError, UnreachableError, UsageError, WaitError
from app.models.catalog import Pair
from app.models.find_drafts import find_drafts
from app.models.hub.client import repository, safe_name, search
from app.models.hub.download import DownloadRequest, fetch
from app.models.hub.header import read_remote_header
from app.models.hub.request import UNWATCHED, RetryPolicy
from app.models.resolve import facts_of, resolve
from app.models.source import HubModel, LocalModel
from tests.models.hub.content import HOSTILE_NAMES
from tests.models.hub.faults import (
    BadJson,
    CaptivePortal,
    Cut,
    Drop,
    EditJson,
    Fault,
    IgnoreRange,
    Status,
    rate_limited,
)
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, RETRY, TARGET, no_demo, tiny


def header_of(name: str) -> Any:
    listed = repository(TARGET, "main")
    file = next(file for file in listed.files if file.path == name)
    return read_remote_header(TARGET, listed.commit, file, RETRY)


def test_a_header_costs_a_few_megabytes_of_a_large_file(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"big-Q8_0.gguf": tiny(tmp_path) + bytes(40 << 20)})

    header = header_of("big-Q8_0.gguf")

    assert header.architecture == "llama"
    assert header.n_parameters
    assert sum(r.sent for r in hub.asked(origin="cdn")) < 12 << 20


@pytest.mark.parametrize("fault", [IgnoreRange(), Drop(), Cut(100), Status(503)])
def test_a_header_survives_a_bad_moment(hub: LoopbackHub, tmp_path: Path, fault: Any) -> None:
    hub.add(TARGET, {"m.gguf": tiny(tmp_path)})
    hub.faults.add(fault, "m.gguf", origin="cdn", times=1)

    assert header_of("m.gguf").architecture == "llama"


def test_what_is_no_model_is_told_before_it_is_downloaded(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"page.gguf": b"<html>" * 1000, "cut.gguf": tiny(tmp_path)[:900]})

    with pytest.raises(HubError, match="not a GGUF model"):
        header_of("page.gguf")
    with pytest.raises(HubError, match="ends inside its header"):
        header_of("cut.gguf")


def test_facts_are_the_same_from_the_hub_and_from_the_disk(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"tiny.gguf": tiny(tmp_path)}, licence="mit")

    remote = resolve(HubModel(TARGET), no_demo)
    local = resolve(LocalModel(tmp_path / "tiny.gguf"), no_demo)

    assert (remote.licence, remote.path, remote.missing_bytes) == ("mit", None, remote.size)
    assert facts_of(remote, RETRY) == facts_of(local, RETRY)


@pytest.mark.parametrize(
    "name",
    [
        "../x.gguf",
        "a//b.gguf",
        "./x.gguf",
        "x" * 300 + ".gguf",
        "a\\b.gguf",
        "C:x.gguf",
        "/etc/passwd",
        "a/../b.gguf",
        "x\n.gguf",
        "",
    ],
)
def test_names_that_could_leave_the_folder_are_not_safe(name: str) -> None:
    assert not safe_name(name)


def test_a_listing_with_hostile_names_gives_only_the_safe_ones(hub: LoopbackHub) -> None:
    hub.add(TARGET, {**dict.fromkeys(HOSTILE_NAMES, b"x"), "good-Q4_0.gguf": b"x", "sub/good-Q8_0.gguf": b"x"})

    listed = {file.path for file in repository(TARGET, "main").files}
    assert listed >= {"good-Q4_0.gguf", "sub/good-Q8_0.gguf"}
    inside = Path("/cache/blobs")
    assert all((inside / path).resolve().is_relative_to(inside) and path.isprintable() for path in listed)


@pytest.mark.parametrize(
    "fault",
    [
        BadJson(),
        BadJson("[]"),
        BadJson("null"),
        BadJson('{"siblings": 5, "id": "a/b"}'),
        BadJson('{"id": "a/b", "sha": null, "siblings": []}'),
        BadJson('{"id": "a/b", "sha": "../../x", "siblings": []}'),
        CaptivePortal(),
        EditJson(lambda found: {**found, "siblings": [{"rfilename": 5, "size": "x"}, {"rfilename": "a.gguf"}]}),
        EditJson(lambda found: {**found, "sha": 7}),
    ],
)
def test_an_answer_that_cannot_be_meant_is_a_sentence_and_no_traceback(hub: LoopbackHub, fault: Any) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})
    hub.faults.add(fault, "/api/*", times=None)

    with suppress(HubError):
        assert repository(TARGET, "main").files == ()


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [("owner/nothing", "main", "There is no repository"), (TARGET, "v9", "no such revision")],
)
def test_what_is_not_there_is_told(hub: LoopbackHub, name: str, revision: str, message: str) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})

    with pytest.raises(HubError, match=message):
        repository(name, revision)


def test_a_wrong_token_is_told(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")

    with pytest.raises(HubError, match="does not accept your token") as failed:
        repository(TARGET, "main")
    assert "hf auth login" in failed.value.hint


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_hub_is_a_failure_that_may_pass(hub: LoopbackHub, status: int) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})
    hub.faults.add(Status(status), "/api/*", times=None)

    with pytest.raises(WaitError):
        repository(TARGET, "main")


def test_a_hub_that_cannot_be_found_or_reached_is_told(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for endpoint, message in (("http://127.0.0.1:9", "cannot be reached"), ("http://no.invalid", "cannot be found")):
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(hf_api.api, "endpoint", endpoint)
        with pytest.raises(HubError, match=message):
            repository(TARGET, "main")


def test_a_search_gives_names_sizes_and_architectures(hub: LoopbackHub) -> None:
    hub.add("owner/small-model-GGUF", {"m.gguf": b"x"}, downloads=7, gguf={"architecture": "llama", "total": 12})
    hub.add("owner/other-GGUF", {"m.gguf": b"x"})

    assert [(f.name, f.downloads, f.architecture, f.n_params) for f in search("small-model", limit=5)] == [
        ("owner/small-model-GGUF", 7, "llama", 12)
    ]


@pytest.mark.parametrize("fault", [Drop(), Status(503)])
def test_a_search_that_fails_asks_once_and_is_a_sentence(
    hub: LoopbackHub, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    hub.faults.add(fault, "/api/models", times=None)
    with pytest.raises(HubError):
        list(search("tiny", limit=3))
    assert len(hub.asked("/api/models")) == 1
    assert not caplog.records


def test_drafts_of_the_catalogue_stay_where_the_search_fails(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"big-1b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)})
    hub.add(DRAFT, {"tiny-Q8_0.gguf": tiny(tmp_path)})
    target = facts_of(resolve(HubModel(TARGET), no_demo), RETRY)
    pair = Pair("known", "Known", HubModel(f"owner/{target.name}"), HubModel(DRAFT))
    hub.faults.add(Status(503), "/api/models", times=None)

    assert [one.name for one in find_drafts(target, (pair,), RETRY)] == [DRAFT]
    with pytest.raises(HubError):
        list(find_drafts(target, (), RETRY))


def test_a_relative_of_another_architecture_is_offered_last_and_a_hybrid_never(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    hub.add(TARGET, {"tiny-8b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)}, gguf={"architecture": "x", "total": 9})
    for name, architecture, downloads in (("dense", "qwen3", 9), ("hybrid", "qwen35", 8), ("same", "llama", 1)):
        told = {"architecture": architecture, "total": 1}
        hub.add(f"owner/tiny-{name}-GGUF", {"m.gguf": tiny(tmp_path)}, downloads=downloads, gguf=told)
    target = facts_of(resolve(HubModel(TARGET), no_demo), RETRY)

    offered = [one.name for one in find_drafts(target, (), RETRY)]
    assert offered == ["owner/tiny-same-GGUF", "owner/tiny-dense-GGUF"]


@pytest.mark.parametrize("path", ["/api/models", "/api/models/*"], ids=["search", "listing"])
def test_a_search_and_a_listing_are_asked_for_again_while_the_hub_has_trouble(
    hub: LoopbackHub, tmp_path: Path, path: str
) -> None:
    hub.add(TARGET, {"tiny-8b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)}, gguf={"architecture": "x", "total": 9})
    hub.add(DRAFT.replace("small", "tiny"), {"m.gguf": tiny(tmp_path)}, gguf={"architecture": "llama", "total": 1})
    target = facts_of(resolve(HubModel(TARGET), no_demo), RETRY)
    told: list[str] = []
    for fault in (Status(503), Drop()):
        hub.faults.add(fault, path)

    assert len(list(find_drafts(target, (), RETRY, lambda looking: told.append(looking.line)))) == 1
    assert any("(status 503), again in 1 s" in line for line in told)


def test_what_is_here_is_taken_where_the_hub_goes_on_failing_and_no_network_is_waited_for(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(TARGET, {"m.gguf": tiny(tmp_path)})
    here = resolve(HubModel(TARGET), no_demo)
    path = fetch(DownloadRequest(TARGET, here.commit, here.files[0], UNWATCHED, lambda: False, RETRY))
    here.keep_revision()
    hub.faults.add(Status(503), "/api/*", times=None)
    waited: list[float] = []

    def pause(seconds: float) -> bool:
        waited.append(seconds)
        return False

    found = resolve(HubModel(TARGET, file="m.gguf"), no_demo, retry=RetryPolicy(pause))
    assert found.path == path
    assert found.away is not None
    assert 0 < sum(waited) < 60
    never = RetryPolicy(lambda seconds: pytest.fail("it waits"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hf_api.api, "endpoint", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError):
        resolve(HubModel(TARGET), no_demo, retry=never)


def test_a_hub_that_asks_for_more_patience_than_there_is_is_not_waited_for(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"m.gguf": tiny(tmp_path)})
    here = resolve(HubModel(TARGET), no_demo)
    never = RetryPolicy(lambda seconds: pytest.fail("it waits"))
    hub.faults.add(rate_limited(600, retry_after=True), "/api/*", times=None)
    with pytest.raises(HubError, match="Rate limit reached") as failed:
        resolve(HubModel(TARGET), no_demo, retry=never)
    assert failed.value.hint.endswith("Try again in 10 min to continue.")

    # What is here does as well: then not even a minute is.
    path = fetch(DownloadRequest(TARGET, here.commit, here.files[0], UNWATCHED, lambda: False, RETRY))
    here.keep_revision()
    hub.faults.clear()
    hub.faults.add(rate_limited(55, bucket="api"), "/api/*", times=None)
    found = resolve(HubModel(TARGET, file="m.gguf"), no_demo, retry=never)
    assert found.path == path
    assert found.away is not None


def test_a_local_model_that_is_missing_or_lacks_a_part_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="There is no file"):
        resolve(LocalModel(tmp_path / "none.gguf"), no_demo)
    with pytest.raises(ModelFileError, match="is a folder"):
        resolve(LocalModel(tmp_path), no_demo)
    with pytest.raises(ModelFileError, match="is not a regular file"):
        resolve(LocalModel(Path(os.devnull)), no_demo)
    (tmp_path / "m-00001-of-00002.gguf").touch()
    with pytest.raises(ModelFileError, match="is not beside it"):
        resolve(LocalModel(tmp_path / "m-00001-of-00002.gguf"), no_demo)


def test_a_repository_whose_name_cannot_be_one_is_told(hub: LoopbackHub) -> None:
    with pytest.raises((HubError, UsageError)):
        repository("a--b/c..d", "main")


def test_a_stop_while_it_waits_is_a_stop_and_no_failure(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"m.gguf": tiny(tmp_path)})
    listed = repository(TARGET, "main")
    hub.faults.add(Status(503), "m.gguf", origin="cdn", times=None)

    with pytest.raises(Interrupted):
        read_remote_header(TARGET, listed.commit, listed.files[0], RetryPolicy(lambda seconds: True))
