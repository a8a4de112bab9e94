"""Lookups on a hub that does not answer: a signal ends them at once, and one deadline ends all their attempts."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import main
from app.cli.pairs_check import find_drafts
from app.core.errors import INTERRUPTED, HubTimeoutError
from app.models.catalog import Pair
from app.models.hub.client import repository
from app.models.hub.request import host
from app.models.model_facts import ModelFacts
from app.models.resolve import facts_of, resolve
from app.models.source import HubModel
from tests.models.hub.faults import Stall
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, DRAFT, TARGET, Patient, no_demo, setup_steps
from tests.models.hub.pairs_setting import WAIT_S, Setting

SHORT_S = 0.2
TERM = getattr(signal, "SIGTERM", signal.SIGINT)


@pytest.fixture(autouse=True)
def no_client_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cancel or a deadline, a Hub lookup never ends."""
    monkeypatch.setattr("app.models.hub.client._REQUEST_TIMEOUT", None)


@pytest.fixture
def default_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, TERM)}
    signal.signal(TERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def stall(hub: LoopbackHub, path: str = "*", after: int | None = None) -> Stall:
    return hub.faults.add(Stall(after), path, times=None)


def target_facts() -> ModelFacts:
    return facts_of(resolve(HubModel(TARGET), no_demo, Patient()), Patient())


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("home", "default_signals")
@pytest.mark.parametrize(
    ("command", "path", "number"),
    [
        (["setup", *BOTH, "--yes"], "*.gguf", signal.SIGINT),
        (["pairs", "check", TARGET, DRAFT], "/api/models/*", TERM),
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


@pytest.mark.timeout(60)
def test_a_search_for_drafts_ends_with_the_first_deadline(pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_facts()
    drafts = [HubModel(f"owner/draft-{n}") for n in range(3)]
    known = [Pair(str(draft), "", HubModel(f"owner/{target.name}"), draft) for draft in drafts]
    monkeypatch.setattr("app.models.resolve.LOOKUP_S", SHORT_S)
    stall(pair, "/api/models/*")

    with pytest.raises(HubTimeoutError):
        list(find_drafts(target, known, lambda _: Patient()))
    assert len(pair.asked("/api/models/owner/draft-*")) == 1


@pytest.mark.parametrize(
    ("path", "deadline"), [("/api/models/*", "LOOKUP_S"), ("*.gguf", "HEADER_S")], ids=["listing", "header"]
)
def test_the_host_that_is_waited_for_is_shown(
    pair: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, deadline: str
) -> None:
    monkeypatch.setattr(f"app.models.resolve.{deadline}", SHORT_S)
    file = next(file.path for file in repository(DRAFT, "main").files)
    stall(pair, path)
    told: list[str] = []

    with pytest.raises(HubTimeoutError, match="took longer than 0 s to answer"):
        setup_steps(tmp_path / "pairs.toml").prepare(Pair("mine", "", HubModel(DRAFT), None), told.append)
    assert told[-1] == f"Waiting for {host()}: {DRAFT if path.startswith('/api') else file}"


@pytest.mark.timeout(60)
def test_the_screen_that_adds_a_pair_shows_the_host_and_cancels(setting: Setting, hub: LoopbackHub) -> None:
    stall(hub)
    setting.service.check_sources(TARGET, "")
    setting.until(
        lambda: (check := setting.service.state().check) is not None and "Waiting for " in check.header_progress
    )

    assert setting.service.close(WAIT_S)
