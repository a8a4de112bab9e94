"""Downloads against everything that can go wrong, by the real client's session, from a loopback hub."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from huggingface_hub import close_session, constants, hf_hub_download
from huggingface_hub.utils._xet_progress_reporting import XetDownloadProgressReporter

from app.core.errors import CacheError, HubError, Interrupted
from app.models.hub import cache, client, download
from app.models.hub.client import repository, session
from app.models.hub.errors import host
from app.models.resolve import resolve
from app.models.source import HubModel
from tests.models.hub.content import HubFile
from tests.models.hub.faults import (
    CaptivePortal,
    Corrupt,
    Cut,
    Drop,
    IgnoreRange,
    RedirectLoop,
    Status,
    WrongLength,
    rate_limited,
)
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import CONTENT, TARGET, Watched, no_demo, publish
from tests.models.hub.proxy import LoopbackProxy

NAME = "big-Q4_K_M.gguf"


def test_a_file_arrives_where_every_client_looks_for_it(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    watched = Watched()

    path = watched.fetch(commit, file)

    assert path.read_bytes() == CONTENT
    assert (watched.came, watched.here, watched.waits) == (len(CONTENT), 0, [])
    asked = len(hub.asked(origin="cdn"))
    assert Path(hf_hub_download(TARGET, NAME)) == path
    assert len(hub.asked(origin="cdn")) == asked


def test_the_last_byte_is_the_end_of_all_asking(hub: LoopbackHub) -> None:
    commit, file = publish(hub)

    class Last(Watched):
        def received(self, n_bytes: int) -> None:
            super().received(n_bytes)
            if self.came == len(CONTENT):
                hub.close()

    path = Last().fetch(commit, file)

    assert path.read_bytes() == CONTENT
    assert [request.method for request in hub.requests if request.file] == ["GET", "GET"], "the hub's, and the CDN's"
    link = path.readlink()
    assert not link.is_absolute(), "the whole cache can be moved"
    assert (path.parent / link).resolve() == cache.blob(TARGET, file).resolve()
    assert (cache.folder() / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


def test_two_that_give_the_name_at_once_both_have_it(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)
    path = Watched().fetch(commit, file)
    path.unlink()
    link = Path.symlink_to

    def second(one: Path, target: Path) -> None:
        link(one, target)
        link(one, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", second)
        assert cache.place(TARGET, commit, file) == path

    assert cache.place(TARGET, commit, file) == path
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("left", [0, 1000])
def test_a_file_that_a_power_cut_has_shortened_comes_again(
    hub: LoopbackHub, left: int, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    commit, file = publish(hub)
    path = Watched().fetch(commit, file)
    os.truncate(path, left)
    watched = Watched()

    assert cache.missing_bytes(TARGET, commit, (file,)) == len(CONTENT)
    assert resolve(HubModel(TARGET, file=NAME), no_demo).path is None
    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert (watched.here, watched.came) == (0, len(CONTENT))


def test_what_stands_in_the_place_of_a_name_makes_room(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    path = Watched().fetch(commit, file)
    path.unlink()
    path.write_bytes(CONTENT[:1000])
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert watched.came == 0


def test_the_disk_has_the_bytes_before_they_get_their_name(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)
    content, kept, fsync = cache.blob(TARGET, file), [], os.fsync

    def keep(descriptor: int) -> None:
        fsync(descriptor)
        kept.append((os.fstat(descriptor).st_size, content.exists()))

    monkeypatch.setattr(os, "fsync", keep)
    Watched().fetch(commit, file)

    assert kept == [(len(CONTENT), False)]


def test_what_another_program_has_downloaded_is_not_downloaded_again(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    path = Path(hf_hub_download(TARGET, NAME))
    asked = len(hub.asked())
    watched = Watched()

    assert watched.fetch(commit, file) == path
    assert (watched.came, watched.here) == (0, len(CONTENT))
    assert len(hub.asked()) == asked


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("at", [0, 1, 100_000, 1 << 20, len(CONTENT) - 1])
def test_a_connection_cut_at_any_byte_goes_on_there(hub: LoopbackHub, at: int, reset: bool) -> None:
    commit, file = publish(hub)
    hub.faults.add(Cut(at, reset=reset), NAME, origin="cdn", times=1)
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert watched.pauses
    sent = hub.asked(NAME, origin="cdn", method="GET")
    assert sent[-1].headers.get("range", "bytes=0-") == f"bytes={len(CONTENT) - sent[-1].sent}-"
    assert watched.came == len(CONTENT)


@pytest.mark.parametrize("after", [1, 1 << 20, len(CONTENT)])
def test_a_stop_keeps_what_came_and_the_next_time_goes_on(hub: LoopbackHub, after: int) -> None:
    commit, file = publish(hub)
    with pytest.raises(Interrupted):
        Watched(stop_after=0).fetch(commit, file)
    first = Watched(stop_after=after)
    if after < len(CONTENT):
        with pytest.raises(Interrupted):
            first.fetch(commit, file)
        assert cache.partial(TARGET, file).stat().st_size == first.came
    second = Watched()

    assert second.fetch(commit, file).read_bytes() == CONTENT
    assert second.here == first.came
    assert second.came == len(CONTENT) - first.came


def test_the_attempts_end_and_keep_what_came(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    hub.faults.add(Cut(1 << 20), NAME, origin="cdn", times=1)
    hub.faults.add(Drop(), NAME, origin="cdn", times=None)
    watched = Watched(attempts=4)

    with pytest.raises(HubError, match="broke") as failed:
        watched.fetch(commit, file)

    assert "Try again to continue" in failed.value.hint
    assert cache.partial(TARGET, file).stat().st_size == watched.came > 0
    assert watched.pauses == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_a_new_byte_renews_the_attempts(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    for _ in range(6):
        hub.faults.add(Cut(300_000, reset=False), NAME, origin="cdn", times=1)

    assert Watched(attempts=2).fetch(commit, file).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "fault", [rate_limited(7), Status(429, {"Retry-After": "7"}), Status(503, {"Retry-After": "7"})]
)
@pytest.mark.parametrize("origin", ["hub", "cdn"])
def test_an_asked_wait_is_kept_second_by_second(hub: LoopbackHub, fault: Any, origin: str) -> None:
    commit, file = publish(hub)
    hub.faults.add(fault, NAME, origin=origin, method="GET", times=1)
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert [seconds for _, seconds in watched.waits] == [7, 6, 5, 4, 3, 2, 1]


def test_waits_without_advice_grow(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    hub.faults.add(Status(502), NAME, origin="cdn", times=3)
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert sum(watched.pauses) == 1 + 2 + 4


@pytest.mark.parametrize(
    ("kind", "cause"),
    [(httpx2.ConnectError, None), (httpx2.ConnectError, socket.gaierror()), (httpx2.ConnectTimeout, None)],
)
def test_a_network_that_is_gone_for_hours_is_waited_for(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], cause: Exception | None
) -> None:
    commit, file = publish(hub)
    hub.faults.add(Status(503), NAME, origin="cdn", times=7)
    tries = iter(range(300))

    def gone() -> httpx2.Client:
        if next(tries, None) is not None:
            raise kind("gone") from cause
        return session()

    monkeypatch.setattr(client, "session", gone)
    watched = Watched(attempts=8)

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert sum(watched.pauses) == 1 + 2 + 4 + 8 + 16 + 32 + 60 * 301, "the hub's own failures are counted apart"


def test_a_network_that_stays_away_is_given_up_after_a_night(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)

    def gone() -> httpx2.Client:
        raise httpx2.ConnectError("gone")

    monkeypatch.setattr(client, "session", gone)
    watched = Watched()

    with pytest.raises(HubError, match="cannot be reached") as failed:
        watched.fetch(commit, file)
    assert failed.value.hint.endswith("Try again to continue.")
    assert 12 * 3600 - 60 <= sum(watched.pauses) <= 12 * 3600


def test_the_largest_files_wait_for_the_hub_too(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    commit, file = publish(hub)

    def with_its_protocol(*given: Any, **named: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(constants, "MAX_HTTP_DOWNLOAD_SIZE", 1 << 40)
            return hf_hub_download(*given, **named)

    monkeypatch.setattr(constants, "MAX_HTTP_DOWNLOAD_SIZE", 1)
    monkeypatch.setattr(download, "hf_hub_download", with_its_protocol)
    # The client asks once, and six times more.
    hub.faults.add(Status(503), NAME, method="HEAD", times=7)
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert [reason for reason, _ in watched.waits] == [f"Server error at {host()} (status 503)."]
    assert (watched.came, watched.here) == (len(CONTENT), 0)


@pytest.mark.parametrize(("grows", "n_breaks"), [(True, 20), (False, 8)])
def test_a_break_of_the_largest_files_counts_unless_more_came_than_ever(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, grows: bool, n_breaks: int
) -> None:
    commit, file = publish(hub)
    breaks = 0

    def broken(*_: object, tqdm_class: Any, **__: object) -> str:
        nonlocal breaks
        breaks += 1
        bar = tqdm_class(disable=True)
        bar.update(100 * breaks if grows else 100)
        if breaks == 20:
            raise HubError("That is enough.")
        raise RuntimeError("Network error")

    monkeypatch.setattr(constants, "MAX_HTTP_DOWNLOAD_SIZE", 1)
    monkeypatch.setattr(download, "hf_hub_download", broken)

    with pytest.raises(HubError):
        Watched(attempts=8).fetch(commit, file)
    assert breaks == n_breaks


def test_the_largest_files_are_counted_once() -> None:
    counted: list[int] = []
    bar = download._counting_bar(counted.append)
    with XetDownloadProgressReporter(reconstruction_desc="", log_level=0, total=100, tqdm_class=bar) as progress:
        for arrived, written in ((60, 0), (100, 40), (100, 100)):
            progress.update_progress(
                SimpleNamespace(
                    total_transfer_bytes_completed=arrived,
                    total_bytes_completed=written,
                    total_transfer_bytes_completion_rate=1.0,
                    total_bytes_completion_rate=1.0,
                    total_bytes=100,
                )
            )

    assert sum(counted) == 100
    assert counted[0] == 0, "a stop is heard also while nothing is written"


def test_without_what_speaks_their_protocol_the_largest_files_are_refused(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, file = publish(hub)
    monkeypatch.setattr(constants, "MAX_HTTP_DOWNLOAD_SIZE", 1)

    with pytest.raises(HubError, match=r"cannot be downloaded here: .* hf_xet"):
        Watched().fetch(commit, file)


def test_a_server_without_ranges_cannot_lose_what_is_here(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    with pytest.raises(Interrupted):
        Watched(stop_after=1 << 20).fetch(commit, file)
    had = cache.partial(TARGET, file).stat().st_size
    hub.faults.add(IgnoreRange(), NAME, origin="cdn", times=None)
    hub.faults.add(Cut(1000), NAME, origin="cdn", times=1)
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert (watched.here, watched.came) == (had, len(CONTENT) - had)


def test_a_wrong_byte_is_found_and_brought_again_once(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    hub.faults.add(Corrupt(1_500_000), NAME, origin="cdn", times=1)
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert any("damaged" in reason for reason, _ in watched.waits)


def test_bytes_that_stay_wrong_are_refused_and_not_kept(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    hub.faults.add(Corrupt(1_500_000), NAME, origin="cdn", times=None)

    with pytest.raises(HubError, match="arrives damaged"):
        Watched().fetch(commit, file)

    assert not cache.partial(TARGET, file).exists()
    assert not cache.blob(TARGET, file).exists()


def test_a_damaged_beginning_on_disk_is_found(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    part = cache.partial(TARGET, file)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1000)

    assert Watched().fetch(commit, file).read_bytes() == CONTENT


def test_a_beginning_that_is_too_long_is_started_over(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    part = cache.partial(TARGET, file)
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT + b"more")

    assert Watched().fetch(commit, file).read_bytes() == CONTENT


def test_a_416_starts_over(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    with pytest.raises(Interrupted):
        Watched(stop_after=1 << 20).fetch(commit, file)
    hub.faults.add(Status(416), NAME, origin="cdn", times=1)

    assert Watched().fetch(commit, file).read_bytes() == CONTENT
    assert "range" not in hub.asked(NAME, origin="cdn", method="GET")[-1].headers


def test_a_file_that_changed_in_between_is_told(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    hub.repos[TARGET].files[NAME] = HubFile(NAME, CONTENT + b"longer")

    with pytest.raises(HubError, match="bytes now;"):
        Watched().fetch(commit, file)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Status(403), "A proxy may block it. Also check HF_ENDPOINT"),
        (Status(404), "does not hold what was asked for. Check the spelling. Also check HF_ENDPOINT"),
        (CaptivePortal(), "It changed meanwhile, or a network login page"),
        (RedirectLoop(), "Redirect loop"),
    ],
)
def test_what_waiting_cannot_mend_is_told_at_once(hub: LoopbackHub, fault: Any, message: str) -> None:
    commit, file = publish(hub)
    hub.faults.add(fault, NAME, method="GET", times=None)
    watched = Watched()

    with pytest.raises(HubError) as failed:
        watched.fetch(commit, file)

    assert message in f"{failed.value.message} {failed.value.hint}"
    assert not watched.pauses


def test_a_gated_repository_names_the_page_and_how_to_log_in(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    hub.repos[TARGET].gated = "manual"

    with pytest.raises(HubError, match="accepting its terms") as failed:
        Watched().fetch(commit, file)

    assert f"{hub.endpoint}/{TARGET}" in failed.value.hint
    assert "hf auth login" in failed.value.hint


def test_a_token_that_has_expired_is_named(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)
    hub.faults.add(Status(401, {"X-Error-Message": 'User Access Token "mine" is expired'}), method="GET", times=None)
    for token, said in (("hf_old", "or your token is not accepted"), ("", "or it is private")):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(HubError, match=said) as failed:
            repository(TARGET, "main")
        assert ("whether the token has expired" in failed.value.hint) == bool(token)
        with pytest.raises(HubError, match=said):
            Watched().fetch(commit, file)


def test_a_token_reaches_the_hub_and_never_the_cdn(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)
    hub.tokens.add("hf_secret")
    hub.repos[TARGET].gated = "auto"
    hub.repos[TARGET].granted.add("hf_secret")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")

    assert Watched().fetch(commit, file).read_bytes() == CONTENT
    assert "hf_secret" in hub.asked(NAME, origin="hub", method="GET")[0].headers["authorization"]
    assert hub.leaks == []


@pytest.mark.parametrize("at", [0, 700_000, len(CONTENT) - 10])
def test_a_disk_full_at_any_byte_keeps_what_fits(hub: LoopbackHub, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", _full_after(at, Path.open))
        with pytest.raises(CacheError, match="is full"):
            Watched().fetch(commit, file)

    assert cache.partial(TARGET, file).stat().st_size == at
    assert Watched().fetch(commit, file).read_bytes() == CONTENT


def _full_after(limit: int, real: Any) -> Any:
    class Full:
        """A file on a disk with room for so many bytes."""

        def __init__(self, file: Any) -> None:
            self._file = file
            self._left = limit

        def write(self, data: bytes) -> int:
            n: int = self._file.write(data[: self._left])
            self._left -= n
            if n < len(data):
                self._file.flush()
                raise OSError(errno.ENOSPC, "No space left on device")
            return n

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    def opened(self: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        file = real(self, mode, *arguments, **more)
        return Full(file) if mode == "a+b" else file

    return opened


def test_a_cache_that_may_not_be_written_is_told(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(CacheError, match="No permission to write") as failed:
        Watched().fetch(commit, file)
    assert "HF_HUB_CACHE" in failed.value.hint


def test_two_programs_take_turns_and_download_once(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    taken, release = threading.Event(), threading.Event()

    def other() -> None:
        with cache.locked_content(cache.blob(TARGET, file)) as ours:
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

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert watched.waits[0][0] == "Another program is downloading this file"


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_is_told_and_the_cache_still_serves(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    commit, file = publish(hub)
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match=f"^Offline mode: {variable} is set"):
        Watched().fetch(commit, file)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    path = Watched().fetch(commit, file)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    assert Watched().fetch(commit, file) == path


def test_everything_goes_through_the_proxy_of_the_environment(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackProxy(credentials="me:secret") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.endpoint.replace("http://", "http://me:secret@"))
        close_session()
        commit, file = publish(hub)
        assert Watched().fetch(commit, file).read_bytes() == CONTENT
        assert len(proxy.requests) == len(hub.asked()) == 3


def test_a_proxy_that_wants_a_password_is_told(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)
    with LoopbackProxy(credentials="me:secret") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.endpoint)
        close_session()
        with pytest.raises(HubError, match="proxy requires a password"):
            Watched().fetch(commit, file)


def test_a_file_of_another_length_than_listed_is_told(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    hub.faults.add(WrongLength(5), NAME, origin="cdn", times=None)

    with pytest.raises(HubError, match="bytes now;"):
        Watched().fetch(commit, file)
