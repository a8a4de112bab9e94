"""An HF_ENDPOINT that the hub's client cannot be imported with."""

from __future__ import annotations

import os
import subprocess
import sys


def test_an_endpoint_that_is_no_address_is_a_sentence() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "app", "pairs", "find", "owner/repo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_ENDPOINT": "http://[::1"},
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("tandem: HF_ENDPOINT is no address.\n")
