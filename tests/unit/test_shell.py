"""Commands that are shown, as the shell of each system takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.chat import _unwritten
from app.errors import RescuedError, StoreError
from app.shell import command, quoted


@pytest.mark.parametrize(
    ("word", "posix", "windows"),
    [
        ("owner/big-GGUF:Q4_K_M", "owner/big-GGUF:Q4_K_M", "owner/big-GGUF:Q4_K_M"),
        # Single quotes would be part of the name in cmd.exe.
        (r"C:\models\big.gguf", r"'C:\models\big.gguf'", r"C:\models\big.gguf"),
        ("my models/big.gguf", "'my models/big.gguf'", '"my models/big.gguf"'),
        ("a&b", "'a&b'", '"a&b"'),
        ("CUDA0,CUDA1", "CUDA0,CUDA1", '"CUDA0,CUDA1"'),
        ("@main", "@main", '"@main"'),
        ("", "''", '""'),
    ],
)
def test_a_word_is_quoted_as_the_system_wants_it(word: str, posix: str, windows: str) -> None:
    assert (quoted(word, "linux"), quoted(word, "darwin")) == (posix, posix)
    assert (quoted(word, "windows"), quoted(word, "win32")) == (windows, windows)


def test_what_a_disk_refused_to_the_end_is_brought_in_by_a_command_that_can_be_copied() -> None:
    file = Path("home of a user") / "said.json"
    told = _unwritten(RescuedError("The disk is full.", file))
    assert told == f"The disk is full. Later: {command(['tandem', 'import', str(file)])}"
    assert quoted(str(file)) in told
    assert quoted(str(file)) != str(file)
    assert _unwritten(StoreError("The disk is full.", "Free some space.")) == "The disk is full. Free some space."
