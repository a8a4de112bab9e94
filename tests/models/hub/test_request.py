"""Failures between here and Hugging Face: one sentence and one fix for each kind; signals and deadlines of lookups."""

import os
import signal
import threading
from typing import Any

import httpx2
import pytest
from huggingface_hub import close_session, constants

from app.cli import main
from app.cli.pairs_check import find_drafts
from app.core.errors import (
    INTERRUPTED,
    AppError,
    HubError,
    HubTimeoutError,
    NoRepositoryError,
    UnreachableError,
    WaitError,
)
from app.models.catalog import Pair
from app.models.hub.client import repository
from app.models.hub.request import host, sentence, wait_asked
from app.models.model_facts import ModelFacts
from app.models.resolve import facts_of, resolve
from app.models.source import HubModel
from tests.hanging import HANGS_S
from tests.models.hub.faults import (
    Fault,
    Stall,
    bad_json,
    captive_portal,
    edit_json,
    rate_limited,
    redirect_loop,
    status,
)
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, CONTENT, DRAFT, TARGET, Watched, looked_at, no_demo, publish
from tests.models.hub.pairs_setting import Setting


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (status(401, {"X-Error-Message": "User Access Token is expired"}), NoRepositoryError, "or it is private"),
        (status(403), HubError, "is denied. A proxy may block it. Also check HF_ENDPOINT"),
        (status(404), HubError, "does not have the requested file or folder. Check the spelling"),
        (status(451), HubError, "refused with status 451"),
        (status(511), HubError, "A network login page may have answered"),
        (rate_limited(7), WaitError, "Rate limit reached."),
        (status(500), WaitError, "(status 500)"),
        (redirect_loop(), HubError, "does not answer like Hugging Face"),
        (status(302, {"Location": "file:///etc/passwd"}), HubError, "does not answer like Hugging Face"),
        (captive_portal(), HubError, "sent an unexpected answer"),
        (status(200, {"Content-Encoding": "gzip"}, "few"), HubError, "sent a compressed answer"),
        (status(404, {"Content-Encoding": "gzip"}, "x" * (8 << 20)), HubError, "does not have the requested file"),
    ],
)
def test_each_answer_is_an_error(hub: LoopbackHub, fault: Fault, kind: type[AppError], said: str) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})
    hub.faults.add(fault, "/api/*", times=None)

    with pytest.raises(HubError) as failed:
        repository(TARGET, "main")
    assert type(failed.value) is kind
    assert said in failed.value.sentences


def commit_of(value: Any) -> Fault:
    """Return a listing with another commit."""
    return edit_json(lambda listing: {**listing, "sha": value})


@pytest.mark.parametrize(
    "fault",
    [
        *map(bad_json, ("", "[]", "null", '{"siblings": 5, "id": "a/b"}', '{"id": "a/b", "sha": "a"', "[" * 100_000)),
        # A commit becomes the name of a folder.
        *map(commit_of, ("..", "a\0b", "..\\x", "C:", "x" * 5000, "~", "a/b", "", None, 7)),
    ],
)
def test_a_listing_of_another_shape_is_an_error(hub: LoopbackHub, fault: Fault) -> None:
    hub.add(TARGET, {"m.gguf": b"x"})
    hub.faults.add(fault, "/api/*", times=None)

    with pytest.raises(HubError, match="unexpected answer"):
        repository(TARGET, "main")


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("owner/nothing", "main", "There is no repository"),
        (TARGET, "v9", "no such revision"),
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


SHORT_S = 0.2


@pytest.fixture(autouse=True)
def no_client_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cancel or a deadline, a Hub lookup never ends."""
    monkeypatch.setattr("app.models.hub.client._REQUEST_TIMEOUT", None)


def stall(hub: LoopbackHub, path: str = "*") -> Stall:
    return hub.faults.add(Stall(), path, times=None)


def target_facts() -> ModelFacts:
    return facts_of(resolve(HubModel(TARGET), no_demo, Watched()), Watched())


@pytest.mark.usefixtures("home", "signals")
@pytest.mark.parametrize(
    ("command", "path", "number"),
    [
        (["setup", *BOTH, "--yes"], "*.gguf", signal.SIGINT),
        (["pairs", "check", TARGET, DRAFT], "/api/models/*", signal.SIGTERM),
        (["pairs", "find", TARGET], "*.gguf", signal.SIGINT),
        (["pairs", "add", "mine", TARGET, DRAFT], "/api/models/*", signal.SIGINT),
    ],
    ids=["setup", "check", "find", "add"],
)
def test_the_first_signal_ends_a_look_up(
    pair: LoopbackHub, command: list[str], path: str, number: signal.Signals
) -> None:
    silent = stall(pair, path)

    def interrupt() -> None:
        silent.reached.wait()
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()

    assert main(command) == INTERRUPTED
    assert not silent.go.is_set()


def test_a_search_for_drafts_ends_with_the_first_deadline(pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_facts()
    drafts = [HubModel(f"owner/draft-{n}") for n in range(3)]
    known = [Pair(str(draft), "", HubModel(f"owner/{target.name}"), draft) for draft in drafts]
    monkeypatch.setattr("app.models.resolve.LOOKUP_S", SHORT_S)
    stall(pair, "/api/models/*")

    with pytest.raises(HubTimeoutError):
        list(find_drafts(target, known, Watched()))
    assert len(pair.asked("/api/models/owner/draft-*")) == 1


@pytest.mark.parametrize(
    ("path", "deadline"), [("/api/models/*", "LOOKUP_S"), ("*.gguf", "HEADER_S")], ids=["listing", "header"]
)
def test_the_host_that_is_waited_for_is_shown(
    pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch, path: str, deadline: str
) -> None:
    monkeypatch.setattr(f"app.models.resolve.{deadline}", SHORT_S)
    file = next(file.path for file in repository(DRAFT, "main").files)
    stall(pair, path)
    told: list[str] = []

    with pytest.raises(HubTimeoutError, match="took longer than 0 s to answer"):
        looked_at(Pair("mine", "", HubModel(DRAFT), None), told.append)
    assert told[-1] == f"Waiting for {host()}: {DRAFT if path.startswith('/api') else file}"


def test_the_screen_that_adds_a_pair_shows_the_host_and_cancels(setting: Setting, hub: LoopbackHub) -> None:
    stall(hub)
    check = setting.service.check(TARGET, "")
    setting.until(lambda: "Waiting for " in (check.progress.header_progress or ""))

    assert setting.service.close(HANGS_S)
