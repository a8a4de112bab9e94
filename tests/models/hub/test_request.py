"""Failures between here and Hugging Face: one sentence and one fix for each kind."""

import httpx2
import pytest
from huggingface_hub import close_session, constants

from app.core.errors import AppError, HubError, NoRepositoryError, UnreachableError, WaitError
from app.models.hub.client import repository
from app.models.hub.request import sentence, wait_asked
from tests.models.hub.faults import Fault, bad_json, captive_portal, rate_limited, redirect_loop, status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import CONTENT, TARGET, Watched, publish


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (status(401, {"X-Error-Message": "User Access Token is expired"}), NoRepositoryError, "or it is private"),
        (status(403), HubError, "is denied. A proxy may block it. Also check HF_ENDPOINT"),
        (status(404), HubError, "does not hold what was asked for. Check the spelling"),
        (status(451), HubError, "refused with status 451"),
        (status(511), HubError, "A network login page may have answered"),
        (rate_limited(7), WaitError, "Rate limit reached."),
        (status(500), WaitError, "(status 500)"),
        (redirect_loop(), HubError, "does not answer like Hugging Face"),
        (status(302, {"Location": "file:///etc/passwd"}), HubError, "does not answer like Hugging Face"),
        (captive_portal(), HubError, "sent an unexpected answer"),
        (bad_json("[" * 100_000), HubError, "sent an unexpected answer"),
        (status(200, {"Content-Encoding": "gzip"}, "few"), HubError, "sent a compressed answer"),
        (status(404, {"Content-Encoding": "gzip"}, "x" * (8 << 20)), HubError, "does not hold what was asked for"),
    ],
)
def test_each_answer_is_an_error(hub: LoopbackHub, fault: Fault, kind: type[AppError], said: str) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})
    hub.faults.add(fault, "/api/*", times=None)

    with pytest.raises(HubError) as failed:
        repository(TARGET, "main")
    assert type(failed.value) is kind
    assert said in failed.value.sentences


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("owner/nothing", "main", "There is no repository"),
        (TARGET, "v9", "no such revision"),
        ("a--b/c..d", "main", "not a valid repository name"),
    ],
)
def test_missing_repositories_and_revisions_are_named(hub: LoopbackHub, name: str, revision: str, message: str) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})

    with pytest.raises(HubError, match=message):
        repository(name, revision)


def test_a_gated_repository_names_the_page_and_how_to_log_in(hub: LoopbackHub) -> None:
    file = publish(hub)
    hub.repos[TARGET].gated = "manual"

    with pytest.raises(HubError, match="accepting its terms") as failed:
        Watched().fetch(file)

    assert f"{hub.endpoint}/{TARGET}" in failed.value.hint
    assert "hf auth login" in failed.value.hint


def test_tokens_reach_the_hub_only_and_bad_ones_are_reported(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    file = publish(hub)
    hub.tokens.add("hf_secret")
    hub.repos[TARGET].gated = "auto"
    hub.repos[TARGET].granted.add("hf_secret")
    for token, said in (("hf_wrong", "does not accept your token"), ("hf_é", "non-ASCII")):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(HubError, match=said):
            repository(TARGET, "main")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")

    assert Watched().fetch(file).read_bytes() == CONTENT
    assert "hf_secret" in hub.asked(file.path, origin="hub")[0].headers["authorization"]
    assert hub.leaks == []


def test_offline_mode_names_its_variable(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    file = publish(hub)
    path = Watched().fetch(file)
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    close_session()

    assert Watched().fetch(file) == path, "the cache still serves"
    with pytest.raises(HubError, match=r"^Offline mode: TRANSFORMERS_OFFLINE is set\."):
        repository(TARGET, "main")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"), HubError, "SSL_CERT_FILE"),
        (httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number"), HubError, "No secure connection"),
        (httpx2.ConnectTimeout("timed out"), UnreachableError, "cannot be reached: timed out"),
        (httpx2.ReadTimeout("timed out"), WaitError, "broke: timed out"),
        (httpx2.RemoteProtocolError("peer closed"), WaitError, "broke: peer closed"),
        (httpx2.ProxyError("407 Proxy Authentication Required"), HubError, "http://user:password@host:port"),
        (httpx2.ProxyError("503 Service Unavailable"), UnreachableError, "cannot be reached: 503"),
    ],
)
def test_network_failures_are_reported_apart(error: httpx2.HTTPError, kind: type[HubError], said: str) -> None:
    found = sentence(error, TARGET)

    assert type(found) is kind
    assert said in found.sentences


@pytest.mark.parametrize("asked", ["\N{SUPERSCRIPT TWO}", "1" * 400, "99999999", "-1", "soon", ""])
def test_an_impossible_wait_is_ignored(asked: str) -> None:
    assert wait_asked({"retry-after": asked}) is None
    assert wait_asked({"ratelimit": f'"api";r=0;t={"9" * 5000}'}) is None


@pytest.mark.parametrize(("name", "value"), [("HTTPS_PROXY", "ftp://proxy"), ("SSL_CERT_FILE", "/no/such.pem")])
def test_a_connection_that_cannot_be_set_up_names_the_variable(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    close_session()

    with pytest.raises(HubError, match="cannot be set up") as failed:
        repository(TARGET, "main")
    assert name in failed.value.hint
