"""Calls of llama.cpp in a child process: the program survives every end of the child."""

import pickle
import sys
from pathlib import Path

import pytest

from app.core.child import ChildError, ask
from app.core.errors import AppError, ModelLoadError
from app.llama.child import probe
from app.llama.devices import build, devices


def run_instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr("app.core.child.python_command", lambda *_: (sys.executable, "-c", code))


@pytest.mark.parametrize(
    ("code", "message", "crashed"),
    [
        ("import os, sys; sys.stderr.write('ggml: no memory\\n'); os.abort()", "crashed: ggml: no memory", True),
        ("import os; os.kill(os.getpid(), 9)", "was killed by the system", False),
        ("raise SystemExit(5)", "ended with code 5", False),
        ("", "gave an answer that cannot be read", False),
        ("print('[1]')", "gave an answer that cannot be read", False),
        ("import time; time.sleep(60)", "took longer than 0.5 seconds", True),
    ],
)
def test_a_child_without_an_answer(monkeypatch: pytest.MonkeyPatch, code: str, message: str, crashed: bool) -> None:
    run_instead(monkeypatch, code)
    with pytest.raises(ChildError) as failed:
        ask("llama.devices.report", None, seconds=0.5 if "sleep" in code else 60)
    assert message in str(failed.value)
    assert failed.value.crashed is crashed

    with pytest.raises(ModelLoadError, match="could not list its devices"):
        probe(seconds=0.5 if "sleep" in code else 60)


def test_an_error_of_the_child_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = pickle.dumps(AppError("It is gone.", "Look."))
    run_instead(monkeypatch, f"import sys; sys.path[:] = {sys.path}; sys.stdout.buffer.write({reply!r})")
    with pytest.raises(AppError, match="It is gone") as caught:
        probe()
    assert caught.value.hint == "Look."


def test_the_probe_ignores_modules_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A user's folder with our names in it must not be imported.
    for name in ("app", "llama_cpp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)

    found, listed = probe(ram_available=1 << 30)

    assert found == build()
    assert listed == devices(ram_available=1 << 30)


def test_throughput_is_measured() -> None:
    assert 1e8 < ask("llama.throughput.throughput", 1) < 1e13
    assert 1e8 < ask("llama.throughput.throughput", 1, True) < 1e13
