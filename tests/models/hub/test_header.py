"""The header of a model over a bad line: what has come is never asked for again, and what comes is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import HubError, Interrupted
from app.models.catalog import Pair
from app.models.find_drafts import find_drafts
from app.models.gguf import GgufHeader, parse_header
from app.models.hub import cache
from app.models.hub.choose import RemoteFile
from app.models.hub.client import bytes_behind, repository
from app.models.hub.header import read_remote_header
from app.models.hub.request import LOOKUP_S, RetryPolicy
from app.models.progress import Looking
from app.models.registry import Registry
from app.models.resolve import facts_of, resolve
from app.models.setup import Setup
from app.models.source import HubModel
from tests.models.hub.faults import Corrupt, Cut, Drop, Fault, IgnoreRange, Status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, RETRY, TARGET, Watched, no_demo, tiny

NAME = "big-Q4_K_M.gguf"
LONG = "a" * 3_000_000
"""A value that makes a header of three megabytes."""


def never() -> bool:
    return False


class Line:
    """A file on the hub whose header is read.

    Attributes:
        content: The file.
        n_header: Bytes of its header.
    """

    def __init__(self, hub: LoopbackHub, content: bytes) -> None:
        hub.add(TARGET, {NAME: content})
        self.hub = hub
        self.content = content
        self.n_header = parse_header(content, tensors=True).n_bytes
        self.commit = repository(TARGET, "main").commit
        self.file: RemoteFile = repository(TARGET, "main").files[0]
        self.watched = Watched()

    def came_before(self, kept: bytes) -> None:
        """A download that was cut has left this."""
        part = cache.partial(TARGET, self.file)
        part.parent.mkdir(parents=True)
        part.write_bytes(kept)

    def read(self, retry: RetryPolicy = RETRY) -> GgufHeader:
        return read_remote_header(TARGET, self.commit, self.file, retry, self.watched)

    @property
    def ranges(self) -> list[str]:
        """What was asked of the CDN, by the first byte."""
        return [r.headers["range"].removeprefix("bytes=").partition("-")[0] for r in self.hub.asked(origin="cdn")]


@pytest.fixture
def line(hub: LoopbackHub, tmp_path: Path) -> Line:
    return Line(hub, tiny(tmp_path / "made"))


def test_a_header_that_a_cut_download_has_left_is_not_asked_for(line: Line) -> None:
    line.came_before(line.content[: line.n_header + 100])

    assert line.read().architecture == "llama"
    assert line.ranges == []


def test_content_that_lacks_only_its_name_is_not_asked_for(line: Line) -> None:
    content = cache.blob(TARGET, line.file)
    content.parent.mkdir(parents=True)
    content.write_bytes(line.content)

    assert line.read().architecture == "llama"
    assert line.ranges == []


@pytest.mark.parametrize("fault", [Fault(), IgnoreRange(), Drop(), Cut(100), Cut(100, reset=True), Status(416)])
def test_only_what_a_cut_download_lacks_of_a_header_is_asked_for(line: Line, fault: Fault) -> None:
    line.hub.faults.add(fault, NAME, origin="cdn", times=1)
    line.came_before(line.content[:1000])

    assert line.read().metadata == parse_header(line.content).metadata
    assert line.ranges[0] == "1000"


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(lambda whole, n: b"GGUX" + whole[4:n], id="not-a-model"),
        pytest.param(lambda whole, n: whole[:16] + b"\xff" * 8 + whole[24:n], id="damaged"),
        pytest.param(lambda whole, n: whole[:16] + b"\xff" * 8 + whole[24:], id="damaged-whole"),
        pytest.param(lambda whole, n: whole[: n // 2] + bytes(8192), id="hole-in-the-header"),
        pytest.param(lambda whole, n: whole[: n // 3] + b"\xff" * 40, id="damaged-behind"),
        pytest.param(lambda whole, n: whole + b"more", id="too-long"),
        pytest.param(lambda whole, n: b"", id="empty"),
    ],
)
def test_what_lies_here_is_believed_only_as_far_as_it_can_be(line: Line, kept: Callable[[bytes, int], bytes]) -> None:
    line.came_before(kept(line.content, line.n_header))

    assert line.read().metadata == parse_header(line.content).metadata


def test_a_hole_in_a_value_is_not_taken_for_the_value(hub: LoopbackHub, tmp_path: Path) -> None:
    line = Line(hub, tiny(tmp_path / "made", general__long=LONG))
    line.came_before(line.content[:1_000_000] + bytes(8192) + line.content[1_008_192 : line.n_header])

    assert line.read().metadata["general.long"] == LONG


@pytest.mark.parametrize("n_kept", [0, 1000, 2_000_000])
def test_only_what_lies_here_is_not_believed_to_have_a_long_header(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_kept: int
) -> None:
    line = Line(hub, tiny(tmp_path / "made", general__long=LONG))
    monkeypatch.setattr("app.models.hub.header._LARGEST_KEPT", 1 << 20)
    if n_kept:
        line.came_before(line.content[:n_kept])

    assert line.read().metadata["general.long"] == LONG


def test_a_line_that_breaks_all_the_time_brings_every_byte_once(line: Line) -> None:
    line.hub.faults.add(Cut(500), NAME, origin="cdn", times=None)

    assert line.read().architecture == "llama"
    assert len(line.ranges) > 5
    assert line.ranges == [str(500 * n) for n in range(len(line.ranges))]
    assert line.watched.came < line.n_header + 500


@pytest.mark.parametrize("fault", [Drop(), Status(503)])
def test_without_a_new_byte_it_ends_soon(line: Line, fault: Fault) -> None:
    line.hub.faults.add(Cut(500), NAME, origin="cdn", times=2)
    line.hub.faults.add(fault, NAME, origin="cdn", times=None)

    with pytest.raises(HubError) as failed:
        line.read()
    assert failed.value.hint.endswith("Try again to continue.")
    assert line.ranges == ["0", "500", "1000", "1000"], "the third failure in a row"


def test_header_retries_end_before_the_deadline(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2

    def gone() -> httpx2.Client:
        raise httpx2.ConnectError("gone")

    monkeypatch.setattr("app.models.hub.client.session", gone)
    now = 0.0
    monkeypatch.setattr("app.models.hub.request.monotonic", lambda: now)

    def pause(seconds: float) -> bool:
        nonlocal now
        now += seconds
        return False

    with pytest.raises(HubError, match="cannot be reached"):
        line.read(RetryPolicy(pause))
    assert 0 < now <= LOOKUP_S


def test_a_byte_that_is_wrong_on_the_way_is_no_model(line: Line) -> None:
    line.hub.faults.add(Corrupt(0), NAME, origin="cdn", times=None)

    with pytest.raises(HubError, match="not a GGUF model"):
        line.read()


@pytest.mark.parametrize("step_s", [0.0, 20.0])
def test_on_a_slow_line_little_comes_in_vain(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    line = Line(hub, tiny(tmp_path / "made", general__long=LONG) + bytes(20 << 20))
    looks: list[int] = []
    now = 0.0

    def slow_bytes(*args: Any) -> Iterator[memoryview]:
        nonlocal now
        for piece in bytes_behind(*args):
            now += step_s
            yield piece

    def look(data: bytes, *, tensors: bool) -> GgufHeader:
        nonlocal now
        looks.append(len(data))
        now += 1.0
        return parse_header(data, tensors=tensors)

    monkeypatch.setattr("app.models.hub.header.bytes_behind", slow_bytes)
    monkeypatch.setattr("app.models.hub.header.parse_header", look)
    monkeypatch.setattr("app.models.hub.header.monotonic", lambda: now)

    assert line.read().metadata["general.long"] == LONG
    if step_s:
        assert line.watched.came < line.n_header + (1 << 18)
    else:
        assert len(looks) < 12, "each begins at the first byte"


def test_a_stop_is_heard_between_two_pieces(line: Line) -> None:
    with pytest.raises(Interrupted):
        read_remote_header(TARGET, line.commit, line.file, RetryPolicy(lambda seconds: True, cancelled=lambda: True))


def test_how_headers_come_is_told(hub: LoopbackHub, tmp_path: Path) -> None:
    line = Line(hub, tiny(tmp_path / "made", general__long=LONG))
    hub.add(DRAFT, {"small-Q8_0.gguf": tiny(tmp_path / "made", "draft.gguf")})
    hub.faults.add(Cut(1_000_000), NAME, origin="cdn", times=1)
    line.came_before(line.content[:500_000])
    told: list[Looking] = []
    steps = Setup(Registry(tmp_path / "pairs.toml"), no_demo)
    steps.retry = RETRY

    steps.prepare(Pair("mine", "Mine", HubModel(TARGET), HubModel(DRAFT)), told.append)

    lines = [one.line for one in told]
    assert lines[0] == f"Looking at {TARGET}"
    assert f"Looking at {NAME}: 0.5 MB of its header" in lines
    assert any(line.startswith("The connection to ") and line.endswith(f"again in 1 s: {NAME}") for line in lines)
    # How far the last piece reaches behind the header is the network's.
    assert any(line.startswith(f"Looking at {NAME}: 3.") for line in lines)
    assert "Looking at small-Q8_0.gguf" in lines


def test_the_drafts_that_are_looked_at_are_told(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add(TARGET, {"big-1b-Q8_0.gguf": tiny(tmp_path) + bytes(1 << 20)})
    hub.add(DRAFT, {"tiny-Q8_0.gguf": tiny(tmp_path)})
    target = facts_of(resolve(HubModel(TARGET), no_demo), RETRY)
    known = Pair("known", "Known", HubModel(f"owner/{target.name}"), HubModel(DRAFT))
    told: list[Looking] = []

    assert list(find_drafts(target, (known,), RETRY, told.append))
    lines = [one.line for one in told if not one.waiting]
    assert lines[:2] == [f"Looking at {DRAFT}", "Looking at tiny-Q8_0.gguf"]
