"""Downloads against everything that can go wrong, with the real client's session, from a loopback hub."""

from __future__ import annotations

import errno
import os
import threading
from io import FileIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from huggingface_hub import constants

from app.core.errors import CacheError, HubError, Interrupted
from app.models.hub import cache, client
from app.models.hub.client import session
from app.models.resolve import resolve
from app.models.source import HubModel
from tests.models.hub.faults import Cut, corrupt, ignore_range, rate_limited, status, wrong_length
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import CONTENT, TARGET, Watched, no_demo, publish

NAME = "big-Q4_K_M.gguf"


def test_no_request_follows_the_last_byte(hub: LoopbackHub) -> None:
    file = publish(hub)

    class Last(Watched):
        def received(self, n_bytes: int) -> None:
            super().received(n_bytes)
            if self.came == len(CONTENT):
                hub.close()

    path = Last().fetch(file)

    assert path.read_bytes() == CONTENT
    assert [request.method for request in hub.requests if request.file] == ["GET", "GET"], "the hub's, and the CDN's"
    link = path.readlink()
    assert not link.is_absolute(), "the whole cache can be moved"
    assert (path.parent / link).resolve() == cache.blob_path(file).resolve()


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("left", [0, 1000])
def test_a_file_that_a_power_cut_has_shortened_comes_again(
    hub: LoopbackHub, left: int, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    file = publish(hub)
    path = Watched().fetch(file)
    os.truncate(path, left)
    watched = Watched()

    assert cache.missing_bytes(file) == len(CONTENT)
    assert resolve(HubModel(TARGET, file=NAME), no_demo, Watched()).path is None
    assert watched.fetch(file).read_bytes() == CONTENT
    assert (watched.here, watched.came) == (0, len(CONTENT))


def test_a_download_is_flushed_before_it_is_renamed(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    file = publish(hub)
    content, kept, fsync = cache.blob_path(file), [], os.fsync

    def keep(descriptor: int) -> None:
        fsync(descriptor)
        kept.append((os.fstat(descriptor).st_size, content.exists()))

    monkeypatch.setattr(os, "fsync", keep)
    Watched().fetch(file)

    assert kept == [(len(CONTENT), False)]


@pytest.mark.parametrize(("at", "reset"), [(0, False), (1, True), (1 << 20, False), (len(CONTENT) - 1, True)])
def test_a_connection_cut_at_any_byte_continues_there(hub: LoopbackHub, at: int, reset: bool) -> None:
    file = publish(hub)
    hub.faults.add(Cut(at, reset=reset), NAME, origin="cdn", times=1)
    watched = Watched()

    assert watched.fetch(file).read_bytes() == CONTENT
    assert watched.pauses
    sent = hub.asked(NAME, origin="cdn")
    assert sent[-1].headers.get("range", "bytes=0-") == f"bytes={len(CONTENT) - sent[-1].sent}-"
    assert watched.came == len(CONTENT)


@pytest.mark.parametrize("after", [1, 1 << 20, len(CONTENT)])
def test_a_stop_keeps_what_came_and_the_next_time_continues(hub: LoopbackHub, after: int) -> None:
    file = publish(hub)
    with pytest.raises(Interrupted):
        Watched(stop_after=0).fetch(file)
    first = Watched(stop_after=after)
    if after < len(CONTENT):
        with pytest.raises(Interrupted):
            first.fetch(file)
        assert cache.partial_path(file).stat().st_size == first.came
    second = Watched()

    assert second.fetch(file).read_bytes() == CONTENT
    assert second.here == first.came
    assert second.came == len(CONTENT) - first.came


def test_the_attempts_end_and_keep_what_came(hub: LoopbackHub) -> None:
    file = publish(hub)
    hub.faults.add(Cut(1 << 20), NAME, origin="cdn", times=1)
    hub.faults.add(Cut(), NAME, origin="cdn", times=None)
    watched = Watched()

    with pytest.raises(HubError, match="broke") as failed:
        watched.fetch(file)

    assert "Try again to continue" in failed.value.hint
    assert cache.partial_path(file).stat().st_size == watched.came > 0
    assert watched.pauses == [1.0] * (1 + 2 + 4 + 8 + 16 + 32 + 60)


def test_a_new_byte_renews_the_attempts(hub: LoopbackHub) -> None:
    file = publish(hub)
    for _ in range(9):
        hub.faults.add(Cut(200_000, reset=False), NAME, origin="cdn", times=1)

    assert Watched().fetch(file).read_bytes() == CONTENT


@pytest.mark.parametrize(("fault", "origin"), [(rate_limited(7), "hub"), (status(503, {"Retry-After": "7"}), "cdn")])
def test_an_asked_wait_is_kept_second_by_second(hub: LoopbackHub, fault: Any, origin: str) -> None:
    file = publish(hub)
    hub.faults.add(fault, NAME, origin=origin, times=1)
    watched = Watched()

    assert watched.fetch(file).read_bytes() == CONTENT
    assert [seconds for _, seconds in watched.waits] == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(("n_failures", "waits"), [(300, True), (10_000, False)])
def test_a_download_waits_one_night_for_the_network(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, n_failures: int, *, waits: bool
) -> None:
    file = publish(hub)
    hub.faults.add(status(503), NAME, origin="cdn", times=7)
    tries = iter(range(n_failures))

    def gone() -> httpx2.Client:
        if next(tries, None) is not None:
            raise httpx2.ConnectError("gone")
        return session()

    monkeypatch.setattr(client, "session", gone)
    watched = Watched()
    if not waits:
        with pytest.raises(HubError, match="cannot be reached"):
            watched.fetch(file)
        assert 12 * 3600 - 60 <= sum(watched.pauses) <= 12 * 3600
        return

    assert watched.fetch(file).read_bytes() == CONTENT
    assert sum(watched.pauses) == 1 + 2 + 4 + 8 + 16 + 32 + 60 * 301, "server errors are counted apart"


@pytest.mark.parametrize(
    ("left", "reason"),
    [(b"x" * 1000, ["The file arrived damaged; downloading it again"]), (CONTENT + b"more", [])],
    ids=["wrong", "too long"],
)
def test_a_damaged_partial_file_is_downloaded_again(hub: LoopbackHub, left: bytes, reason: list[str]) -> None:
    file = publish(hub)
    part = cache.partial_path(file)
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    watched = Watched()

    assert watched.fetch(file).read_bytes() == CONTENT
    assert [told for told, _ in watched.waits] == reason


def test_a_file_too_large_for_http_names_the_command_that_downloads_it(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = publish(hub)
    monkeypatch.setattr(constants, "MAX_HTTP_DOWNLOAD_SIZE", 1)

    with pytest.raises(HubError, match="above 50 GB") as failed:
        Watched().fetch(file)
    assert failed.value.hint == f"Run: hf download {TARGET} {NAME} --revision {file.commit}"


def test_a_server_without_ranges_cannot_lose_what_is_here(hub: LoopbackHub) -> None:
    file = publish(hub)
    with pytest.raises(Interrupted):
        Watched(stop_after=1 << 20).fetch(file)
    had = cache.partial_path(file).stat().st_size
    hub.faults.add(ignore_range(), NAME, origin="cdn", times=None)
    hub.faults.add(Cut(1000), NAME, origin="cdn", times=1)
    watched = Watched()

    assert watched.fetch(file).read_bytes() == CONTENT
    assert (watched.here, watched.came) == (had, len(CONTENT) - had)


def test_bytes_that_stay_wrong_are_refused_and_not_kept(hub: LoopbackHub) -> None:
    file = publish(hub)
    hub.faults.add(corrupt(1_500_000), NAME, origin="cdn", times=None)

    with pytest.raises(HubError, match="arrives damaged"):
        Watched().fetch(file)

    assert not cache.partial_path(file).exists()
    assert not cache.blob_path(file).exists()


@pytest.mark.parametrize("at", [0, 700_000, len(CONTENT) - 10])
def test_a_disk_full_at_any_byte_keeps_what_fits(hub: LoopbackHub, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file, real = publish(hub), Path.open

    class Full(FileIO):
        """A file on a disk with room for this number of bytes."""

        def write(self, data: bytes) -> int:  # type: ignore[override]
            n = super().write(data[: max(0, at - self.tell())])
            if n < len(data):
                raise OSError(errno.ENOSPC, "No space left on device")
            return n

    def opened(self: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        return Full(self, mode) if mode == "a+b" else real(self, mode, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(CacheError, match="is full"):
            Watched().fetch(file)

    assert cache.partial_path(file).stat().st_size == at
    assert Watched().fetch(file).read_bytes() == CONTENT


def test_a_cache_that_may_not_be_written_is_reported(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    file = publish(hub)

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(CacheError, match="Permission denied") as failed:
        Watched().fetch(file)
    assert "HF_HUB_CACHE" in failed.value.hint


def test_two_programs_take_turns_and_download_once(hub: LoopbackHub) -> None:
    file = publish(hub)
    taken, release = threading.Event(), threading.Event()

    def other() -> None:
        with cache.locked_content(cache.blob_path(file)) as ours:
            assert ours
            taken.set()
            release.wait()

    thread = threading.Thread(target=other)
    thread.start()
    taken.wait()
    watched = Watched()

    def finish_the_other() -> None:
        release.set()
        thread.join()

    watched.on_pause = finish_the_other

    assert watched.fetch(file).read_bytes() == CONTENT
    assert watched.waits[0][0] == "Another program is downloading this file"


def test_a_file_of_another_length_than_listed_is_reported(hub: LoopbackHub) -> None:
    file = publish(hub)
    hub.faults.add(wrong_length(5), NAME, origin="cdn", times=None)

    with pytest.raises(HubError, match="bytes now;"):
        Watched().fetch(file)
