"""Every fault does what its name says, to a plain HTTP client and to the real one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import hf_hub_download, hf_hub_url, model_info
from huggingface_hub.errors import LocalEntryNotFoundError

from tests.models.hub.faults import (
    BadJson,
    Before,
    CaptivePortal,
    Corrupt,
    Cut,
    Drip,
    Drop,
    EditJson,
    Fault,
    IgnoreRange,
    NewEtag,
    RedirectLoop,
    ShortBody,
    Stall,
    Status,
    WrongLength,
)
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import FILE, MODEL, NAME

JSON = "*/api/models/*"
pytestmark = pytest.mark.usefixtures("tiny_repo")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as running:
        yield running


def get(url: str | None = None, **headers: str) -> httpx2.Response:
    return httpx2.get(url or hf_hub_url(NAME, FILE), headers=headers, follow_redirects=True)


@pytest.fixture(params=["in memory", "on disk"])
def kept(request: pytest.FixtureRequest, hub: LoopbackHub, tmp_path: Path) -> str:
    """The model in both ways a file can be kept."""
    (tmp_path / "model").write_bytes(MODEL)
    if request.param == "on disk":
        hub.replace(NAME, FILE, tmp_path / "model")
    return str(request.param)


def test_a_cut_answer_ends_at_its_byte_once(hub: LoopbackHub, kept: str) -> None:
    hub.faults.add(Cut(1000), FILE, origin="cdn")

    got: list[bytes] = []
    with (
        httpx2.stream("GET", hf_hub_url(NAME, FILE), follow_redirects=True) as answer,
        pytest.raises(httpx2.RemoteProtocolError, match="received 1000 bytes, expected 102400"),
    ):
        got.extend(answer.iter_raw())
    assert b"".join(got) == MODEL[:1000]
    assert hub.asked(origin="cdn")[-1].sent == 1000
    assert get().content == MODEL


def test_a_cut_can_be_a_reset(hub: LoopbackHub) -> None:
    hub.faults.add(Cut(1000, reset=True), FILE, origin="cdn")

    with pytest.raises(httpx2.ReadError):
        get()


@pytest.mark.parametrize(("reset", "error"), [(False, httpx2.RemoteProtocolError), (True, httpx2.ReadError)])
def test_a_dropped_request_gets_no_answer(hub: LoopbackHub, reset: bool, error: type[Exception]) -> None:
    hub.faults.add(Drop(reset), origin="hub")

    with pytest.raises(error):
        get()
    (dropped,) = hub.asked()
    assert (dropped.status, dropped.sent) == (0, 0)


@pytest.mark.parametrize(("after", "sent"), [(None, 0), (0, 0), (1000, 1000)])
def test_a_stalled_answer_goes_on_when_it_is_let(
    hub: LoopbackHub, pool: ThreadPoolExecutor, after: int | None, sent: int
) -> None:
    stall = hub.faults.add(Stall(after), FILE, origin="cdn")

    answer = pool.submit(get)
    assert stall.reached.wait(10)
    (held,) = hub.asked(origin="cdn")
    assert (held.held, held.sent, held.status) == (True, sent, 0 if after is None else 200)
    assert not answer.done()
    stall.go.set()
    assert answer.result(10).content == MODEL


def test_a_client_that_walks_away_from_a_stall(hub: LoopbackHub) -> None:
    stall = hub.faults.add(Stall(1000), FILE, origin="cdn")

    with httpx2.stream("GET", hf_hub_url(NAME, FILE), follow_redirects=True) as answer:
        assert len(next(answer.iter_raw())) <= 1000
    stall.go.set()
    hub.journal.wait(lambda requests: all(request.done for request in requests))
    assert get().content == MODEL


def test_a_dripping_answer_gives_no_more_than_is_allowed(hub: LoopbackHub) -> None:
    drip = hub.faults.add(Drip(1000), FILE, origin="cdn")

    with httpx2.stream("GET", httpx2.head(hf_hub_url(NAME, FILE)).headers["location"]) as answer:
        pieces = answer.iter_raw()
        drip.allow(2)
        got = b""
        while len(got) < 2000:
            got += next(pieces)
        assert got == MODEL[:2000]
        assert hub.asked(origin="cdn")[0].sent == 2000
        drip.release()
        assert got + b"".join(pieces) == MODEL


def test_a_status_comes_with_its_headers_as_often_as_asked(hub: LoopbackHub) -> None:
    hub.faults.add(Status(503, {"Retry-After": "7"}, "down"), times=2)

    for _ in range(2):
        answer = get()
        assert (answer.status_code, answer.headers["retry-after"], answer.text) == (503, "7", "down")
    assert get().content == MODEL


@pytest.mark.parametrize("span", ["bytes=10-19", "bytes=10-"])
def test_a_range_is_ignored_once(hub: LoopbackHub, kept: str, span: str) -> None:
    hub.faults.add(IgnoreRange(), FILE, origin="cdn")

    answer = get(Range=span)
    assert (answer.status_code, answer.content) == (200, MODEL)
    assert "content-range" not in answer.headers
    assert get(Range=span).status_code == 206


def test_another_etag_makes_a_range_void(hub: LoopbackHub) -> None:
    etag = get().headers["etag"]
    hub.faults.add(NewEtag("f" * 64), FILE, origin="cdn", times=None)

    assert get(Range="bytes=10-").status_code == 206
    resumed = get(Range="bytes=10-", **{"If-Range": etag})
    assert (resumed.status_code, resumed.headers["etag"], resumed.content) == (200, f'"{"f" * 64}"', MODEL)


def test_something_may_happen_before_an_answer(hub: LoopbackHub) -> None:
    hub.faults.add(Before(lambda: hub.replace(NAME, FILE, b"other")), FILE, method="GET")
    url = hf_hub_url(NAME, FILE)

    old = httpx2.head(url)
    new = httpx2.get(url)
    assert old.headers["x-linked-etag"] != new.headers["x-linked-etag"]
    assert old.headers["x-repo-commit"] != new.headers["x-repo-commit"]
    assert httpx2.get(old.headers["location"]).content == MODEL
    assert httpx2.get(new.headers["location"]).content == b"other"


def test_a_length_that_is_too_long_is_an_answer_cut_short(hub: LoopbackHub) -> None:
    hub.faults.add(WrongLength(5), FILE, origin="cdn")

    with pytest.raises(httpx2.RemoteProtocolError, match="received 102400 bytes, expected 102405"):
        get()


def test_a_length_that_is_too_short_hides_the_end(hub: LoopbackHub) -> None:
    hub.faults.add(WrongLength(-5), FILE, origin="cdn")

    assert get().content == MODEL[:-5]
    assert get().content == MODEL


def test_a_short_body_looks_whole(hub: LoopbackHub, kept: str) -> None:
    hub.faults.add(ShortBody(1000), FILE, origin="cdn")

    answer = get()
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "1000", MODEL[:1000])


@pytest.mark.parametrize("at", [0, 1000, len(MODEL) - 1])
def test_one_byte_is_wrong_in_whole_answers_and_ranges(hub: LoopbackHub, kept: str, at: int) -> None:
    hub.faults.add(Corrupt(at), FILE, origin="cdn", times=2)
    wrong = MODEL[:at] + bytes([MODEL[at] ^ 0xFF]) + MODEL[at + 1 :]

    assert get().content == wrong
    assert get(Range="bytes=500-1500").content == wrong[500:1501]
    assert get().content == MODEL


def test_a_captive_portal_answers_everything_with_a_page(hub: LoopbackHub) -> None:
    hub.faults.add(CaptivePortal(), times=None)

    answer = get()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "x-repo-commit" not in answer.headers
    with pytest.raises(LocalEntryNotFoundError, match="does not seem to be served by a Hugging Face Hub"):
        hf_hub_download(NAME, FILE)
    with pytest.raises(ValueError, match="Expecting value"):
        model_info(NAME)


def test_a_redirect_loop_never_ends(hub: LoopbackHub) -> None:
    hub.faults.add(RedirectLoop(), FILE, times=None)

    with pytest.raises(httpx2.TooManyRedirects):
        get()
    with pytest.raises(httpx2.TooManyRedirects):
        hf_hub_download(NAME, FILE)


def test_json_can_be_broken(hub: LoopbackHub) -> None:
    hub.faults.add(BadJson(), JSON)
    hub.faults.add(BadJson("\x00"), JSON)

    for _ in range(2):
        with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid"):
            model_info(NAME)
    assert model_info(NAME).id == NAME


def test_json_can_say_something_else(hub: LoopbackHub) -> None:
    hub.faults.add(EditJson(lambda data: data | {"siblings": [{"rfilename": "../x"}]}), JSON)
    hub.faults.add(EditJson(lambda data: ["not", "a", "model", data]), JSON)

    assert [s.rfilename for s in model_info(NAME).siblings or []] == ["../x"]
    with pytest.raises(TypeError):
        model_info(NAME)


def test_faults_meet_only_what_they_were_made_for(hub: LoopbackHub) -> None:
    url = hf_hub_url(NAME, FILE)
    hub.faults.add(Status(500), "*.md")
    hub.faults.add(Status(501), FILE, method="HEAD")
    hub.faults.add(Status(502), origin="cdn", when=lambda request: "range" in request.headers)

    assert get().status_code == 200
    assert httpx2.head(url).status_code == 501
    assert get(Range="bytes=1-").status_code == 502
    assert get(hf_hub_url(NAME, "README.md")).status_code == 500
    assert get(hf_hub_url(NAME, "README.md")).status_code == 200
    assert type(hub.faults.take(hub.requests[0])) is Fault
