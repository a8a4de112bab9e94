"""The header of a model over a bad network."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import HubError, HubTimeoutError
from app.models.catalog import Pair
from app.models.hub.client import repository
from app.models.progress import Watcher
from app.models.registry import Registry
from app.models.resolve import facts_of, read_remote_header, resolve
from app.models.setup import Setup
from app.models.source import HubModel, LocalModel
from tests.models.hub.faults import Cut, Drop, IgnoreRange, Stall, Status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, Patient, Watched, no_demo, tiny

NAME = "big-Q4_K_M.gguf"
LONG = "a" * 3_000_000
"""A value that makes a header of three megabytes."""


def header_of(name: str = NAME, watcher: Watcher | None = None) -> Any:
    listed = repository(TARGET, "main")
    file = next(file for file in listed.files if file.path == name)
    return read_remote_header(file, watcher or Patient())


def test_a_header_costs_a_few_megabytes_of_a_large_file(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path) + bytes(40 << 20)})

    header = header_of()

    assert (header.architecture, bool(header.n_parameters)) == ("llama", True)
    assert sum(r.sent for r in hub.asked(origin="cdn")) < 12 << 20


@pytest.mark.parametrize("fault", [IgnoreRange(), Drop(), Cut(100), Cut(100, reset=True), Status(503)])
def test_a_header_survives_a_bad_moment(hub: LoopbackHub, tmp_path: Path, fault: Any) -> None:
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


@pytest.mark.parametrize("fault", [Drop(), Status(503)])
def test_the_third_failure_ends_it(hub: LoopbackHub, tmp_path: Path, fault: Any) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path)})
    hub.faults.add(fault, NAME, origin="cdn", times=None)

    with pytest.raises(HubError) as failed:
        header_of()
    assert failed.value.hint.endswith("Try again to continue.")
    assert len(hub.asked(origin="cdn")) == 3


@pytest.mark.timeout(60)
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

    remote = resolve(HubModel(TARGET), no_demo, Patient())
    local = resolve(LocalModel(tmp_path / "tiny.gguf"), no_demo, Patient())

    assert (remote.license, remote.path) == ("mit", None)
    assert facts_of(remote, Patient()) == facts_of(local, Patient())


def test_progress_is_reported_in_lines(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {NAME: tiny(tmp_path / "made", general__long=LONG)})
    hub.add(DRAFT, {"small-Q8_0.gguf": tiny(tmp_path / "made", "draft.gguf")})
    hub.faults.add(Cut(1_000_000), NAME, origin="cdn", times=1)
    lines: list[str] = []
    steps = Setup(Registry(tmp_path / "pairs.toml"), no_demo, threading.Event())

    steps.prepare(Pair("mine", "Mine", HubModel(TARGET), HubModel(DRAFT)), lines.append)

    assert lines[0] == f"Looking at {TARGET}"
    assert any(line.startswith("The connection to ") and line.endswith(f"again in 1 s: {NAME}") for line in lines)
    assert any(line.startswith(f"Looking at {NAME}: 3.") for line in lines)
    assert "Looking at small-Q8_0.gguf" in lines
