"""The proxies forward, ask for a password and refuse as they were told to, and what that is called."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from huggingface_hub import hf_hub_download, model_info

from app.core.errors import HubError, UnreachableError
from app.models.hub.client import session
from app.models.hub.errors import sentence
from tests.models.hub.faults import Cut
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import CONTENT, MODEL, NAME, Watched, publish
from tests.models.hub.proxy import LoopbackProxy, SocksProxy

pytestmark = pytest.mark.usefixtures("tiny_repo")


def test_the_client_goes_through_the_proxy_of_its_environment(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.endpoint)
        assert Path(hf_hub_download(NAME, "tiny.gguf")).read_bytes() == MODEL
        assert Path(hf_hub_download(NAME, "README.md")).read_bytes() == b"# Tiny\n" * 300
        passed = proxy.requests
    assert passed[0].target == f"{hub.endpoint}/{NAME}/resolve/main/tiny.gguf"
    assert len(passed) == len(hub.asked())
    assert [r.status for r in passed] == [r.status for r in hub.asked()]
    assert proxy.errors == []


def test_a_proxy_that_wants_a_password(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackProxy(credentials="me:secret") as proxy:
        address = f"{hub.endpoint}/api/models/{NAME}"
        assert httpx2.get(address, proxy=proxy.endpoint).status_code == 407
        assert hub.asked() == []
        monkeypatch.setenv("HTTP_PROXY", proxy.endpoint.replace("http://", "http://me:secret@"))
        assert model_info(NAME).id == NAME
    (asked,) = hub.asked()
    assert "proxy-authorization" not in asked.headers


def test_what_breaks_behind_the_proxy_breaks_before_it(hub: LoopbackHub) -> None:
    hub.faults.add(Cut(1000), "tiny.gguf", origin="cdn")

    with LoopbackProxy() as proxy, httpx2.Client(proxy=proxy.endpoint, follow_redirects=True) as client:
        with pytest.raises(httpx2.RemoteProtocolError, match="received 1000 bytes, expected 102400"):
            client.get(f"{hub.endpoint}/{NAME}/resolve/main/tiny.gguf")
        assert client.get("http://127.0.0.1:1/").status_code == 502
        with pytest.raises(httpx2.ProxyError):
            client.get("https://127.0.0.1:1/")


def refused_by(endpoint: str) -> httpx2.HTTPError:
    """What the client raises where this proxy does not connect it."""
    with httpx2.Client(proxy=endpoint) as client, pytest.raises(httpx2.HTTPError) as failed:
        client.get("https://hub.invalid/")
    return failed.value


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_proxy_whose_network_is_away_is_a_network_that_is_away(status: int) -> None:
    with LoopbackProxy(tunnels=status) as proxy:
        said = sentence(refused_by(proxy.endpoint), NAME)
    assert isinstance(said, UnreachableError)
    assert said.message.startswith("The proxy cannot reach ")
    assert f": {status}" in said.message


@pytest.mark.parametrize("reply", [1, 3, 4, 5, 6])
def test_so_it_is_of_a_socks_proxy(reply: int) -> None:
    with SocksProxy(reply) as proxy:
        said = sentence(refused_by(proxy.endpoint), NAME)
    assert isinstance(said, UnreachableError)
    assert "could not connect" not in said.message, "the reason is enough"


@pytest.mark.parametrize("status", [403, 407, 501])
def test_what_a_proxy_refuses_is_not_waited_for(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with LoopbackProxy(tunnels=status) as proxy:
        said = sentence(refused_by(proxy.endpoint), NAME)
    assert type(said) is HubError
    assert ("requires a password" in said.message) == (status == 407)
    assert "PROXY" in said.hint


@pytest.mark.parametrize("reply", [2, 7, 8])
def test_what_a_socks_proxy_refuses_is_not_waited_for(reply: int) -> None:
    with SocksProxy(reply) as proxy:
        said = sentence(refused_by(proxy.endpoint), NAME)
    assert type(said) is HubError


def test_a_proxy_that_says_nothing_for_long_is_a_network_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = httpx2.ReadTimeout("timed out")
    assert not isinstance(sentence(silence, NAME), UnreachableError), "the hub itself is silent"
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert isinstance(sentence(silence, NAME), UnreachableError)


def test_a_download_waits_for_the_network_behind_a_proxy(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub)
    tries = iter(range(100))

    def behind_proxy() -> httpx2.Client:
        if next(tries, None) is not None:
            raise failure
        return session()

    with LoopbackProxy(tunnels=503) as proxy:
        failure = refused_by(proxy.endpoint)
    monkeypatch.setattr("app.models.hub.client.session", behind_proxy)
    watched = Watched(attempts=8)

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert sum(watched.pauses) > 3600
