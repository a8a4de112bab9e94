"""Check the sampling values that a model file recommends, in llama.cpp's names and in real answers."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.llama.library import native
from app.models.gguf import read_header
from app.settings.checking import recommended
from tests.llama.gguf_files import I32, Typed, pair

pytestmark = pytest.mark.native
ALIGNMENT = 32
N_VALUES_AT, VALUES_AT = 16, 24
KEYS = ("sequence", "top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold", "temp", "penalty_last_n")
MORE_KEYS = ("penalty_repeat", "mirostat", "mirostat_tau", "mirostat_eta")


def recommending(source: Path, path: Path, **values: Any) -> Path:
    """A copy of a real model whose file also holds these values under general.sampling."""
    old, start = source.read_bytes(), read_header(source, tensors=True).n_bytes
    (n_values,) = struct.unpack_from("<Q", old, N_VALUES_AT)
    added = b"".join(pair(f"general.sampling.{key}", value) for key, value in values.items())
    head = old[:N_VALUES_AT] + struct.pack("<Q", n_values + len(values)) + added + old[VALUES_AT:start]
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + old[start + -start % ALIGNMENT :])
    return path


def answer(model: Path, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "app", "run", "--no-draft", "--target", str(model), "--json", "--max-tokens", "12"]
    done = subprocess.run([*command, *flags, "Name a color."], capture_output=True, text=True, timeout=120, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_keys_are_those_of_this_llama_cpp() -> None:
    known = [native.llama_model_meta_key_str(key) for key in range(len(KEYS + MORE_KEYS))]

    assert known == [f"general.sampling.{key}".encode() for key in KEYS + MORE_KEYS]


def test_a_real_answer_is_drawn_as_its_file_recommends(demo_target: Path, tmp_path: Path) -> None:
    model = recommending(
        demo_target,
        tmp_path / "m.gguf",
        top_k=Typed(I32, 1),
        temp=1.5,
        top_p=-1.0,
    )
    assert recommended(read_header(model).metadata)["sampling.top_k"] == 1
    greedy, drawn = answer(demo_target, "--temp", "0"), answer(model, "--seed", "3")

    # With one candidate left, the most probable token is drawn.
    assert drawn["text"] == greedy["text"]
    assert (drawn["seed"], greedy["seed"]) == (3, None)
    assert drawn["notices"] == []
