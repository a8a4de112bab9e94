"""Listings and headers from the hub, over a bad network and hostile ones too."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_api

from app.cli.pairs_check import find_drafts
from app.core.errors import HubError, HubTimeoutError, ModelFileError, UnreachableError
from app.models.catalog import Pair
from app.models.hub.cache import save_revision
from app.models.hub.client import repository, search
from app.models.hub.download import Download
from app.models.progress import HeaderWatcher, Watcher
from app.models.resolve import facts_of, read_remote_header, resolve
from app.models.source import HubModel, LocalModel, parse_source
from tests.llama.tiny_heads import write_gemma4, write_gemma4_mtp
from tests.models.hub.faults import Cut, Stall, ignore_range, rate_limited, status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, Watched, looked_at, no_demo, tiny


class Impatient(Watcher):
    def pause(self, seconds: float) -> None:
        pytest.fail("it waits")


def test_a_search_gives_names_sizes_and_architectures(hub: LoopbackHub) -> None:
    hub.add("owner/small-model-GGUF", {"m.gguf": b"x"}, downloads=7, gguf={"architecture": "llama", "total": 12})
    hub.add("owner/other-GGUF", {"m.gguf": b"x"})

    assert [(f.name, f.architecture, f.n_params) for f in search("small-model", limit=5)] == [
        ("owner/small-model-GGUF", "llama", 12)
    ]


def test_drafts_of_the_catalog_stay_where_the_search_fails(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"big-1b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)})
    hub.add(DRAFT, {"tiny-Q8_0.gguf": tiny(tmp_path)})
    target = facts_of(resolve(HubModel(TARGET), no_demo, Watched()), Watched())
    pair = Pair("known", "Known", HubModel(f"owner/{target.name}"), HubModel(DRAFT))
    hub.faults.add(status(503), "/api/models", times=None)

    assert [one["model"] for one in find_drafts(target, (pair,), Watched())] == [DRAFT]
    with pytest.raises(HubError):
        list(find_drafts(target, (), Watched()))


def test_an_mtp_layer_beside_the_target_is_found(hub: LoopbackHub, tmp_path: Path) -> None:
    target, layer = write_gemma4(tmp_path / "target.gguf"), write_gemma4_mtp(tmp_path / "layer.gguf")
    hub.add(TARGET, {"big-Q8_0.gguf": target.read_bytes(), "mtp-big-Q8_0.gguf": layer.read_bytes()})
    model = resolve(HubModel(TARGET), no_demo, Watched())

    facts = replace(facts_of(model, Watched()), weight_bytes=1 << 30)
    [found] = find_drafts(facts, (), Watched(), model.beside)

    assert (found["model"], found["kind"]) == (f"{TARGET}:mtp-big-Q8_0.gguf", "mtp")
    assert parse_source(found["model"]) == HubModel(TARGET, file="mtp-big-Q8_0.gguf")


def test_drafts_of_another_architecture_come_last_and_hybrids_never(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"tiny-8b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)}, gguf={"architecture": "x", "total": 9})
    for name, architecture, downloads in (("dense", "qwen3", 9), ("hybrid", "qwen35", 8), ("same", "llama", 1)):
        told = {"architecture": architecture, "total": 1}
        hub.add(f"owner/tiny-{name}-GGUF", {"m.gguf": tiny(tmp_path)}, downloads=downloads, gguf=told)
    target = facts_of(resolve(HubModel(TARGET), no_demo, Watched()), Watched())

    offered = [one["model"] for one in find_drafts(target, (), Watched())]
    assert offered == ["owner/tiny-same-GGUF", "owner/tiny-dense-GGUF"]


@pytest.mark.parametrize("path", ["/api/models", "/api/models/*"], ids=["search", "listing"])
def test_searches_and_listings_are_retried(hub: LoopbackHub, tmp_path: Path, path: str) -> None:
    hub.add(TARGET, {"tiny-8b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)}, gguf={"architecture": "x", "total": 9})
    hub.add(DRAFT.replace("small", "tiny"), {"m.gguf": tiny(tmp_path)}, gguf={"architecture": "llama", "total": 1})
    target = facts_of(resolve(HubModel(TARGET), no_demo, Watched()), Watched())
    told: list[str] = []
    for fault in (status(503), Cut()):
        hub.faults.add(fault, path)

    assert len(list(find_drafts(target, (), HeaderWatcher(told.append)))) == 1
    assert any("(status 503), again in 1 s" in line for line in told)


def test_a_downloaded_file_is_used_while_the_hub_fails(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(TARGET, {"m.gguf": tiny(tmp_path)})
    here = resolve(HubModel(TARGET), no_demo, Watched())
    path = Download(here.files[0], Watcher()).run()
    save_revision(TARGET, "main", here.files[0].commit)
    hub.faults.add(status(503), "/api/*", times=None)
    patient = Watched()

    found = resolve(HubModel(TARGET, file="m.gguf"), no_demo, patient)
    assert found.path == path
    assert 0 < sum(patient.pauses) < 60
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hf_api.api, "endpoint", "http://127.0.0.1:9")
    assert resolve(HubModel(TARGET), no_demo, Impatient()).path == path
    with pytest.raises(UnreachableError):
        resolve(HubModel(DRAFT), no_demo, Impatient())


def test_a_wait_longer_than_the_deadline_is_an_error(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"m.gguf": tiny(tmp_path)})
    here = resolve(HubModel(TARGET), no_demo, Watched())
    hub.faults.add(rate_limited(600), "/api/*", times=None)
    with pytest.raises(HubError, match="Rate limit reached") as failed:
        resolve(HubModel(TARGET), no_demo, Impatient())
    assert failed.value.hint.endswith("Try again in 10 min to continue.")

    # A local file is enough; then not even a minute is needed.
    path = Download(here.files[0], Watcher()).run()
    save_revision(TARGET, "main", here.files[0].commit)
    hub.faults.clear()
    hub.faults.add(rate_limited(55), "/api/*", times=None)
    found = resolve(HubModel(TARGET, file="m.gguf"), no_demo, Impatient())
    assert found.path == path


def test_a_local_model_that_is_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="There is no file"):
        resolve(LocalModel(tmp_path / "none.gguf"), no_demo, Watched())
    with pytest.raises(ModelFileError, match="is a folder"):
        resolve(LocalModel(tmp_path), no_demo, Watched())
    with pytest.raises(ModelFileError, match="is not a regular file"):
        resolve(LocalModel(Path(os.devnull)), no_demo, Watched())


NAME = "big-Q4_K_M.gguf"
LONG = "a" * 3_000_000
"""A value that makes a header of three megabytes."""


def header_of(name: str = NAME, watcher: Watcher | None = None) -> Any:
    listed = repository(TARGET, "main")
    file = next(file for file in listed.files if file.path == name)
    return read_remote_header(file, watcher or Watched())


def test_a_header_costs_a_few_megabytes_of_a_large_file(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path) + bytes(40 << 20)})

    header = header_of()

    assert (header.architecture, bool(header.n_parameters)) == ("llama", True)
    assert sum(r.sent for r in hub.asked(origin="cdn")) < 12 << 20


@pytest.mark.parametrize("fault", [ignore_range(), Cut(), Cut(100), Cut(100, reset=True), status(503)])
def test_a_header_is_read_again_after_a_failure(hub: LoopbackHub, tmp_path: Path, fault: Any) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path)})
    hub.faults.add(fault, NAME, origin="cdn", times=1)

    assert header_of().architecture == "llama"


def test_a_cut_header_resumes_at_its_byte(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path, general__long=LONG)})
    hub.faults.add(Cut(1_000_000), NAME, origin="cdn", times=1)
    watched = Watched()

    assert header_of(watcher=watched).metadata["general.long"] == LONG
    first, second = hub.asked(origin="cdn")
    assert second.headers["range"].startswith(f"bytes={first.sent}-")
    assert watched.came >= len(LONG)


@pytest.mark.parametrize("fault", [Cut(), status(503)])
def test_the_third_failure_ends_the_request(hub: LoopbackHub, tmp_path: Path, fault: Any) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path)})
    hub.faults.add(fault, NAME, origin="cdn", times=None)

    with pytest.raises(HubError) as failed:
        header_of()
    assert failed.value.hint.endswith("Try again to continue.")
    assert len(hub.asked(origin="cdn")) == 3


@pytest.mark.parametrize("after", [None, 0, 100], ids=["no status", "no byte", "some bytes"])
def test_a_silent_header_ends_at_the_deadline(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int | None
) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path)})
    monkeypatch.setattr("app.models.hub.client._REQUEST_TIMEOUT", None)
    monkeypatch.setattr("app.models.resolve.HEADER_S", 0.2)
    hub.faults.add(Stall(after), "*.gguf", times=None)

    with pytest.raises(HubTimeoutError):
        header_of()


def test_files_that_are_not_gguf_are_reported_before_the_download(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"page.gguf": b"<html>" * 1000, "cut.gguf": tiny(tmp_path)[:900]})

    with pytest.raises(HubError, match="not a GGUF model"):
        header_of("page.gguf")
    with pytest.raises(HubError, match="ends inside its header"):
        header_of("cut.gguf")


def test_facts_are_the_same_from_the_hub_and_from_the_disk(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"tiny.gguf": tiny(tmp_path)}, license="mit")

    remote = resolve(HubModel(TARGET), no_demo, Watched())
    local = resolve(LocalModel(tmp_path / "tiny.gguf"), no_demo, Watched())

    assert (remote.license, remote.path) == ("mit", None)
    assert facts_of(remote, Watched()) == facts_of(local, Watched())


def test_progress_is_reported_in_lines(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path / "made", general__long=LONG)})
    hub.add(DRAFT, {"small-Q8_0.gguf": tiny(tmp_path / "made", "draft.gguf")})
    hub.faults.add(Cut(1_000_000), NAME, origin="cdn", times=1)
    lines: list[str] = []

    pair = Pair("mine", "Mine", HubModel(TARGET), HubModel(DRAFT))
    looked_at(pair, lines.append)

    assert lines[0] == f"Looking at {TARGET}"
    assert any(line.startswith("The connection to ") and line.endswith(f"again in 1 s: {NAME}") for line in lines)
    assert any(line.startswith(f"Looking at {NAME}: 3.") for line in lines)
    assert "Looking at small-Q8_0.gguf" in lines
