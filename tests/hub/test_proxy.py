"""The proxy forwards, and asks for a password where it was told to."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from huggingface_hub import hf_hub_download, model_info

from tests.hub.faults import Cut
from tests.hub.loopback import LoopbackHub
from tests.hub.models import MODEL, NAME
from tests.hub.proxy import LoopbackProxy

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
