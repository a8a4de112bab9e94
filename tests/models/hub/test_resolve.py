"""Listings and headers from the hub, hostile ones too."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants, hf_api

from app.cli.pairs_check import find_drafts
from app.core.errors import HubError, ModelFileError, UnreachableError
from app.models.catalog import Pair
from app.models.hub.cache import save_revision
from app.models.hub.client import search
from app.models.hub.download import Download
from app.models.progress import HeaderWatcher, Watcher
from app.models.resolve import facts_of, resolve
from app.models.source import HubModel, LocalModel, parse_source
from tests.llama.tiny_heads import write_gemma4, write_gemma4_mtp
from tests.models.hub.faults import (
    Drop,
    Status,
    rate_limited,
)
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, Patient, no_demo, tiny


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
    target = facts_of(resolve(HubModel(TARGET), no_demo, Patient()), Patient())
    pair = Pair("known", "Known", HubModel(f"owner/{target.name}"), HubModel(DRAFT))
    hub.faults.add(Status(503), "/api/models", times=None)

    assert [one["model"] for one in find_drafts(target, (pair,), lambda _: Patient())] == [DRAFT]
    with pytest.raises(HubError):
        list(find_drafts(target, (), lambda _: Patient()))


def test_an_mtp_layer_beside_the_target_is_found(hub: LoopbackHub, tmp_path: Path) -> None:
    target, layer = write_gemma4(tmp_path / "target.gguf"), write_gemma4_mtp(tmp_path / "layer.gguf")
    hub.add(TARGET, {"big-Q8_0.gguf": target.read_bytes(), "mtp-big-Q8_0.gguf": layer.read_bytes()})
    model = resolve(HubModel(TARGET), no_demo, Patient())

    facts = replace(facts_of(model, Patient()), weight_bytes=1 << 30)
    [found] = find_drafts(facts, (), lambda _: Patient(), model.beside)

    assert (found["model"], found["kind"]) == (f"{TARGET}:mtp-big-Q8_0.gguf", "mtp")
    assert parse_source(found["model"]) == HubModel(TARGET, file="mtp-big-Q8_0.gguf")


def test_drafts_of_another_architecture_come_last_and_hybrids_never(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"tiny-8b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)}, gguf={"architecture": "x", "total": 9})
    for name, architecture, downloads in (("dense", "qwen3", 9), ("hybrid", "qwen35", 8), ("same", "llama", 1)):
        told = {"architecture": architecture, "total": 1}
        hub.add(f"owner/tiny-{name}-GGUF", {"m.gguf": tiny(tmp_path)}, downloads=downloads, gguf=told)
    target = facts_of(resolve(HubModel(TARGET), no_demo, Patient()), Patient())

    offered = [one["model"] for one in find_drafts(target, (), lambda _: Patient())]
    assert offered == ["owner/tiny-same-GGUF", "owner/tiny-dense-GGUF"]


@pytest.mark.parametrize("path", ["/api/models", "/api/models/*"], ids=["search", "listing"])
def test_searches_and_listings_are_retried(hub: LoopbackHub, tmp_path: Path, path: str) -> None:
    hub.add(TARGET, {"tiny-8b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)}, gguf={"architecture": "x", "total": 9})
    hub.add(DRAFT.replace("small", "tiny"), {"m.gguf": tiny(tmp_path)}, gguf={"architecture": "llama", "total": 1})
    target = facts_of(resolve(HubModel(TARGET), no_demo, Patient()), Patient())
    told: list[str] = []
    for fault in (Status(503), Drop()):
        hub.faults.add(fault, path)

    assert len(list(find_drafts(target, (), lambda name: HeaderWatcher(name, told.append)))) == 1
    assert any("(status 503), again in 1 s" in line for line in told)


def test_a_downloaded_file_is_used_while_the_hub_fails(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(TARGET, {"m.gguf": tiny(tmp_path)})
    here = resolve(HubModel(TARGET), no_demo, Patient())
    path = Download(here.files[0], Watcher()).run()
    save_revision(TARGET, "main", here.files[0].commit)
    hub.faults.add(Status(503), "/api/*", times=None)
    patient = Patient()

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
    here = resolve(HubModel(TARGET), no_demo, Patient())
    hub.faults.add(rate_limited(600), "/api/*", times=None)
    with pytest.raises(HubError, match="Rate limit reached") as failed:
        resolve(HubModel(TARGET), no_demo, Impatient())
    assert failed.value.hint.endswith("Try again in 10 min to continue.")

    # What is here does as well: then not even a minute is.
    path = Download(here.files[0], Watcher()).run()
    save_revision(TARGET, "main", here.files[0].commit)
    hub.faults.clear()
    hub.faults.add(rate_limited(55), "/api/*", times=None)
    found = resolve(HubModel(TARGET, file="m.gguf"), no_demo, Impatient())
    assert found.path == path


def test_a_local_model_that_is_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="There is no file"):
        resolve(LocalModel(tmp_path / "none.gguf"), no_demo, Patient())
    with pytest.raises(ModelFileError, match="is a folder"):
        resolve(LocalModel(tmp_path), no_demo, Patient())
    with pytest.raises(ModelFileError, match="is not a regular file"):
        resolve(LocalModel(Path(os.devnull)), no_demo, Patient())
