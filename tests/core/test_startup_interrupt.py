"""Ctrl+C while the program still imports its own modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.core.errors import INTERRUPTED

INTERRUPT = """
import signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
"""Sends SIGINT to the process as soon as it imports a module; `sitecustomize` runs before any other code."""


@pytest.mark.parametrize(
    ("command", "module"),
    [
        (["-m", "app", "pairs", "list"], "app.core.errors"),
        (["-c", "import sys; from app.cli import main; sys.exit(main(['pairs', 'list']))"], "app.cli.command_line"),
    ],
    ids=["module", "script"],
)
def test_ctrl_c_during_startup_is_silent(tmp_path: Path, command: list[str], module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT.format(module=module))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    done = subprocess.run([sys.executable, *command], env=environ, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")
