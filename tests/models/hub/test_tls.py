"""Encrypted connections that fail, and hosts to which the hub sends: who it is and what helps is said of each."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx2
import pytest

from app.core.errors import HubError, UnreachableError
from app.models.hub.client import repository
from app.models.hub.errors import host, sentence
from tests.models.hub.client import PROXY_VARIABLES
from tests.models.hub.faults import Status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import CONTENT, NAME, Watched, publish

pytestmark = pytest.mark.usefixtures("tiny_repo")
SAID = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {} (_ssl.c:1006)"


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        ("unable to get local issuer certificate", "is not trusted", "set SSL_CERT_FILE to its certificate"),
        ("self-signed certificate", "is not trusted", "set SSL_CERT_FILE"),
        ("certificate has expired", "not valid at this time", "Check this machine's clock"),
        ("certificate is not yet valid", "not valid at this time", "Check this machine's clock"),
        (
            "Hostname mismatch, certificate is not valid for 'a'",
            "for another host",
            "A network login page may have answered",
        ),
        ("IP address mismatch, certificate is not valid for '::1'", "for another host", "A network login page"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told(said: str, message: str, hint: str) -> None:
    failure = sentence(httpx2.ConnectError(SAID.format(said)), NAME)
    assert type(failure) is HubError, "waiting does not fix it"
    assert message in failure.message
    assert hint in failure.hint


def test_a_variable_that_is_not_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = httpx2.ConnectError(SAID.format("self-signed certificate in certificate chain"))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/ca.pem")
    assert sentence(failure, NAME).hint.endswith("REQUESTS_CA_BUNDLE is set, but not read for this.")
    monkeypatch.setenv("SSL_CERT_FILE", "/ca.pem")
    assert "REQUESTS" not in sentence(failure, NAME).hint


def test_certificates_that_cannot_be_read_are_no_trouble_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "ca.pem").write_text("nothing")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ssl.SSLError) as caught:
        httpx2.Client()
    said = sentence(caught.value, NAME)
    assert said.message == f"SSL_CERT_FILE names {file}, which holds no certificates."


def test_who_does_not_encrypt_is_not_called_unreachable(hub: LoopbackHub) -> None:
    with pytest.raises(httpx2.ConnectError) as caught, httpx2.Client() as client:
        client.get(hub.endpoint.replace("http:", "https:"))
    said = sentence(caught.value, NAME)
    assert said.message == f"{host()} does not speak TLS."
    assert "begins with http://" in said.hint


@pytest.mark.parametrize("status", [451, 511])
def test_what_no_hub_can_mend_is_not_waited_for(hub: LoopbackHub, status: int) -> None:
    hub.faults.add(Status(status), "/api/*", times=None)
    with pytest.raises(HubError) as caught:
        repository(NAME, "main")
    assert type(caught.value) is HubError
    assert {451: "legal reasons", 511: "requires a login"}[status] in caught.value.message


def test_another_host_to_which_the_hub_sends_is_named(hub: LoopbackHub) -> None:
    commit, file = publish(hub)
    assert host().startswith("127.0.0.1:")
    hub.faults.add(Status(302, {"Location": "http://localhost:9/file"}), file.path, origin="hub")
    watched = Watched()
    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert [reason for reason, _ in watched.waits] == [f"localhost (redirected from {host()}) cannot be reached."]


def test_a_proxy_that_is_not_there_is_not_called_the_hub(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for address, message in (("http://127.0.0.1:9", "reached"), ("http://proxy.invalid:3128", "found")):
        monkeypatch.setenv("HTTP_PROXY", address)
        with pytest.raises(httpx2.HTTPError) as caught, httpx2.Client() as client:
            client.get(f"{hub.endpoint}/api")
        said = sentence(caught.value, NAME)
        assert isinstance(said, UnreachableError)
        assert said.message == f"The proxy for {host()} cannot be {message}."
        assert "HTTP_PROXY" in said.hint
