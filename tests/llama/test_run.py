"""`tandem run` on the demo pair and on files, as seen by a shell."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.cli.json_keys import JSON_KEYS, TIMINGS
from tests.hanging import HANGS_S
from tests.tandem import run_process, run_python

pytestmark = pytest.mark.native
GREEDY = ["--temp", "0", "--max-tokens", "12"]


def test_json_has_every_promised_number(demo_target: Path, demo_draft: Path) -> None:
    here = ["--device", "cpu", "--draft-device", "cpu", *GREEDY]
    answer = run_process("run", "--target", demo_target, "--draft", demo_draft, "--json", *here, "Name a color.").json

    assert tuple(answer) == JSON_KEYS["run"]
    assert tuple(answer["timings"]) == TIMINGS
    assert set(answer["speculation"]) >= {
        *("mode", "drafter", "n_max", "n_min", "p_min", "verify_steps", "mean_accepted_length"),
        *("accepted_by_position", "draft_ms", "verify_ms", "overhead_ms"),
    }
    assert set(answer["models"]["target"]) == {"name", "file", "quantisation", "size", "vocabulary"}
    assert answer["models"]["draft"]["file"] == demo_draft.name
    assert answer["device"] == "CPU"
    assert (answer["finish_reason"], answer["timings"]["predicted_n"]) == ("length", 12)
    assert (answer["speculation"]["mode"], answer["speculation"]["drafter"]) == ("auto", "model+ngram")
    assert answer["speculation"]["n_max"] is None


_MEASURES = 77
_WITHOUT_MEASURING = f"""
import os, sys
from app.cli import main
from app.llama.pair import NativePair
NativePair.measure_costs = lambda self, cancelled: os._exit({_MEASURES})
sys.exit(main(sys.argv[1:]))
"""


def test_no_run_waits_for_a_measurement_and_each_learns_for_the_next(tmp_path: Path) -> None:
    command = ["-c", _WITHOUT_MEASURING, "run", *GREEDY, "Name a color."]
    learned = []
    for _ in range(2):
        done = run_python(*command, XDG_DATA_HOME=str(tmp_path))
        assert done.out.strip()
        assert done.out.endswith("\n")
        (line,) = done.err.splitlines()
        assert "12 tokens, " in line
        assert "cut at --max-tokens" in line
        (file,) = (tmp_path / "tandem" / "drafting").iterdir()
        learned.append(json.loads(file.read_text()))
    assert learned[0]["estimated"]
    assert learned[1] != learned[0]


def test_the_prompt_from_standard_input_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Name a color.", encoding="utf-8")

    answer = partial(run_process, "run", "--no-draft", *GREEDY)
    told = answer("-", stdin="Name a color.").out
    assert told.strip()
    assert answer("--prompt-file", file).out == told


def test_interrupt_stops_cleanly_with_counters() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "run", "--temp", "0", "Write a very long story about the sea."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    first = b""
    while len(first) < 20:
        first += os.read(process.stdout.fileno(), 20)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANGS_S)

    assert process.returncode == 130
    assert b", first token after " in errors
    assert b"stopped" in errors
    assert b"Traceback" not in errors


def test_a_closed_pipe_is_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "run", "--no-draft", "--temp", "0", "--max-tokens", "300", "Write a long story."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    os.read(process.stdout.fileno(), 1)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()

    assert process.wait(HANGS_S) == 0
    assert b"Traceback" not in errors
