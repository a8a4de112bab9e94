"""A network that promises IPv6 and carries none of it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import close_session, constants, set_client_factory
from huggingface_hub.utils import _http

from app.core.errors import UnreachableError
from app.models.hub import address_family
from app.models.hub.client import repository
from app.models.hub.environment import is_proxied
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import FILE, NAME

pytestmark = pytest.mark.usefixtures("tiny_repo")
NOWHERE = "2001:db8::1"


class Network:
    """The names and connections of this machine: IPv6 addresses come first, and a connection to one ends as it is told.

    Attributes:
        tried: The IPv6 addresses to which a connection was tried.
        n_named: How often a name was looked up.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends: OSError) -> None:
        self.tried: list[str] = []
        self.n_named = 0
        connect, look_up = socket.socket.connect, socket.getaddrinfo

        def connected(own: socket.socket, address: Any) -> None:
            if own.family == socket.AF_INET6:
                self.tried.append(address[0])
                raise ends
            connect(own, address)

        def looked_up(host: Any, port: Any, *args: Any, **named: Any) -> Any:
            self.n_named += 1
            found = look_up(host, port, *args, **named)
            six = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (NOWHERE, port, 0, 0))] * 8
            return found if named.get("family") or args[:1] == (socket.AF_INET,) else [*six, *found]

        monkeypatch.setattr(socket.socket, "connect", connected)
        monkeypatch.setattr(socket, "getaddrinfo", looked_up)


@pytest.fixture(autouse=True)
def unasked(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has been asked yet, and the client is its own again behind the test."""
    monkeypatch.setattr(address_family, "_asked", set())
    yield
    set_client_factory(_http.default_client_factory)


def test_where_ipv6_is_silent_the_hub_is_asked_by_the_other_family_at_once(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, TimeoutError("silence"))

    assert [file.path for file in repository(NAME, "main").files] == [FILE, "README.md"]
    assert network.tried == [NOWHERE], "one of eight, and that once"
    assert len(hub.asked()) == 1
    close_session()
    repository(NAME, "main")
    assert network.tried == [NOWHERE]


def test_where_ipv6_says_no_the_client_stays_as_it_is(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, ConnectionRefusedError("no"))

    repository(NAME, "main")
    assert len(network.tried) == 1 + 8
    assert _http._GLOBAL_CLIENT_FACTORY is _http.default_client_factory


def test_through_a_proxy_and_offline_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, TimeoutError("silence"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    address_family.leave_out_silent()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    address_family.leave_out_silent()
    assert network.n_named == 0


def test_a_name_that_is_none_is_looked_up_once_and_again_with_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    n_named = 0

    def unknown(*_: object, **__: object) -> None:
        nonlocal n_named
        n_named += 1
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        for n in (1, 2):
            with pytest.raises(UnreachableError, match="cannot be found"):
                repository(NAME, "main")
            assert n_named == n


def test_a_name_that_is_none_is_left_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub..example")

    address_family.leave_out_silent()


def test_a_proxy_for_another_scheme_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")

    assert not is_proxied("hub.example", "https")
    assert is_proxied("hub.example", "http")
