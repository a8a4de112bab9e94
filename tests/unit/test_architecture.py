"""What a static graph cannot see: which libraries a command really loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"llama_cpp", "textual", "numpy", "jinja2", "rich", "asyncio", "platformdirs"}


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*{{m.split('.')[0] for m in sys.modules}})"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_help_loads_nothing_heavy() -> None:
    code = "from app.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"

    assert not loaded_by(code) & HEAVY


@pytest.mark.parametrize(
    ("module", "foreign"),
    [
        ("app.engine.generator", HEAVY - {"numpy"}),
        ("app.responder", HEAVY - {"numpy"}),
        ("app.worker", HEAVY - {"numpy"}),
        ("app.catalog", {"llama_cpp", "textual"}),
        ("app.cli.options", {"llama_cpp", "textual", "rich"}),
        ("app.cli.loading", {"llama_cpp", "textual", "rich"}),
        ("app.llama", {"llama_cpp"}),
    ],
)
def test_a_module_loads_only_its_own_libraries(module: str, foreign: set[str]) -> None:
    assert not loaded_by(f"import {module}") & foreign


def test_the_screen_does_not_load_llama_cpp() -> None:
    assert "llama_cpp" not in loaded_by("import app.ui.app")
