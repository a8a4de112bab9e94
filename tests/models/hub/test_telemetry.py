"""No command reports to Hugging Face which programs run it, unless the user allows that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.models.hub.environment import disable_telemetry
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET

OPT_OUTS = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")


def test_only_models_are_requested(pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPT_OUTS:
        monkeypatch.delenv(name, raising=False)

    command = [sys.executable, "-m", "app", "pairs", "check", TARGET, DRAFT]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    paths = [request.path for request in pair.asked(origin="hub")]
    assert paths
    assert all(path.startswith((f"/api/models/{TARGET}", f"/api/models/{DRAFT}", "/owner/")) for path in paths), paths


@pytest.mark.parametrize("name", OPT_OUTS)
def test_the_decision_of_the_user_stays(name: str) -> None:
    environ = {name: "0"}
    disable_telemetry(environ)
    assert environ == {name: "0"}
