"""What a connection that says nothing tells of the server at its other end."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from app.core.errors import RemoteError
from app.hardware import liveness
from app.hardware.liveness import LivenessProbe
from app.hardware.rpc import Endpoint


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that accepts nobody, as one that is stopped or works for another."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as made:
        yield made


@pytest.fixture
def probe(listener: socket.socket) -> Iterator[LivenessProbe]:
    made = LivenessProbe(Endpoint("127.0.0.1", listener.getsockname()[1]), 5.0)
    yield made
    made.close()


def test_a_server_that_is_busy_or_stopped_is_there(listener: socket.socket, probe: LivenessProbe) -> None:
    assert [probe.trouble() for _ in range(5)] == [""] * 5

    # One place in its queue, however often it is looked after.
    listener.accept()[0].close()
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_one_that_ends_is_gone(listener: socket.socket, probe: LivenessProbe) -> None:
    assert probe.trouble() == ""
    port = listener.getsockname()[1]
    listener.close()

    assert probe.trouble().startswith(f"127.0.0.1:{port} c")
    assert probe.trouble() == f"127.0.0.1:{port} cannot be reached: Connection refused"


def test_one_that_closes_the_connection(listener: socket.socket, probe: LivenessProbe) -> None:
    assert probe.trouble() == ""
    connection = listener.accept()[0]
    connection.shutdown(socket.SHUT_WR)

    assert probe.trouble().endswith(" closed the connection")
    connection.close()


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH)), "a:5 cannot be reached: No route to host"),
        # A queue that is full looks the same, and a name is no connection.
        (TimeoutError("timed out"), ""),
        (RemoteError("a:5 cannot be found."), ""),
    ],
)
def test_what_proves_that_nobody_is_there(monkeypatch: pytest.MonkeyPatch, raised: Exception, told: str) -> None:
    def connect(*_: Any, **__: Any) -> socket.socket:
        raise raised

    monkeypatch.setattr(liveness, "resolve", lambda endpoint, deadline: (endpoint.host, endpoint.port))
    monkeypatch.setattr(socket, "create_connection", connect)

    assert LivenessProbe(Endpoint("a", 5)).trouble() == told


def test_a_machine_that_loses_its_power_is_noticed(probe: LivenessProbe) -> None:
    """The system asks the other end, and breaks the connection where nothing is acknowledged."""
    probe.trouble()

    assert probe._connection is not None
    assert probe._connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    if sys.platform == "linux":
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [probe._connection.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [5, 3, 3]


def test_a_system_without_some_of_the_settings(monkeypatch: pytest.MonkeyPatch, probe: LivenessProbe) -> None:
    monkeypatch.delattr(socket, "TCP_KEEPINTVL", raising=False)

    assert probe.trouble() == ""
