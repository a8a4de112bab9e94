"""Ask llama.cpp in a child process: the program survives whatever happens to the child."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.core.errors import ModelLoadError
from app.llama.child import ChildError, Throughput, ask, probe, probe_throughput
from app.llama.devices import build, devices


def run_instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr("app.llama.child.python_command", lambda *_: (sys.executable, "-c", code))


@pytest.mark.parametrize(
    ("code", "message", "crashed"),
    [
        ("import os, sys; sys.stderr.write('ggml: no memory\\n'); os.abort()", "ABRT: ggml: no memory", True),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal KILL", False),
        ("raise SystemExit(5)", "ended with code 5", False),
        ("", "gave an answer that cannot be read", False),
        ("print('[1]')", "gave an answer that cannot be read", False),
        ("import time; time.sleep(60)", "took longer than 0.5 seconds", True),
    ],
)
def test_a_child_without_an_answer(monkeypatch: pytest.MonkeyPatch, code: str, message: str, crashed: bool) -> None:
    run_instead(monkeypatch, code)
    with pytest.raises(ChildError) as failed:
        ask("devices.report", None, seconds=0.5 if "sleep" in code else 60)
    assert message in str(failed.value)
    assert failed.value.crashed is crashed

    with pytest.raises(ModelLoadError, match="could not list its devices"):
        probe(seconds=0.5 if "sleep" in code else 60)
    if "sleep" not in code:
        assert probe_throughput(1) is None


def test_an_error_of_the_child_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    run_instead(monkeypatch, 'print(\'{"result": null, "message": "It is gone.", "hint": "Look."}\')')
    with pytest.raises(ModelLoadError, match="It is gone"):
        probe()


def test_the_probe_ignores_modules_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A folder of the user's with our names in it must not be imported instead of us.
    for name in ("app", "llama_cpp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)

    found, listed = probe(ram_available=1 << 30)

    assert found == build()
    assert listed == devices(ram_available=1 << 30)


def test_throughput_is_measured_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = probe_throughput(1)
    assert found is not None
    assert 1e8 < found.bytes_per_s < 1e13

    for result, expected in (("[1.5, false]", Throughput(1.5, alone=False)), ("[NaN, true]", None), ("null", None)):
        run_instead(monkeypatch, f'print(\'{{"result": {result}, "message": "", "hint": ""}}\')')
        assert probe_throughput(1) == expected
