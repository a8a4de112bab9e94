"""What the real client makes of faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import HfApi, HfFileSystem, constants, hf_hub_download, model_info
from huggingface_hub.errors import HfHubHTTPError

from tests.models.hub.faults import Corrupt, Cut, Drop, ShortBody, Status, rate_limited
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import FILE, MODEL, NAME

pytestmark = pytest.mark.usefixtures("tiny_repo")


def test_the_client_waits_as_long_as_the_rate_limit_says(hub: LoopbackHub, pauses: list[float]) -> None:
    hub.faults.add(rate_limited(55, bucket="api"), "*/tree/*")
    hub.faults.add(rate_limited(7, retry_after=True), "*/tree/*")

    assert len(list(HfApi().list_repo_tree(NAME))) == 2
    assert pauses == [56, 8]


def test_the_client_tells_of_the_rate_limit(hub: LoopbackHub) -> None:
    hub.faults.add(rate_limited(55, bucket="api"), "*/api/models/*")

    with pytest.raises(HfHubHTTPError, match=r"Retry after 55 seconds \(0/500 requests remaining"):
        model_info(NAME)


def test_the_client_gives_up_after_five_times(hub: LoopbackHub, pauses: list[float]) -> None:
    hub.faults.add(Status(503), "*/tree/*", times=None)

    with pytest.raises(HfHubHTTPError) as error:
        list(HfApi().list_repo_tree(NAME))
    assert error.value.response.status_code == 503
    assert pauses == [1, 2, 4, 8, 8]


def test_the_client_resumes_after_a_cut(hub: LoopbackHub, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    # It resumes from whole chunks only, and its own are of 10 MiB
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 500)
    hub.faults.add(Cut(1000), FILE, origin="cdn")
    hub.faults.add(Drop(), FILE, origin="cdn")

    assert Path(hf_hub_download(NAME, FILE)).read_bytes() == MODEL
    parts = hub.asked(origin="cdn")
    assert [(r.headers.get("range"), r.status) for r in parts] == [
        (None, 200),
        ("bytes=1000-", 0),
        ("bytes=1000-", 206),
    ]
    assert pauses == [1, 1]


def test_the_client_sees_that_a_file_is_too_short(hub: LoopbackHub) -> None:
    hub.faults.add(ShortBody(1000), FILE, origin="cdn")

    with pytest.raises(OSError, match="file should be of size 102400 but has size 1000"):
        hf_hub_download(NAME, FILE)


def test_the_client_does_not_see_that_a_byte_is_wrong(hub: LoopbackHub) -> None:
    hub.faults.add(Corrupt(5), FILE, origin="cdn")

    assert Path(hf_hub_download(NAME, FILE)).read_bytes()[5] == MODEL[5] ^ 0xFF


def test_the_client_names_a_range_it_cannot_have(hub: LoopbackHub) -> None:
    hub.faults.add(Status(416, {"Content-Range": f"bytes */{len(MODEL)}"}), FILE, origin="cdn", times=None)

    with (
        pytest.raises(HfHubHTTPError, match=rf"Requested range: bytes=\d+-\d+. Content-Range: bytes \*/{len(MODEL)}"),
        HfFileSystem().open(f"{NAME}/{FILE}", "rb", block_size=1024) as file,
    ):
        file.read(10)
